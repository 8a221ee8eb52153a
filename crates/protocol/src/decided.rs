//! Transactions that are not active any more.
//!
//! What a decided transaction has left in documents is finished or undone by any client, any number
//! of times and at any time: a message about it that arrives late does what was to be done anyway.
//! None of this holds for an active transaction, which may have changed the document again since
//! the message was sent. So the statements of repairs take [`Decided`] writers only.

use crate::{id::TxId, status::TxStatus};

/// A transaction whose outcome will not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Decided(TxId);

impl Decided {
    /// Proof by a durable status that was read after the document. `None` if the transaction is
    /// active.
    pub fn by_status(id: TxId, status: TxStatus) -> Option<Self> {
        (status != TxStatus::Active).then_some(Self(id))
    }

    /// Proof by the owner of the client record: the decision was acknowledged, or the owner has
    /// noted the transaction as rolled back and will never ask for a decision.
    pub fn by_owner(id: TxId) -> Self {
        Self(id)
    }

    /// Id of the decided transaction.
    pub fn id(self) -> TxId {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ClientId;

    #[test]
    fn decided_is_all_but_active() {
        let id = TxId { client: ClientId([1; 12]), seq: 1 };
        let decided = |status| Decided::by_status(id, status).map(Decided::id);
        assert_eq!(decided(TxStatus::Active), None);
        for status in [TxStatus::Committed, TxStatus::RolledBack, TxStatus::Finished] {
            assert_eq!(decided(status), Some(id), "{status:?}");
        }
    }
}
