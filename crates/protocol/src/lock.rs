//! The locks of one stored document: the version that may be read, the admission of writers, the
//! effect of a repair.

use crate::{id::TxId, status::TxStatus};

/// The metadata of a stored document (paper 000, section 4.2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LockState {
    /// `_xTxId`: the transaction that holds the write lock.
    pub writer: Option<TxId>,
    /// `_sTxIds`: the transactions that hold read locks.
    pub readers: Vec<TxId>,
    /// `_insert`: the document has no safe version yet.
    pub insert: bool,
    /// `_remove`: the document has no unsafe version; it goes when the writer commits.
    pub remove: bool,
}

/// The version of a document that a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// The fields at the top level.
    Safe,
    /// The sub-document `_unsafe`: what the writer has changed and not finished.
    Unsafe,
    /// No version: inserted and not committed, or removed and committed.
    Absent,
}

/// A repair: how a document gets rid of the metadata of a decided writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repair {
    /// Finish: the unsafe version becomes the document.
    ReplaceWithUnsafe,
    /// Remove the document: finish a removal, or undo an insert.
    Delete,
    /// Undo: drop the unsafe version and the metadata.
    DropUnsafe,
}

/// The step that a transaction must take when it meets the lock of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encounter {
    /// The writer is active: readers take the safe version, writers conflict.
    Active,
    /// The writer is decided: repair the document, then go on.
    Repair(Repair),
    /// The writer finished before: fetch the document again; a lock that is still there is an
    /// orphan to be undone.
    FetchAgain,
}

/// Returns how to treat the write lock of a document whose writer has `status`; the status must be
/// read *after* the document. Departs from figure 7 of paper 000, whose lines 16-22 are the wrong
/// way round.
///
/// ```
/// use protocol::{ClientId, LockState, Repair, TxId, TxStatus, lock::{Encounter, meet_writer}};
///
/// let writer = TxId { client: ClientId([2; 12]), seq: 9 };
/// let inserted = LockState { writer: Some(writer), insert: true, ..LockState::default() };
/// assert_eq!(meet_writer(&inserted, TxStatus::Active), Encounter::Active);
/// assert_eq!(meet_writer(&inserted, TxStatus::Committed), Encounter::Repair(Repair::ReplaceWithUnsafe));
/// assert_eq!(meet_writer(&inserted, TxStatus::RolledBack), Encounter::Repair(Repair::Delete));
/// ```
pub fn meet_writer(lock: &LockState, status: TxStatus) -> Encounter {
    match status {
        TxStatus::Active => Encounter::Active,
        TxStatus::Committed => Encounter::Repair(repair_committed(lock)),
        TxStatus::RolledBack => Encounter::Repair(repair_rolled_back(lock)),
        TxStatus::Finished => Encounter::FetchAgain,
    }
}

/// The repair that finishes a document of a committed writer.
pub fn repair_committed(lock: &LockState) -> Repair {
    if lock.remove { Repair::Delete } else { Repair::ReplaceWithUnsafe }
}

/// The repair that undoes a document of a rolled-back writer.
pub fn repair_rolled_back(lock: &LockState) -> Repair {
    if lock.insert { Repair::Delete } else { Repair::DropUnsafe }
}

/// The version that transaction `me` sees, given the status of the writer, read after the document
/// was fetched. `None` means that the document must be fetched again.
///
/// ```
/// use protocol::{ClientId, LockState, TxId, TxStatus, Version, lock::visible_version};
///
/// let (me, rival) = (ClientId([1; 12]), ClientId([2; 12]));
/// let (me, rival) = (TxId { client: me, seq: 1 }, TxId { client: rival, seq: 9 });
/// let changed = LockState { writer: Some(rival), ..LockState::default() };
/// let seen = |status| visible_version(&changed, Some(me), |_| status);
///
/// assert_eq!(seen(TxStatus::Active), Some(Version::Safe));
/// assert_eq!(seen(TxStatus::Committed), Some(Version::Unsafe)); // decided, and not finished yet
/// assert_eq!(seen(TxStatus::Finished), None); // fetch it again
/// let own = visible_version(&changed, Some(rival), |_| unreachable!("a writer is not asked about itself"));
/// assert_eq!(own, Some(Version::Unsafe));
/// ```
pub fn visible_version(lock: &LockState, me: Option<TxId>, status: impl FnOnce(TxId) -> TxStatus) -> Option<Version> {
    let Some(writer) = lock.writer else {
        return Some(Version::Safe);
    };
    let sees_unsafe = Some(writer) == me
        || match status(writer) {
            TxStatus::Committed => true,
            TxStatus::Active | TxStatus::RolledBack => false,
            TxStatus::Finished => return None,
        };
    Some(match (sees_unsafe, lock.insert, lock.remove) {
        (true, _, true) | (false, true, _) => Version::Absent,
        (true, _, false) => Version::Unsafe,
        (false, false, _) => Version::Safe,
    })
}

/// Returns true if `me` may take the write lock as the document stands. The lock step itself must
/// check this on the state that it changes, atomically, never on a state that was read before
/// (figure 7 and section 4.4 of paper 000 leave it open).
///
/// ```
/// use protocol::{ClientId, LockState, TxId, lock::{admits_reader, admits_writer}};
///
/// let (me, rival) = (TxId { client: ClientId([1; 12]), seq: 1 }, TxId { client: ClientId([2; 12]), seq: 1 });
/// let read_by_both = LockState { readers: vec![me, rival], ..LockState::default() };
/// assert!(admits_reader(&read_by_both, me));
/// assert!(!admits_writer(&read_by_both, me)); // the rival relies on what it has read
/// ```
pub fn admits_writer(lock: &LockState, me: TxId) -> bool {
    lock.writer.is_none_or(|writer| writer == me) && lock.readers.iter().all(|reader| *reader == me)
}

