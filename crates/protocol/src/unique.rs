//! Unique values between pending and committed versions: what to do about another document that has
//! the value.
//!
//! A transaction first *places* a value (it becomes pending, which the mirrored index may refuse),
//! then *checks* which other documents have it in their safe version. The holder that it meets on
//! either way decides how it goes on.
//!
//! ```
//! use protocol::{TxStatus, unique::{Claim, Holder, value_is_pending, value_is_safe}};
//!
//! assert_eq!(value_is_safe(Holder::None), Claim::Duplicate); // a clean document has the value
//! assert_eq!(value_is_pending(Holder::Rival(TxStatus::Active)), Claim::Conflict); // it may roll back
//! assert_eq!(value_is_safe(Holder::Mine), Claim::Free); // the transaction itself gives the value up
//! ```

use crate::{id::TxId, status::TxStatus};

/// Holder of the write lock of the other document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// No transaction holds the lock: the document is clean.
    None,
    /// The transaction that wants the value.
    Mine,
    /// Another transaction, with its status, read after the document.
    Rival(TxStatus),
}

impl Holder {
    /// The holder of a document that is write-locked by `writer`, seen by `me`.
    pub fn of(writer: Option<TxId>, me: TxId, status: impl FnOnce(TxId) -> TxStatus) -> Self {
        match writer {
            None => Self::None,
            Some(writer) if writer == me => Self::Mine,
            Some(rival) => Self::Rival(status(rival)),
        }
    }
}

/// The next step of the transaction that wants the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Claim {
    /// The document does not stand in the way of the value.
    Free,
    /// The statement is refused: the value is taken.
    Duplicate,
    /// Not known yet whether the value is taken: a conflict, or wait.
    Conflict,
    /// The rival is decided: repair the document, then ask again.
    Repair,
    /// The rival finished before: fetch the document again; a lock that is still there is an orphan
    /// to be undone.
    FetchAgain,
}

/// The mirrored index refused the value: `holder` has the document in which it is pending.
pub fn value_is_pending(holder: Holder) -> Claim {
    match holder {
        // Pending no more: try again.
        Holder::None => Claim::Free,
        Holder::Mine => Claim::Duplicate,
        Holder::Rival(status) => meet(status),
    }
}

/// The check found the value in a safe version: `holder` has that document.
pub fn value_is_safe(holder: Holder) -> Claim {
    match holder {
        Holder::None => Claim::Duplicate,
        // Its pending value is another one, because two pending values are never the same; or it is
        // removed.
        Holder::Mine => Claim::Free,
        Holder::Rival(status) => meet(status),
    }
}

fn meet(status: TxStatus) -> Claim {
    match status {
        TxStatus::Active => Claim::Conflict,
        TxStatus::Committed | TxStatus::RolledBack => Claim::Repair,
        TxStatus::Finished => Claim::FetchAgain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ClientId;

    const ME: TxId = TxId { client: ClientId([1; 12]), seq: 1 };
    const RIVAL: TxId = TxId { client: ClientId([2; 12]), seq: 1 };

    #[test]
    fn holder_asks_for_the_status_of_rivals_only() {
        let never = |_| -> TxStatus { panic!("no status is to be read") };
        assert_eq!(Holder::of(None, ME, never), Holder::None);
        assert_eq!(Holder::of(Some(ME), ME, never), Holder::Mine);
        assert_eq!(Holder::of(Some(RIVAL), ME, |_| TxStatus::Active), Holder::Rival(TxStatus::Active));
    }

    #[test]
    fn own_document_is_in_the_way_with_its_pending_value_only() {
        assert_eq!(value_is_pending(Holder::Mine), Claim::Duplicate);
        assert_eq!(value_is_safe(Holder::Mine), Claim::Free);
    }

    #[test]
    fn clean_document_is_in_the_way_with_its_safe_value_only() {
        assert_eq!(value_is_pending(Holder::None), Claim::Free);
        assert_eq!(value_is_safe(Holder::None), Claim::Duplicate);
    }

    #[test]
    fn undecided_rival_is_never_a_duplicate_and_decided_one_is_repaired() {
        for ask in [value_is_pending, value_is_safe] {
            assert_eq!(ask(Holder::Rival(TxStatus::Active)), Claim::Conflict);
            assert_eq!(ask(Holder::Rival(TxStatus::Committed)), Claim::Repair);
            assert_eq!(ask(Holder::Rival(TxStatus::RolledBack)), Claim::Repair);
            assert_eq!(ask(Holder::Rival(TxStatus::Finished)), Claim::FetchAgain);
        }
    }
}
