//! The table of sessions. The caller passes the time.
//!
//! A session is worth keeping if its client may need its state: an open or committed transaction,
//! or the results of a retryable write. The others are as good as new ones, so they make room, the
//! oldest first, before a new session is refused. A user who logs in has half of the room at most,
//! and makes it among the user's own sessions first: no user can lock the others out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, Instant},
};

use super::{Lsid, slot::Slot};
use crate::{
    activity::transactions::OpenTransaction,
    failure::{Answer, Failure, codes},
};

/// Sessions that make room at a time: one in so many. Looking for them costs a look at all.
const EVICTED_PART: usize = 16;
/// One user may have one part of the sessions in so many.
const USER_PART: usize = 2;

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Sessions that are kept at a time.
    pub(crate) sessions: usize,
    /// Time after which an unused session is removed.
    pub(crate) timeout: Duration,
}

/// The sessions by their names.
pub(crate) struct SessionTable {
    limits: RwLock<Limits>,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    by_name: HashMap<Lsid, Arc<Slot>>,
    /// Number of sessions of each user who has logged in.
    of_users: HashMap<Vec<u8>, usize>,
    evicted: u64,
}

impl Slots {
    fn insert(&mut self, slot: &Arc<Slot>) {
        let user = &slot.lsid.user;
        if self.by_name.insert(slot.lsid.clone(), Arc::clone(slot)).is_none() && !user.is_empty() {
            *self.of_users.entry(user.clone()).or_default() += 1;
        }
    }

    fn remove(&mut self, lsid: &Lsid) -> Option<Arc<Slot>> {
        let removed = self.by_name.remove(lsid)?;
        if let Some(count) = self.of_users.get_mut(&lsid.user) {
            *count -= 1;
            if *count == 0 {
                self.of_users.remove(&lsid.user);
            }
        }
        Some(removed)
    }

    fn count_of(&self, user: &[u8]) -> usize {
        self.of_users.get(user).copied().unwrap_or(0)
    }

    /// Removes some of the sessions that are not worth keeping, the oldest first: of this user, or
    /// of all users. False: there are none.
    fn evict(&mut self, user: Option<&[u8]>) -> bool {
        let is_meant = |slot: &&Arc<Slot>| user.is_none_or(|user| slot.lsid.user == user) && is_idle(slot);
        let mut idle: Vec<(Instant, Lsid)> =
            self.by_name.values().filter(is_meant).map(|slot| (slot.used(), slot.lsid.clone())).collect();
        let some = idle.len().min(self.by_name.len() / EVICTED_PART + 1);
        if some > 0 && some < idle.len() {
            idle.select_nth_unstable(some);
        }
        for (_, lsid) in &idle[..some] {
            self.remove(lsid);
            self.evicted += 1;
        }
        some > 0
    }
}

/// Returns true if no command runs in the session, and it holds no result that its client may need
/// again.
fn is_idle(slot: &Arc<Slot>) -> bool {
    // A running command has a reference to its session, too.
    Arc::strong_count(slot) == 1 && slot.try_check_out().is_some_and(|work| !work.is_worth_keeping())
}

