//! The open cursors of all clients, by their ids.
//!
//! A user who logs in may have half of them at most, so that one user cannot stop the reads of
//! others.
//!
//! While a command works on a cursor, the cursor is not in the table; one that is killed meanwhile
//! is not taken back, and the command ends.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, Instant},
};

use mongotx::Namespace;
use tokio::sync::oneshot;

use super::OpenCursor;
use crate::{
    api::ApiParameters,
    failure::{Answer, Failure, codes},
    session::{Lsid, info::Mode},
};

/// A user may have the greatest number of cursors, divided by this.
const USER_PART: usize = 2;

/// Limits of the table of open cursors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CursorLimits {
    /// Greatest number of cursors that are open at a time.
    pub(crate) cursors: usize,
    /// Time after which an unused cursor is closed.
    pub(crate) timeout: Duration,
    /// The same for a cursor that was opened with `noCursorTimeout`: the time of an unused session.
    pub(crate) longest: Duration,
}

/// The namespace, user, session and transaction that a cursor belongs to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Owner {
    /// Namespace that the cursor reads.
    pub(crate) namespace: Namespace,
    /// The user's digest; empty where users do not log in.
    pub(crate) user: Vec<u8>,
    /// The session that opened it.
    pub(crate) lsid: Option<Lsid>,
    /// The transaction that opened it.
    pub(crate) number: Option<i64>,
    /// API parameters of the command that opened the cursor.
    pub(crate) api: ApiParameters,
}

/// An open cursor in the table, and when it was used last.
struct Entry {
    owner: Owner,
    /// `None` while a command works on it.
    open: Option<OpenCursor>,
    used: Instant,
    expires: bool,
    /// Dropped with the entry, this tells the command that works on the cursor that it is killed.
    in_use: Option<oneshot::Sender<()>>,
}

/// The open cursors of a gateway, by their ids, within limits.
pub(crate) struct CursorTable {
    limits: RwLock<CursorLimits>,
    entries: Mutex<HashMap<i64, Entry>>,
}

impl CursorTable {
    pub(crate) fn new(limits: CursorLimits) -> Self {
        Self { limits: RwLock::new(limits), entries: Mutex::default() }
    }

    /// Sets the limits that hold from now on.
    pub(crate) fn limit(&self, limits: CursorLimits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    fn limits(&self) -> CursorLimits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a cursor and returns its id. `expires`: it ends when it is not used for a while,
    /// because the client has not set `noCursorTimeout`.
    ///
    /// # Errors
    /// When there are too many, of all users or of this one.
    pub(crate) fn add(&self, owner: Owner, open: OpenCursor, expires: bool, now: Instant) -> Answer<i64> {
        let mut entries = self.entries();
        let limit = self.limits().cursors;
        let of_user = (limit / USER_PART).max(1);
        if entries.len() >= limit {
            let message = format!("cannot open another cursor: {limit} are open, the limit (--max-cursors)");
            return Err(Failure::new(codes::COMMAND_FAILED, message));
        }
        // Below that number there is no need to count.
        let may_be_many = entries.len() >= of_user && !owner.user.is_empty();
        if may_be_many && entries.values().filter(|entry| entry.owner.user == owner.user).count() >= of_user {
            let message =
                format!("cannot open another cursor: the user has {of_user} open, half of the limit (--max-cursors)");
            return Err(Failure::new(codes::COMMAND_FAILED, message));
        }
        let id = loop {
            let id: i64 = rand::random_range(1..=i64::MAX);
            if !entries.contains_key(&id) {
                break id;
            }
        };
        entries.insert(id, Entry { owner, open: Some(open), used: now, expires, in_use: None });
        Ok(id)
    }

    /// Takes a cursor to work on it.
    ///
    /// # Errors
    /// The server's: 43, and those for cursors of other collections, sessions, transactions and API
    /// versions.
    pub(crate) fn check_out(
        &self,
        id: i64,
        namespace: &Namespace,
        user: &[u8],
        mode: &Mode,
        api: ApiParameters,
    ) -> Answer<OpenCursor> {
        let mut entries = self.entries();
        let not_found = || Failure::new(codes::CURSOR_NOT_FOUND, format!("cursor id {id} not found"));
        let entry = entries.get_mut(&id).ok_or_else(not_found)?;
        if entry.owner.user != user {
            let message = format!("cursor id {id} was not created by the authenticated user");
            return Err(Failure::new(codes::UNAUTHORIZED, message));
        }
        check_owner(id, &entry.owner, namespace, mode)?;
        api.check_continues("getMore", "the cursor-creating command", entry.owner.api)?;
        entry.open.take().ok_or_else(|| Failure::new(12_051, format!("cursor id {id} is already in use")))
    }

    /// Ends the cursor that was checked out if its command is given up.
    pub(crate) fn in_use(&self, id: i64) -> InUse<'_> {
        InUse { table: self, id, is_given_up: true }
    }

