//! The outcome of a transaction, read from the record of the client that runs it.
//!
//! A record decides: a number in `committed` is committed, a number in `rolled_back` or `killed` is
//! not, and fencing a record rolls back whatever it has not decided. Numbers leave the two lists
//! only below `low`, once every document of theirs is clean, so a reader that finds a lock of a
//! number below `low` looks at a document that has moved on (or at an orphan): it must fetch the
//! document again.

use std::collections::BTreeSet;

use crate::id::Seq;

/// The decided content of a client record. What else the stored record holds (lease, collections,
/// retention) decides nothing about a transaction and is not here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientRecord {
    /// The owner's evidence: each of its writes to the record demands the last stamp and leaves a
    /// new one, never used before. A server that lost an acknowledged write has lost the stamps
    /// that came after it too.
    pub stamp: u64,
    /// Every number below it is decided and its documents are clean.
    pub low: Seq,
    /// Committed numbers from `low` on.
    pub committed: BTreeSet<Seq>,
    /// Numbers from `low` on that the owner rolled back.
    pub rolled_back: BTreeSet<Seq>,
    /// Numbers that other clients rolled back, one by one.
    pub killed: BTreeSet<Seq>,
    /// Numbers below `low` that did not commit; all others below `low` did.
    pub aborted: BTreeSet<Seq>,
    /// Set by a rival that found the lease expired, or by the owner when it gives the record up:
    /// whatever is undecided is rolled back, and nothing can be decided any more.
    pub fenced: bool,
}

/// Status of a transaction, as a reader of its client's record (or of none) can conclude it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TxStatus {
    /// The transaction is not decided yet.
    Active,
    /// Decided: its writes are to be read and finished.
    Committed,
    /// Decided: its writes are to be undone.
    RolledBack,
    /// Every document was clean before its number fell below `low`, or before its record was
    /// removed. A lock of it that is *still* there after this was read is an orphan (a message that
    /// arrived late) and is rolled back.
    Finished,
}

/// Status of transaction `seq` according to the record. `None` is a record that does not exist: a
/// client that never registered, or whose record was removed after all its documents were clean. A
/// document that was fetched before the removal may have been finished since, so it is fetched
/// again; a lock that still carries the id then is dead.
///
/// ```
/// use protocol::{ClientRecord, TxStatus, status::status_of};
///
/// let mut record = ClientRecord { low: 5, committed: [5].into(), rolled_back: [6].into(), ..Default::default() };
/// let statuses = |record: &ClientRecord| [4, 5, 6, 7].map(|seq| status_of(Some(record), seq));
/// assert_eq!(
///     statuses(&record),
///     [TxStatus::Finished, TxStatus::Committed, TxStatus::RolledBack, TxStatus::Active]
/// );
/// record.fenced = true; // a rival has found the lease expired
/// assert_eq!(status_of(Some(&record), 7), TxStatus::RolledBack);
/// assert_eq!(status_of(None, 7), TxStatus::Finished);
/// ```
pub fn status_of(record: Option<&ClientRecord>, seq: Seq) -> TxStatus {
    let Some(record) = record else {
        return TxStatus::Finished;
    };
    if record.aborted.contains(&seq) || record.rolled_back.contains(&seq) || record.killed.contains(&seq) {
        TxStatus::RolledBack
    } else if record.committed.contains(&seq) {
        TxStatus::Committed
    } else if seq < record.low {
        TxStatus::Finished
    } else if record.fenced {
        TxStatus::RolledBack
    } else {
        TxStatus::Active
    }
}

/// The transaction's client keeps its record in another tx database than the one that was read: its
/// status is unknown here, and its locks must be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the client that holds the lock keeps its records in another tx database")]
pub struct ForeignClient;

/// As [`status_of`], for a record that was looked for in one of several possible places.
/// `kept_here`: the holder's client keeps its record where it was looked for. Only then does a
/// record that is not there mean anything: that of a foreign client is missing though its
/// transactions live.
pub fn status_where_kept(record: Option<&ClientRecord>, seq: Seq, kept_here: bool) -> Result<TxStatus, ForeignClient> {
    if kept_here { Ok(status_of(record, seq)) } else { Err(ForeignClient) }
}

/// Returns true if a rival may abort `seq` alone (`killed`): only while it is not decided.
pub fn may_abort(record: &ClientRecord, seq: Seq) -> bool {
    status_of(Some(record), seq) == TxStatus::Active
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> ClientRecord {
        ClientRecord {
            low: 5,
            committed: [5, 7].into(),
            rolled_back: [6].into(),
            killed: [8].into(),
            aborted: [3].into(),
            ..Default::default()
        }
    }

    #[test]
    fn status_of_each_place_a_number_can_be_in() {
        let record = record();
        let status = |n| status_of(Some(&record), n);
        assert_eq!(status(2), TxStatus::Finished);
        assert_eq!(status(3), TxStatus::RolledBack);
        assert_eq!(status(5), TxStatus::Committed);
        assert_eq!(status(6), TxStatus::RolledBack);
        assert_eq!(status(8), TxStatus::RolledBack);
        assert_eq!(status(9), TxStatus::Active);
    }

    #[test]
    fn status_fenced_keeps_what_was_decided() {
        let record = ClientRecord { fenced: true, ..record() };
        assert_eq!(status_of(Some(&record), 7), TxStatus::Committed);
        assert_eq!(status_of(Some(&record), 9), TxStatus::RolledBack);
    }

    #[test]
    fn status_without_record_asks_for_the_document_again() {
        assert_eq!(status_of(None, 1), TxStatus::Finished);
    }

    #[test]
    fn status_of_a_foreign_client_is_not_derived() {
        assert_eq!(status_where_kept(None, 1, true), Ok(TxStatus::Finished));
        assert_eq!(status_where_kept(None, 1, false), Err(ForeignClient));
        assert_eq!(status_where_kept(Some(&record()), 5, true), Ok(TxStatus::Committed));
    }
}