impl SessionTable {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits: RwLock::new(limits), slots: Mutex::default() }
    }

    /// Sets new limits for the table.
    pub(crate) fn limit(&self, limits: Limits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    fn limits(&self) -> Limits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session, which is made if it is new; it counts as used now.
    ///
    /// # Errors
    /// 261 when there are too many that are worth keeping, of all users or of this one.
    pub(crate) fn get(&self, lsid: &Lsid, now: Instant) -> Answer<Arc<Slot>> {
        let mut slots = self.slots();
        if let Some(slot) = slots.by_name.get(lsid) {
            slot.touch(now);
            return Ok(Arc::clone(slot));
        }
        let limit = self.limits().sessions;
        let of_user = (limit / USER_PART).max(1);
        if slots.count_of(&lsid.user) >= of_user && !slots.evict(Some(&lsid.user)) {
            let message = format!(
                "cannot add session {lsid}: the user has {of_user} sessions with transactions or retryable writes, half of the limit \
                 (--max-sessions)"
            );
            return Err(Failure::new(codes::TOO_MANY_SESSIONS, message));
        }
        if slots.by_name.len() >= limit && !slots.evict(None) {
            let message = format!(
                "cannot add session {lsid}: there are {limit} sessions with transactions or retryable writes, the limit \
                 (--max-sessions)"
            );
            return Err(Failure::new(codes::TOO_MANY_SESSIONS, message));
        }
        let slot = Arc::new(Slot::new(lsid.clone(), now));
        slots.insert(&slot);
        Ok(slot)
    }

    /// Notes that a session was used now. One that is not in the table is as good as a new one.
    pub(crate) fn refresh(&self, lsid: &Lsid, now: Instant) {
        if let Some(slot) = self.slots().by_name.get(lsid) {
            slot.touch(now);
        }
    }

    /// A session that is known.
    pub(crate) fn find(&self, lsid: &Lsid) -> Option<Arc<Slot>> {
        self.slots().by_name.get(lsid).cloned()
    }

    /// Number of sessions in the table.
    pub(crate) fn count(&self) -> usize {
        self.slots().by_name.len()
    }

    /// Number of sessions that have made room for others.
    pub(crate) fn evicted(&self) -> u64 {
        self.slots().evicted
    }

    /// Keys of the sessions that are wanted. References to the sessions themselves would keep those
    /// from making room.
    pub(crate) fn names(&self, is_wanted: impl Fn(&Slot) -> bool) -> Vec<Lsid> {
        let slots = self.slots();
        slots.by_name.values().filter(|slot| is_wanted(slot)).map(|slot| slot.lsid.clone()).collect()
    }

    /// The open transactions of the sessions that are wanted, as others see them: at most so many.
    pub(crate) fn shown(&self, most: usize, is_wanted: impl Fn(&Lsid) -> bool) -> Vec<(Lsid, Arc<OpenTransaction>)> {
        let slots = self.slots();
        let wanted = slots.by_name.values().filter(|slot| is_wanted(&slot.lsid));
        wanted.filter_map(|slot| Some((slot.lsid.clone(), slot.shown()?))).take(most).collect()
    }

    /// Removes a session.
    pub(crate) fn remove(&self, lsid: &Lsid) {
        self.slots().remove(lsid);
    }

    /// Forgets a session that was killed, unless it is worth keeping.
    pub(crate) fn release(&self, slot: Arc<Slot>) {
        let mut slots = self.slots();
        let lsid = slot.lsid.clone();
        drop(slot);
        if slots.by_name.get(&lsid).is_some_and(is_idle) {
            slots.remove(&lsid);
        }
    }

    /// Forgets the sessions that were not used for too long, and answers them.
    pub(crate) fn expire(&self, now: Instant) -> Vec<Arc<Slot>> {
        let mut slots = self.slots();
        let timeout = self.limits().timeout;
        let is_old = |slot: &&Arc<Slot>| now.saturating_duration_since(slot.used()) > timeout;
        let old: Vec<Lsid> = slots.by_name.values().filter(is_old).map(|slot| slot.lsid.clone()).collect();
        old.iter().filter_map(|lsid| slots.remove(lsid)).collect()
    }

    /// No code panics while it holds this lock.
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::session::machine::{End, Event};

    fn lsid(n: u8) -> Lsid {
        Lsid { id: [n; 16], user: Vec::new() }
    }

    fn of_user(user: u8, n: u8) -> Lsid {
        Lsid { user: vec![user], ..lsid(n) }
    }

    fn table(sessions: usize) -> SessionTable {
        SessionTable::new(Limits { sessions, timeout: Duration::from_secs(60) })
    }

    /// A session whose transaction is committed.
    fn committed(table: &SessionTable, lsid: &Lsid) {
        let slot = table.get(lsid, Instant::now()).unwrap();
        let mut work = slot.try_check_out().unwrap();
        work.machine.on(1, Event::Begin).unwrap();
        work.machine.ended(End::Committed);
    }

    #[test]
    fn one_more_than_the_limit_is_refused_and_known_ones_are_not() {
        let (table, now) = (table(2), Instant::now());
        committed(&table, &lsid(1));
        committed(&table, &lsid(2));
        let refused = table.get(&lsid(3), now).err().unwrap();
        assert!(refused.code == 261 && refused.message.contains("--max-sessions"), "{}", refused.message);
        table.get(&lsid(1), now).unwrap();
        table.remove(&lsid(2));
        table.get(&lsid(3), now).unwrap();
    }

    #[test]
    fn who_is_not_worth_keeping_makes_room_the_oldest_first() {
        let (table, start) = (table(3), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        committed(&table, &lsid(1));
        table.get(&lsid(2), at(5)).unwrap();
        table.get(&lsid(3), at(4)).unwrap();
        table.get(&lsid(4), at(6)).unwrap();
        let is_there = |n| table.find(&lsid(n)).is_some();
        assert_eq!((is_there(1), is_there(2), is_there(3), is_there(4)), (true, true, false, true));
        assert_eq!((table.count(), table.evicted()), (3, 1));
    }

    #[test]
    fn a_session_in_which_a_command_runs_makes_no_room() {
        let (table, now) = (table(1), Instant::now());
        let running = table.get(&lsid(1), now).unwrap();
        assert_eq!(table.get(&lsid(2), now).err().unwrap().code, 261);
        drop(running);
        table.get(&lsid(2), now).unwrap();
    }

    #[test]
    fn a_user_has_half_of_the_room_at_most() {
        let (table, now) = (table(4), Instant::now());
        committed(&table, &of_user(1, 1));
        committed(&table, &of_user(1, 2));
        assert_eq!(table.get(&of_user(1, 3), now).err().unwrap().code, 261);
        committed(&table, &of_user(2, 1));
        table.remove(&of_user(1, 2));
        table.get(&of_user(1, 3), now).unwrap();
        // The user's own sessions make room first.
        table.get(&of_user(1, 4), now).unwrap();
        assert!(table.find(&of_user(1, 3)).is_none() && table.find(&of_user(2, 1)).is_some());
    }

    #[test]
    fn who_was_killed_is_kept_if_there_is_something_to_be_asked_again() {
        let (table, now) = (table(9), Instant::now());
        committed(&table, &lsid(1));
        table.release(table.find(&lsid(1)).unwrap());
        table.release(table.get(&of_user(1, 1), now).unwrap());
        assert_eq!((table.find(&lsid(1)).is_some(), table.find(&of_user(1, 1)).is_some()), (true, false));
        assert_eq!(table.slots().of_users.len(), 0);
    }

    #[test]
    fn refreshing_makes_no_sessions() {
        let (table, start) = (table(9), Instant::now());
        table.get(&lsid(1), start).unwrap();
        for n in 1..9 {
            table.refresh(&lsid(n), start + Duration::from_secs(50));
        }
        assert!(table.count() == 1 && table.expire(start + Duration::from_secs(70)).is_empty());
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
