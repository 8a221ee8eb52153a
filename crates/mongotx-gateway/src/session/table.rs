//! All sessions. What time it is comes from the caller.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{Lsid, slot::Slot};
use crate::failure::{Answer, Failure, codes};

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Sessions that are kept at a time.
    pub(crate) sessions: usize,
    /// How long a session is kept that nobody uses.
    pub(crate) timeout: Duration,
}

/// The sessions by their names.
pub(crate) struct SessionTable {
    limits: Limits,
    slots: Mutex<HashMap<Lsid, Arc<Slot>>>,
}

impl SessionTable {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, slots: Mutex::default() }
    }

    /// The session, made when it is new, and used now.
    ///
    /// # Errors
    /// 261 when there are too many.
    pub(crate) fn get(&self, lsid: &Lsid, now: Instant) -> Answer<Arc<Slot>> {
        let mut slots = self.slots();
        if let Some(slot) = slots.get(lsid) {
            slot.touch(now);
            return Ok(Arc::clone(slot));
        }
        if slots.len() >= self.limits.sessions {
            let message = format!("cannot add session {lsid}: there are {} sessions, the limit", slots.len());
            return Err(Failure::new(codes::TOO_MANY_SESSIONS, message));
        }
        let slot = Arc::new(Slot::new(lsid.clone(), now));
        slots.insert(lsid.clone(), Arc::clone(&slot));
        Ok(slot)
    }

    /// A session that is known.
    pub(crate) fn find(&self, lsid: &Lsid) -> Option<Arc<Slot>> {
        self.slots().get(lsid).cloned()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.slots().len()
    }

    /// Every session.
    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        self.slots().values().cloned().collect()
    }

    /// Forgets a session.
    pub(crate) fn remove(&self, lsid: &Lsid) {
        self.slots().remove(lsid);
    }

    /// Forgets the sessions that were not used for too long, and answers them.
    pub(crate) fn expire(&self, now: Instant) -> Vec<Arc<Slot>> {
        let timeout = self.limits.timeout;
        let mut expired = Vec::new();
        self.slots().retain(|_, slot| {
            let keep = now.saturating_duration_since(slot.used()) <= timeout;
            if !keep {
                expired.push(Arc::clone(slot));
            }
            keep
        });
        expired
    }

    /// No code panics while it holds this lock.
    fn slots(&self) -> MutexGuard<'_, HashMap<Lsid, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn lsid(n: u8) -> Lsid {
        Lsid { id: [n; 16], user: Vec::new() }
    }

    fn table(sessions: usize) -> SessionTable {
        SessionTable::new(Limits { sessions, timeout: Duration::from_secs(60) })
    }

    #[test]
    fn one_more_than_the_limit_is_refused_and_known_ones_are_not() {
        let (table, now) = (table(2), Instant::now());
        table.get(&lsid(1), now).unwrap();
        table.get(&lsid(2), now).unwrap();
        assert_eq!(table.get(&lsid(3), now).err().unwrap().code, 261);
        table.get(&lsid(1), now).unwrap();
        table.remove(&lsid(2));
        table.get(&lsid(3), now).unwrap();
    }

    #[test]
    fn sessions_of_two_users_are_two() {
        let (table, now) = (table(9), Instant::now());
        let other = Lsid { user: vec![1], ..lsid(1) };
        assert!(!Arc::ptr_eq(&table.get(&lsid(1), now).unwrap(), &table.get(&other, now).unwrap()));
    }

    #[test]
    fn what_nobody_uses_expires_and_what_is_touched_does_not() {
        let (table, start) = (table(9), Instant::now());
        table.get(&lsid(1), start).unwrap();
        table.get(&lsid(2), start).unwrap();
        table.get(&lsid(2), start + Duration::from_secs(50)).unwrap();
        let expired = table.expire(start + Duration::from_secs(70));
        assert_eq!(expired.iter().map(|slot| slot.lsid.clone()).collect::<Vec<_>>(), [lsid(1)]);
        assert!(table.find(&lsid(1)).is_none() && table.find(&lsid(2)).is_some());
    }
}
