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

use super::{Lsid, entry::SessionEntry};
use crate::{
    activity::transactions::OpenTransaction,
    failure::{Answer, Failure, codes},
};

/// Part of the sessions that are removed together when the table is full: one in so many. To find
/// them, all sessions are looked at.
const EVICTED_PART: usize = 16;
/// Part of the table's sessions that one user may have: one in so many.
const USER_PART: usize = 2;

/// Limits of the table of sessions.
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
    entries: Mutex<Entries>,
}

/// The sessions of the table, and how many each user has.
#[derive(Default)]
struct Entries {
    by_name: HashMap<Lsid, Arc<SessionEntry>>,
    /// Number of sessions of each user who has logged in.
    of_users: HashMap<Vec<u8>, usize>,
    evicted: u64,
}

impl Entries {
    fn insert(&mut self, entry: &Arc<SessionEntry>) {
        let user = &entry.lsid.user;
        if self.by_name.insert(entry.lsid.clone(), Arc::clone(entry)).is_none() && !user.is_empty() {
            *self.of_users.entry(user.clone()).or_default() += 1;
        }
    }

    fn remove(&mut self, lsid: &Lsid) -> Option<Arc<SessionEntry>> {
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
        let is_meant = |entry: &&Arc<SessionEntry>| user.is_none_or(|user| entry.lsid.user == user) && is_idle(entry);
        let mut idle: Vec<(Instant, Lsid)> =
            self.by_name.values().filter(is_meant).map(|entry| (entry.used(), entry.lsid.clone())).collect();
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

/// Returns true if a command runs in the session: it has a reference to that beside the table's.
fn is_in_use(entry: &Arc<SessionEntry>) -> bool {
    Arc::strong_count(entry) > 1
}

/// Returns true if no command runs in the session, and it holds no result that its client may need
/// again.
fn is_idle(entry: &Arc<SessionEntry>) -> bool {
    !is_in_use(entry) && entry.try_check_out().is_some_and(|work| !work.is_worth_keeping())
}

impl SessionTable {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits: RwLock::new(limits), entries: Mutex::default() }
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
    pub(crate) fn get(&self, lsid: &Lsid, now: Instant) -> Answer<Arc<SessionEntry>> {
        let mut entries = self.entries();
        if let Some(entry) = entries.by_name.get(lsid) {
            entry.touch(now);
            return Ok(Arc::clone(entry));
        }
        let limit = self.limits().sessions;
        let of_user = (limit / USER_PART).max(1);
        if entries.count_of(&lsid.user) >= of_user && !entries.evict(Some(&lsid.user)) {
            let message = format!(
                "cannot add session {lsid}: the user has {of_user} sessions with transactions or retryable writes, half of the limit \
                 (--max-sessions)"
            );
            return Err(Failure::new(codes::TOO_MANY_SESSIONS, message));
        }
        if entries.by_name.len() >= limit && !entries.evict(None) {
            let message = format!(
                "cannot add session {lsid}: there are {limit} sessions with transactions or retryable writes, the limit \
                 (--max-sessions)"
            );
            return Err(Failure::new(codes::TOO_MANY_SESSIONS, message));
        }
        let entry = Arc::new(SessionEntry::new(lsid.clone(), now));
        entries.insert(&entry);
        Ok(entry)
    }

    /// Notes that a session was used now. One that is not in the table is as good as a new one.
    pub(crate) fn refresh(&self, lsid: &Lsid, now: Instant) {
        if let Some(entry) = self.entries().by_name.get(lsid) {
            entry.touch(now);
        }
    }

    /// A session that is known.
    pub(crate) fn find(&self, lsid: &Lsid) -> Option<Arc<SessionEntry>> {
        self.entries().by_name.get(lsid).cloned()
    }

    /// Number of sessions in the table.
    pub(crate) fn count(&self) -> usize {
        self.entries().by_name.len()
    }

    /// Number of sessions that have made room for others.
    pub(crate) fn evicted(&self) -> u64 {
        self.entries().evicted
    }

    /// Keys of the sessions that are wanted. References to the sessions themselves would keep those
    /// from making room.
    pub(crate) fn names(&self, is_wanted: impl Fn(&SessionEntry) -> bool) -> Vec<Lsid> {
        let entries = self.entries();
        entries.by_name.values().filter(|entry| is_wanted(entry)).map(|entry| entry.lsid.clone()).collect()
    }

    /// The open transactions of the sessions that are wanted, as others see them: at most so many.
    pub(crate) fn shown(&self, most: usize, is_wanted: impl Fn(&Lsid) -> bool) -> Vec<(Lsid, Arc<OpenTransaction>)> {
        let entries = self.entries();
        let wanted = entries.by_name.values().filter(|entry| is_wanted(&entry.lsid));
        wanted.filter_map(|entry| Some((entry.lsid.clone(), entry.shown()?))).take(most).collect()
    }

    /// Removes a session, whatever its state.
    pub(crate) fn remove(&self, lsid: &Lsid) {
        self.entries().remove(lsid);
    }

    /// Forgets a session that was killed, unless it is worth keeping.
    pub(crate) fn release(&self, entry: Arc<SessionEntry>) {
        let mut entries = self.entries();
        let lsid = entry.lsid.clone();
        drop(entry);
        if entries.by_name.get(&lsid).is_some_and(is_idle) {
            entries.remove(&lsid);
        }
    }

    /// Forgets the sessions that were not used for too long, and answers them. One in which a
    /// command runs is being used.
    pub(crate) fn expire(&self, now: Instant) -> Vec<Arc<SessionEntry>> {
        let mut entries = self.entries();
        let timeout = self.limits().timeout;
        for entry in entries.by_name.values().filter(|entry| is_in_use(entry)) {
            entry.touch(now);
        }
        let is_old = |entry: &&Arc<SessionEntry>| now.saturating_duration_since(entry.used()) > timeout;
        let old: Vec<Lsid> = entries.by_name.values().filter(is_old).map(|entry| entry.lsid.clone()).collect();
        old.iter().filter_map(|lsid| entries.remove(lsid)).collect()
    }

    /// No code panics while it holds this lock.
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
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
        let entry = table.get(lsid, Instant::now()).unwrap();
        let mut work = entry.try_check_out().unwrap();
        work.machine.handle(1, Event::Begin).unwrap();
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
        assert_eq!(table.entries().of_users.len(), 0);
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
    fn a_session_in_which_a_command_runs_is_used_until_the_command_ends() {
        let (table, start) = (table(9), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let running = table.get(&lsid(1), start).unwrap();
        assert!(table.expire(at(70)).is_empty());
        drop(running);
        assert!(table.expire(at(120)).is_empty(), "not used for 50 seconds");
        assert_eq!(table.expire(at(140)).len(), 1);
    }

    #[test]
    fn sessions_of_two_users_are_two() {
        let (table, now) = (table(9), Instant::now());
        let other = Lsid { user: vec![1], ..lsid(1) };
        assert!(!Arc::ptr_eq(&table.get(&lsid(1), now).unwrap(), &table.get(&other, now).unwrap()));
    }

    #[test]
    fn what_is_unused_expires_and_what_is_touched_does_not() {
        let (table, start) = (table(9), Instant::now());
        table.get(&lsid(1), start).unwrap();
        table.get(&lsid(2), start).unwrap();
        table.get(&lsid(2), start + Duration::from_secs(50)).unwrap();
        let expired = table.expire(start + Duration::from_secs(70));
        assert_eq!(expired.iter().map(|entry| entry.lsid.clone()).collect::<Vec<_>>(), [lsid(1)]);
        assert!(table.find(&lsid(1)).is_none() && table.find(&lsid(2)).is_some());
    }
}
