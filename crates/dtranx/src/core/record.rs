//! Records of the log: the nonvolatile copies of the states of section 3.3.2, and the fixed-size
//! record of the GC log.
//!
//! | record | by | meaning |
//! | --- | --- | --- |
//! | `Reserve` | coordinator | these numbers are used up, committed or not |
//! | `OnePhase` | coordinator | committed; its writes are all here |
//! | `Ready` | participant | voted yes; its locks and writes are in the record |
//! | `Commit` | coordinator | committed; a `Ready` of the same server goes with it |
//! | `Outcome` | participant | the outcome of another coordinator's transaction, or a promise to a peer |
//! | `Epochs` | every server | this server may have been in these epochs |
//! | `Marks` | every server | the complete transactions: a server that has applied the log up to here needs none of their records any more |
//! | `Complete` | every server | complete transactions of one server above its mark: nothing of them has to be remembered after a restart |
//!
//! No record says that a coordinator prepares or aborts: what it has reserved and not committed is
//! aborted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    id::{Epoch, RequestId, ServerId, TranxId},
    item::Key,
    message::Outcome,
    range::KeyRange,
    transaction::Write,
};

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Record {
    /// This server's transaction numbers up to `through` may have been used.
    Reserve {
        /// The last number of the block.
        through: u64,
    },
    /// A transaction whose keys this server holds alone is committed.
    OnePhase {
        /// Id of the transaction that is committed.
        tranx: TranxId,
        /// Writes of the transaction: at least one.
        writes: Vec<Write>,
        /// Request of the client that is committed by it.
        request: RequestId,
    },
    /// This server has locked and checked its part of a transaction. After a restart it takes all
    /// these locks again, the shared ones too: another transaction that changes what was read must
    /// still wait for the outcome.
    Ready {
        /// Id of the transaction that this server has voted yes for.
        tranx: TranxId,
        /// All participants of the transaction, in order.
        participants: Vec<ServerId>,
        /// Keys that are read, and not written too.
        shared: Vec<Key>,
        /// Ranges that the transaction has scanned here.
        ranges: Vec<KeyRange>,
        /// Writes of the part that this server holds.
        writes: Vec<Write>,
    },
    /// This server, the coordinator, has decided to commit. Once this is durable, the transaction
    /// is committed.
    Commit {
        /// Id of the transaction that is committed.
        tranx: TranxId,
        /// All participants of the transaction, in order.
        participants: Vec<ServerId>,
        /// Epoch in which the transaction takes place.
        epoch: Epoch,
        /// Request of the client that is committed by it.
        request: RequestId,
    },
    /// This server, a participant, knows the outcome of a transaction of another coordinator: it
    /// has received it, or, for `Abort`, it has promised a peer in doubt that it will never vote
    /// yes.
    Outcome {
        /// Id of the transaction, of another coordinator.
        tranx: TranxId,
        /// Outcome that this server has received, or promised.
        outcome: Outcome,
    },
    /// This server may have been in epochs up to `through`: it begins above them after a restart.
    Epochs {
        /// The last epoch of the block.
        through: Epoch,
    },
    /// Transactions up to these marks are complete, and their records are before this one. Segments
    /// of the log are removed by the marks in it alone.
    Marks {
        /// Each server's low-water mark, this one's among them, in the order of the servers.
        low_water: Vec<(ServerId, u64)>,
    },
    /// A server's transactions up to a number are complete, but for some, and their records are
    /// before this one. No segment is removed by it: it lets a recovery forget what lies above the
    /// low-water mark, which one transaction may hold for long.
    Complete {
        /// Server that has coordinated the transactions.
        server: ServerId,
        /// The last number that this says something about.
        through: u64,
        /// Numbers up to there that are not complete, in order.
        incomplete: Vec<u64>,
    },
}

impl Record {
    /// Transaction of the record, if it is about one.
    pub const fn tranx(&self) -> Option<TranxId> {
        match self {
            Self::Reserve { .. } | Self::Epochs { .. } | Self::Marks { .. } | Self::Complete { .. } => None,
            Self::OnePhase { tranx, .. }
            | Self::Ready { tranx, .. }
            | Self::Commit { tranx, .. }
            | Self::Outcome { tranx, .. } => Some(*tranx),
        }
    }
}

/// The one record of the GC log, overwritten as a whole (section 3.3.2). Its size depends on the
/// number of servers only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GcRecord {
    /// This server's transaction numbers up to this one may have been used.
    pub reserved_through: u64,
    /// Each server's low-water mark, this one's among them, in the order of the servers.
    pub low_water: Vec<(ServerId, u64)>,
    /// This server may have been in epochs up to this one.
    pub epochs_through: Epoch,
}

/// Transactions to which a segment of the log refers: for each coordinator, its largest transaction
/// number in there. Once every coordinator's low-water mark has reached that, the segment holds
/// complete transactions only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SegmentSummary {
    largest: BTreeMap<ServerId, u64>,
    /// The last number and the last epoch that the segment reserves; 0 if it reserves none.
    reserved_through: u64,
    epochs_through: Epoch,
}

impl SegmentSummary {
    /// Notes a record that was appended to the segment.
    pub fn note(&mut self, record: &Record) {
        match record {
            Record::Reserve { through } => self.reserved_through = self.reserved_through.max(*through),
            Record::Epochs { through } => self.epochs_through = self.epochs_through.max(*through),
            _ => {}
        }
        if let Some(tranx) = record.tranx() {
            let largest = self.largest.entry(tranx.server).or_default();
            *largest = tranx.number.max(*largest);
        }
    }

    /// Counts what another summary has counted, too.
    pub(crate) fn add(&mut self, other: &Self) {
        self.reserved_through = self.reserved_through.max(other.reserved_through);
        self.epochs_through = self.epochs_through.max(other.epochs_through);
        for (server, number) in other.largest() {
            let largest = self.largest.entry(server).or_default();
            *largest = number.max(*largest);
        }
    }

    /// Returns true if a GC record reserves at least as much as this segment.
    pub(crate) fn is_reserved_by(&self, record: &GcRecord) -> bool {
        self.reserved_through <= record.reserved_through && self.epochs_through <= record.epochs_through
    }

    /// For each coordinator, its largest number in the segment.
    pub fn largest(&self) -> impl Iterator<Item = (ServerId, u64)> {
        self.largest.iter().map(|(server, number)| (*server, *number))
    }
}