/// Returns true if `me` may take a read lock as the document stands.
pub fn admits_reader(lock: &LockState, me: TxId) -> bool {
    lock.writer.is_none_or(|writer| writer == me)
}

/// Returns true if a document that `me` has read before still carries a lock of `me`. Without it
/// `me` must not go on: the lock was removed because `me` had been ended, or lost with the server,
/// and the document may have changed since. This also holds for a writer that would take the write
/// lock of a document without one.
pub fn keeps_read_lock(lock: &LockState, me: TxId) -> bool {
    lock.writer == Some(me) || lock.readers.contains(&me)
}

/// Why an update that read-locks many documents has left one out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnlockedReason {
    /// The document carries the reader's lock after all.
    Kept,
    /// A rival holds it for writing: repair what is decided, wait for what is not, then lock again.
    Rival(TxId),
    /// The document is free again: the rival that held it has finished since. Lock it again.
    Free,
    /// The document was removed since it was read: there is nothing to lock.
    Gone,
}

/// Returns the reason why a document is not read-locked that `me` has just tried to lock. `lock` is
/// the document's, fetched after the attempt; `None` if it is not there. Only then is it removed:
/// that no rival holds it now does not show that.
pub fn why_unlocked(lock: Option<&LockState>, me: TxId) -> UnlockedReason {
    match lock {
        None => UnlockedReason::Gone,
        Some(lock) if keeps_read_lock(lock, me) => UnlockedReason::Kept,
        Some(lock) => lock.writer.map_or(UnlockedReason::Free, UnlockedReason::Rival),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ClientId;

    const ME: TxId = TxId { client: ClientId([1; 12]), seq: 1 };
    const RIVAL: TxId = TxId { client: ClientId([2; 12]), seq: 1 };

    fn locked(insert: bool, remove: bool) -> LockState {
        LockState { writer: Some(RIVAL), readers: vec![], insert, remove }
    }

    #[test]
    fn repair_rolled_back_insert_is_deleted_and_update_is_dropped() {
        assert_eq!(repair_rolled_back(&locked(true, false)), Repair::Delete);
        assert_eq!(repair_rolled_back(&locked(true, true)), Repair::Delete);
        assert_eq!(repair_rolled_back(&locked(false, false)), Repair::DropUnsafe);
        assert_eq!(repair_rolled_back(&locked(false, true)), Repair::DropUnsafe);
    }

    #[test]
    fn repair_committed_removal_is_deleted_and_rest_is_replaced() {
        assert_eq!(repair_committed(&locked(false, true)), Repair::Delete);
        assert_eq!(repair_committed(&locked(true, true)), Repair::Delete);
        assert_eq!(repair_committed(&locked(true, false)), Repair::ReplaceWithUnsafe);
        assert_eq!(repair_committed(&locked(false, false)), Repair::ReplaceWithUnsafe);
    }

    #[test]
    fn visible_own_write_is_unsafe_without_asking() {
        let lock = LockState { writer: Some(ME), ..locked(false, false) };
        let never = |_| -> TxStatus { panic!("own status is not asked") };
        assert_eq!(visible_version(&lock, Some(ME), never), Some(Version::Unsafe));
    }

    #[test]
    fn visible_rivals_version_follows_status() {
        use TxStatus::*;
        let see = |insert, remove, status| visible_version(&locked(insert, remove), Some(ME), |_| status);
        assert_eq!(see(false, false, Active), Some(Version::Safe));
        assert_eq!(see(true, false, Active), Some(Version::Absent));
        assert_eq!(see(false, true, Active), Some(Version::Safe));
        assert_eq!(see(false, true, Committed), Some(Version::Absent));
        assert_eq!(see(true, false, Committed), Some(Version::Unsafe));
        assert_eq!(see(true, false, RolledBack), Some(Version::Absent));
        assert_eq!(see(false, false, Finished), None);
    }

    #[test]
    fn admits_writer_only_alone() {
        assert!(admits_writer(&LockState { readers: vec![ME], ..Default::default() }, ME));
        assert!(!admits_writer(&LockState { readers: vec![ME, RIVAL], ..Default::default() }, ME));
        assert!(!admits_writer(&locked(false, false), ME));
        assert!(!admits_reader(&locked(false, false), ME));
    }

    #[test]
    fn keeps_read_lock_with_either_lock_of_its_own() {
        assert!(keeps_read_lock(&LockState { readers: vec![RIVAL, ME], ..Default::default() }, ME));
        assert!(keeps_read_lock(&LockState { writer: Some(ME), ..Default::default() }, ME));
        assert!(!keeps_read_lock(&LockState { readers: vec![RIVAL], ..Default::default() }, ME));
        assert!(!keeps_read_lock(&LockState::default(), ME));
    }

    #[test]
    fn unlocked_document_is_gone_only_if_it_is_not_there() {
        assert_eq!(why_unlocked(None, ME), UnlockedReason::Gone);
        assert_eq!(why_unlocked(Some(&LockState::default()), ME), UnlockedReason::Free);
        assert_eq!(why_unlocked(Some(&locked(false, false)), ME), UnlockedReason::Rival(RIVAL));
        assert_eq!(
            why_unlocked(Some(&LockState { readers: vec![ME], ..Default::default() }), ME),
            UnlockedReason::Kept
        );
    }
}