    /// Waits until the cursor that was checked out is killed. Only the last call for a cursor waits
    /// for that.
    pub(crate) fn killed(&self, id: i64) -> impl Future<Output = ()> + Send + use<> {
        let (in_use, killed) = oneshot::channel();
        // Where there is none any more, the other end is dropped here.
        if let Some(entry) = self.entries().get_mut(&id) {
            entry.in_use = Some(in_use);
        }
        async move {
            let _ = killed.await;
        }
    }

    /// Gives a cursor back. One that was killed meanwhile is dropped.
    pub(crate) fn give_back(&self, id: i64, open: OpenCursor, now: Instant) {
        if let Some(entry) = self.entries().get_mut(&id) {
            entry.open = Some(open);
            entry.used = now;
        }
    }

    /// The session is still in use, and so are its cursors that only end with it.
    pub(crate) fn refresh(&self, lsid: &Lsid, now: Instant) {
        let of_session = |entry: &&mut Entry| !entry.expires && entry.owner.lsid.as_ref() == Some(lsid);
        self.entries().values_mut().filter(of_session).for_each(|entry| entry.used = now);
    }

    /// Ends a cursor. False: there is none.
    pub(crate) fn kill(&self, id: i64) -> bool {
        self.entries().remove(&id).is_some()
    }

    /// Number of cursors that are open at this gateway.
    pub(crate) fn count(&self) -> usize {
        self.entries().len()
    }

    /// The owner of this cursor.
    pub(crate) fn owner(&self, id: i64) -> Option<Owner> {
        self.entries().get(&id).map(|entry| entry.owner.clone())
    }

    /// Returns true if this cursor is a change stream.
    pub(crate) fn is_changes(&self, id: i64) -> bool {
        self.entries().get(&id).and_then(|entry| entry.open.as_ref()).is_some_and(OpenCursor::is_changes)
    }

    /// Ends the cursors that this session has opened.
    pub(crate) fn kill_of_session(&self, lsid: &Lsid) {
        self.entries().retain(|_, entry| entry.owner.lsid.as_ref() != Some(lsid));
    }

    /// Ends the cursors that this session has opened in transactions.
    pub(crate) fn kill_of_transactions(&self, lsid: &Lsid) {
        self.entries().retain(|_, entry| entry.owner.lsid.as_ref() != Some(lsid) || entry.owner.number.is_none());
    }

    /// Ends the cursors of all sessions of a user.
    pub(crate) fn kill_of_user(&self, user: &[u8]) {
        self.entries().retain(|_, entry| entry.owner.lsid.as_ref().is_none_or(|lsid| lsid.user != user));
    }

    /// Ends all cursors of a user, those outside sessions, too.
    pub(crate) fn kill_all_of_user(&self, user: &[u8]) {
        self.entries().retain(|_, entry| entry.owner.user != user);
    }

    /// Ends the cursors of all sessions; those outside sessions stay open.
    pub(crate) fn kill_of_sessions(&self) {
        self.entries().retain(|_, entry| entry.owner.lsid.is_none());
    }

    /// Ends cursors that were not used for too long.
    pub(crate) fn expire(&self, now: Instant) {
        let CursorLimits { timeout, longest, .. } = self.limits();
        self.entries().retain(|_, entry| {
            let limit = if entry.expires { timeout } else { longest };
            entry.open.is_none() || now.saturating_duration_since(entry.used) <= limit
        });
    }

    /// No code panics while it holds this lock.
    fn entries(&self) -> MutexGuard<'_, HashMap<i64, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A cursor that a command works on. Unless its work is done, it ends with this.
pub(crate) struct InUse<'a> {
    table: &'a CursorTable,
    id: i64,
    is_given_up: bool,
}

impl InUse<'_> {
    /// Notes that the cursor is given back, or has ended.
    pub(crate) fn done(mut self) {
        self.is_given_up = false;
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        if self.is_given_up {
            self.table.kill(self.id);
        }
    }
}

