//! One write to the record: what it demands, what it proves, and what is concluded about it.

use crate::id::Seq;

/// Durability that a decision has when it is answered. Where several servers keep the data, less
/// than the majority is raised to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Concern {
    /// `{w: 1}`: in the server's memory.
    Acknowledged,
    /// `{w: 1, j: true}`: in the server's journal.
    #[default]
    Journaled,
    /// `{w: n, j: true}`: on that many members, and on the majority.
    Nodes(u32),
    /// `{w: "majority", j: true}`: a majority of the replica set has the write in its journal.
    Majority,
}

/// The connection for record writes, as it was at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Since {
    /// The connection epoch at that moment.
    pub epoch: u64,
    /// The connection had been answered by then, so that it belonged to a server process. One that
    /// was opened only may end at a process that begins later: nothing that is written over it
    /// proves anything about what was done before.
    pub answered: bool,
}

impl From<u64> for Since {
    /// The state of a connection that has been answered.
    fn from(epoch: u64) -> Self {
        Self { epoch, answered: true }
    }
}

impl Since {
    /// Returns true if a write that is acknowledged over the connection of this number proves that
    /// nothing was lost since.
    pub(super) fn is_proven_over(self, connection: u64) -> bool {
        self.answered && connection == self.epoch
    }
}

/// One write to the record. All of it or none of it is applied, and at most once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordWrite {
    /// Applies only to a record with this stamp …
    pub demands: u64,
    /// … that is not fenced and in which none of these is aborted.
    pub decides: Vec<Seq>,
    /// Stamp that the write leaves in the record.
    pub stamp: u64,
    /// Low-water mark that the write leaves in the record.
    pub low: Seq,
    /// The committed numbers from `low` on, those of `decides` included.
    pub committed: Vec<Seq>,
    /// The rolled-back numbers from `low` on.
    pub rolled_back: Vec<Seq>,
    /// Rolled-back numbers that this write takes below `low`.
    pub aborted: Vec<Seq>,
    /// Write concern that has to be met before the answer counts.
    pub concern: Concern,
    /// Number of the connection over which the write must be sent, or not at all. `None`: any
    /// connection.
    pub over: Option<u64>,
}

/// End of a transaction, as its record decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionEnd {
    /// The decision was acknowledged: the transaction is committed.
    Committed(Seq),
    /// Decided, or certain to be: not committed.
    RolledBack(Seq),
    /// The decision was sent, and the record that would show its outcome is gone.
    Indeterminate(Seq),
}

/// Conclusion about a write to the record, from its answer or from the record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The write was applied, or all that it did not decide is settled: go on with the next write.
    GoOn(Vec<TransactionEnd>),
    /// The write was not applied and can be sent again unchanged.
    SendAgain,
    /// No transaction can be decided in this record any more: each of its open transactions is
    /// rolled back, and none of its writes can be applied later. The record should be fenced (if it
    /// exists and is not), so that rivals need not wait for the lease. The client needs a new
    /// record.
    Lost(Vec<TransactionEnd>),
}
