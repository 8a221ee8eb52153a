//! Messages between servers. Any of these may be lost, repeated, late or out of order; none may be
//! altered.
//!
//! | message | from | to | answered by |
//! | --- | --- | --- | --- |
//! | `Prepare` | coordinator | participant | `Vote` |
//! | `Validate` | coordinator | participant | `Validated` |
//! | `Decisions` | coordinator | participant | `Acknowledge`, of commits |
//! | `Inquire` | participant in doubt | coordinator, then participants | `InquiryAnswer` |
//! | `LowWater` | coordinator | all servers | |
//! | `Snapshot` | server that makes a snapshot | all servers | `Snapshot` |
//! | `Keep` | coordinator | participant | |

use serde::{Deserialize, Serialize};

use super::{
    id::{Epoch, Incarnation, ServerId, TranxId, ValidationId},
    refusal::Refusal,
    standing::Standing,
    transaction::Transaction,
};

/// The most transactions in one `Decisions` or `Acknowledge`.
pub const MAX_BATCH: usize = 512;

/// The most numbers that are not complete in one `LowWater`: more than a coordinator lets be so.
pub(crate) const MAX_INCOMPLETE: usize = 1 << 18;

/// Number of the question for its epoch by which a server joins: those of snapshots begin with 1.
pub(crate) const JOINING_QUESTION: u64 = 0;

/// Outcome of a transaction, as its coordinator has decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// All of its writes are or will be there, and it takes place in this epoch.
    Commit(Epoch),
    /// None of its writes is or will be there.
    Abort,
}

/// A participant's answer to `Prepare` or `Validate`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Vote {
    /// To `Prepare`: the part is locked and checked, and durably so; the participant will do as the
    /// coordinator decides. To `Validate`: the part was valid at an instant since the message was
    /// sent; nothing is locked.
    Yes,
    /// The part cannot be committed.
    No(Refusal),
}

/// A message from one server to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// The first phase: lock, check, log, vote.
    Prepare {
        /// Transaction that the receiver is to vote on.
        tranx: TranxId,
        /// Every participant, in order, so that a participant in doubt can inquire of others than
        /// the coordinator.
        participants: Vec<ServerId>,
        /// Part of the transaction that the receiver holds.
        part: Transaction,
        /// Standing of the transaction among others that want the same locks.
        standing: Standing,
    },
    /// The only phase of a transaction that only reads: check and vote, remember nothing.
    Validate {
        /// Validation that the part belongs to.
        validation: ValidationId,
        /// Part of the validation that the receiver holds.
        part: Transaction,
        /// The largest epoch that another participant has answered in: the receiver must have
        /// reached it before it begins.
        epoch: Epoch,
    },
    /// A participant votes: see [`Vote`].
    Vote {
        /// Transaction that is voted on.
        tranx: TranxId,
        /// Vote of the participant that sends it.
        vote: Vote,
        /// The epoch in which the part was accepted, if the vote is yes.
        epoch: Epoch,
    },
    /// A participant answers `Validate` with its vote.
    Validated {
        /// Validation that the vote belongs to.
        validation: ValidationId,
        /// Vote of the participant that sends it.
        vote: Vote,
        /// The epoch in which the answering server began to look.
        epoch: Epoch,
    },
    /// The second phase, many transactions at once (section 4.5: Batch Ack Phase). All are the
    /// sender's own.
    Decisions(Vec<(TranxId, Outcome)>),
    /// The participant has logged these commits durably and applied them: it will never inquire
    /// about them. All are the receiver's own.
    Acknowledge(Vec<TranxId>),
    /// Requests the outcome of a transaction: the sender has voted yes and does not know it.
    Inquire {
        /// Transaction that the sender inquires about.
        tranx: TranxId,
    },
    /// Answers `Inquire` with the outcome, as far as the sender knows it.
    InquiryAnswer {
        /// Transaction that the receiver has inquired about.
        tranx: TranxId,
        /// Outcome of the transaction; `None` if it is not decided, or the answering participant
        /// does not know it either.
        outcome: Option<Outcome>,
    },
    /// All of the sender's transactions with numbers up to `through` are complete, except some:
    /// decided, and each commit acknowledged by all its participants (`LC_TranxID` in section 3.3.2
    /// of the paper, which is the largest number below the first exception). A participant that is
    /// still in doubt about a complete one has not acknowledged it, so it was aborted.
    LowWater {
        /// The last number that was given; 0 if none was.
        through: u64,
        /// Numbers up to `through` that are not complete, in order.
        incomplete: Vec<u64>,
    },
    /// The transaction is aborted, because a server found its reads to be stale. Its locks are kept
    /// for a while: another attempt will name it, and take them.
    Keep {
        /// Transaction that is aborted, and whose locks are kept.
        tranx: TranxId,
    },
    /// A step of making a snapshot.
    Snapshot(SnapshotMessage),
}

impl Message {
    /// The answer of a server that votes no for this reason before its node has seen the request;
    /// `None`: the message asks for no vote.
    pub(crate) fn voted_against(&self, refusal: impl FnOnce() -> Refusal) -> Option<Self> {
        let epoch = Epoch(0);
        match self {
            Self::Prepare { tranx, .. } => Some(Self::Vote { tranx: *tranx, vote: Vote::No(refusal()), epoch }),
            Self::Validate { validation, .. } => {
                Some(Self::Validated { validation: *validation, vote: Vote::No(refusal()), epoch })
            }
            _ => None,
        }
    }
}

/// Between servers, about snapshots. Each may be lost, repeated and late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SnapshotMessage {
    /// Requests the epoch that the receiver is in.
    Ask {
        /// Life of the server that asks.
        by: Incarnation,
        /// Number of the question, counted by that life.
        number: u64,
    },
    /// Answers `Ask` with the epoch of the sender.
    Asked {
        /// Life of the asker, as in the question.
        by: Incarnation,
        /// Number of the question that is answered.
        number: u64,
        /// Epoch that the sender is in.
        epoch: Epoch,
    },
    /// Requests that the receiver enters this epoch.
    Raise {
        /// Epoch that the receiver is to enter.
        epoch: Epoch,
    },
    /// The epoch is entered, durably.
    Raised {
        /// Epoch that the sender has entered.
        epoch: Epoch,
    },
    /// Every server has entered this epoch: answer when everything before it is decided.
    Settle {
        /// Epoch that is to be settled.
        epoch: Epoch,
    },
    /// Answers `Settle`: whether everything before the epoch is decided at the sender.
    Settled {
        /// Epoch that was to be settled.
        epoch: Epoch,
        /// State of the epoch at the sender.
        settlement: Settlement,
    },
}

/// Answer to whether a server can be read as of the end of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Settlement {
    /// Yes, and it stays so.
    Settled,
    /// Not before this transaction is applied or aborted. `Settled` or `Disturbed` follows.
    Waits(TranxId),
    /// The epoch can never be settled: a client was answered too early.
    Disturbed,
}

impl Outcome {
    /// Returns true if the transaction is committed.
    pub const fn is_commit(self) -> bool {
        matches!(self, Self::Commit(_))
    }
}