fn check_owner(id: i64, owner: &Owner, namespace: &Namespace, mode: &Mode) -> Answer<()> {
    let cannot =
        |code, why: String| Err(Failure::new(code, format!("Cannot run getMore on cursor {id}, which was {why}")));
    if owner.namespace != *namespace {
        let message = format!(
            "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {}",
            owner.namespace
        );
        return Err(Failure::new(codes::UNAUTHORIZED, message));
    }
    match (&owner.lsid, mode.lsid()) {
        (None, Some(asking)) => {
            return cannot(codes::CURSOR_WITHOUT_SESSION, format!("not created in a session, in session {asking}"));
        }
        (Some(own), None) => {
            return cannot(codes::CURSOR_NEEDS_SESSION, format!("created in session {own}, without an lsid"));
        }
        (Some(own), Some(asking)) if own != asking => {
            return cannot(codes::CURSOR_OF_OTHER_SESSION, format!("created in session {own}, in session {asking}"));
        }
        _ => {}
    }
    match (owner.number, mode.transaction()) {
        (None, Some(asking)) => {
            cannot(codes::CURSOR_WITHOUT_TRANSACTION, format!("not created in a transaction, in transaction {asking}"))
        }
        (Some(own), None) => {
            cannot(codes::CURSOR_NEEDS_TRANSACTION, format!("created in transaction {own}, without a txnNumber"))
        }
        (Some(own), Some(asking)) if own != asking => {
            cannot(codes::CURSOR_OF_OTHER_TRANSACTION, format!("created in transaction {own}, in transaction {asking}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn namespace() -> Namespace {
        Namespace::parse_namespace("d.c").unwrap()
    }

    fn lsid(n: u8) -> Lsid {
        Lsid { id: [n; 16], user: Vec::new() }
    }

    fn owner(lsid: Option<Lsid>, number: Option<i64>) -> Owner {
        Owner { namespace: namespace(), user: Vec::new(), lsid, number, api: ApiParameters::default() }
    }

    fn table() -> CursorTable {
        let (timeout, longest) = (Duration::from_secs(5), Duration::from_secs(50));
        CursorTable::new(CursorLimits { cursors: 4, timeout, longest })
    }

    fn within(n: u8, number: i64) -> Mode {
        Mode::Transaction { lsid: lsid(n), number, begins: false }
    }

    fn code(owner: &Owner, mode: &Mode) -> Option<i32> {
        check_owner(1, owner, &namespace(), mode).err().map(|failure| failure.code)
    }

    #[test]
    fn cursors_answer_to_their_own_session_and_transaction_only() {
        let plain = |n: Option<u8>| Mode::Plain(n.map(lsid));
        assert_eq!(code(&owner(None, None), &plain(None)), None);
        assert_eq!(code(&owner(None, None), &plain(Some(1))), Some(50_736));
        assert_eq!(code(&owner(Some(lsid(1)), None), &plain(None)), Some(50_737));
        assert_eq!(code(&owner(Some(lsid(1)), None), &plain(Some(2))), Some(50_738));
        assert_eq!(code(&owner(Some(lsid(1)), None), &plain(Some(1))), None);
        assert_eq!(code(&owner(Some(lsid(1)), None), &within(1, 4)), Some(50_739));
        assert_eq!(code(&owner(Some(lsid(1)), Some(4)), &plain(Some(1))), Some(50_740));
        assert_eq!(code(&owner(Some(lsid(1)), Some(4)), &within(1, 5)), Some(50_741));
        assert_eq!(code(&owner(Some(lsid(1)), Some(4)), &within(1, 4)), None);
        let other = Namespace::parse_namespace("d.other").unwrap();
        let wrong = check_owner(1, &owner(None, None), &other, &plain(None));
        assert_eq!(wrong.unwrap_err().code, 13);
    }

    #[test]
    fn what_is_killed_while_it_is_in_use_does_not_come_back() {
        let (table, now) = (table(), Instant::now());
        let id = table.add(owner(None, None), OpenCursor::of_documents(Vec::new()), true, now).unwrap();
        let open = table.check_out(id, &namespace(), &[], &Mode::Plain(None), ApiParameters::default()).unwrap();
        assert_eq!(
            table.check_out(id, &namespace(), &[], &Mode::Plain(None), ApiParameters::default()).err().unwrap().code,
            12_051
        );
        assert!(table.kill(id));
        table.give_back(id, open, now);
        assert_eq!(
            table.check_out(id, &namespace(), &[], &Mode::Plain(None), ApiParameters::default()).err().unwrap().code,
            43
        );
    }

    #[tokio::test]
    async fn a_command_learns_that_its_cursor_is_killed() {
        let (table, now) = (table(), Instant::now());
        let add = || table.add(owner(None, None), OpenCursor::of_documents(Vec::new()), true, now).unwrap();
        let (one, other) = (add(), add());
        let [mut of_one, mut of_other] = [one, other].map(|id| Box::pin(table.killed(id)));
        assert!(of_one.as_mut().now_or_never().is_none());
        table.kill(one);
        assert!(of_one.now_or_never().is_some() && of_other.as_mut().now_or_never().is_none());
        // One that is gone was killed.
        assert!(table.killed(one).now_or_never().is_some());
        table.kill_of_user(&[]);
        table.kill_all_of_user(&[]);
        assert!(of_other.now_or_never().is_some());
    }

    #[test]
    fn what_a_command_was_given_up_on_ends() {
        let (table, now) = (table(), Instant::now());
        let add = || table.add(owner(None, None), OpenCursor::of_documents(Vec::new()), true, now).unwrap();
        let (done, given_up) = (add(), add());
        table.in_use(done).done();
        drop(table.in_use(given_up));
        assert_eq!((table.owner(done).is_some(), table.owner(given_up)), (true, None));
    }

    #[test]
    fn cursors_answer_to_their_own_user_only() {
        let (table, now) = (table(), Instant::now());
        let owner = Owner { user: vec![1], ..owner(None, None) };
        let id = table.add(owner, OpenCursor::of_documents(Vec::new()), true, now).unwrap();
        let taken = |user: &[u8]| table.check_out(id, &namespace(), user, &Mode::Plain(None), ApiParameters::default());
        assert_eq!(taken(&[2]).err().unwrap().code, 13);
        assert_eq!(taken(&[]).err().unwrap().code, 13);
        taken(&[1]).unwrap();
    }

    #[test]
    fn all_cursors_of_a_user_end_together() {
        let (table, now) = (table(), Instant::now());
        let add = |user: u8| {
            let owner = Owner { user: vec![user], ..owner(None, None) };
            table.add(owner, OpenCursor::of_documents(Vec::new()), true, now).unwrap()
        };
        let (changed, other) = (add(1), add(2));
        table.kill_all_of_user(&[1]);
        assert_eq!((table.owner(changed), table.owner(other).is_some()), (None, true));
    }

    #[test]
    fn idle_cursors_expire_and_those_without_a_timeout_later() {
        let (table, start) = (table(), Instant::now());
        let add = |expires| table.add(owner(None, None), OpenCursor::of_documents(Vec::new()), expires, start).unwrap();
        let (idle, kept) = (add(true), add(false));
        table.expire(start + Duration::from_secs(9));
        assert_eq!((table.owner(idle), table.owner(kept).is_some()), (None, true));
        table.expire(start + Duration::from_secs(51));
        assert_eq!(table.owner(kept), None);
        let of_session = |expires| {
            let open = OpenCursor::of_documents(Vec::new());
            table.add(owner(Some(lsid(1)), None), open, expires, start).unwrap()
        };
        let (idle, kept) = (of_session(true), of_session(false));
        table.refresh(&lsid(1), start + Duration::from_secs(40));
        table.expire(start + Duration::from_secs(60));
        assert_eq!((table.owner(idle), table.owner(kept).is_some()), (None, true));
    }

    #[test]
    fn a_user_has_half_of_the_room_at_most() {
        let table = table();
        let add = |user: &[u8]| {
            let owner = Owner { user: user.to_vec(), ..owner(None, None) };
            let added = table.add(owner, OpenCursor::of_documents(Vec::new()), false, Instant::now());
            added.err().map_or_else(String::new, |failure| failure.message)
        };
        assert_eq!([add(&[1]), add(&[1])], ["", ""]);
        assert!(add(&[1]).contains("the user has 2 open"));
        assert_eq!([add(&[2]), add(&[])], ["", ""]);
        assert!(add(&[2]).contains("4 are open, the limit (--max-cursors)"));
    }

    #[test]
    fn the_end_of_a_transaction_ends_its_cursors_only() {
        let (table, now) = (table(), Instant::now());
        let add =
            |number| table.add(owner(Some(lsid(1)), number), OpenCursor::of_documents(Vec::new()), true, now).unwrap();
        let (inside, outside) = (add(Some(4)), add(None));
        table.kill_of_transactions(&lsid(1));
        assert_eq!((table.owner(inside), table.owner(outside).is_some()), (None, true));
        table.kill_of_session(&lsid(1));
        assert_eq!(table.owner(outside), None);
    }
}
