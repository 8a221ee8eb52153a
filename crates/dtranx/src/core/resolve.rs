//! Decisions that an operator may take about a transaction in doubt whose coordinator is lost for
//! good.
//!
//! Only the coordinator and the other participants can know the outcome. The log of each of them is
//! read, or the operator says that it is lost. What any log knows stands; the operator decides only
//! what none knows.
//!
//! The items know something, too: a participant that receives a commit does its writes while it
//! logs the outcome, and may have been stopped with the writes done and the record lost. No later
//! transaction has written the keys: its record would follow the outcome in the same log. But a
//! restart puts those keys back that earlier transactions in the log have written: one item that
//! has the transaction's version shows that it is committed, whatever the others have.
//!
//! Two operators may look at copies of the same folders, neither seeing what the other does. So,
//! where nothing is known and either outcome is right, it is decided in the log of one participant:
//! the lowest-numbered that is not lost. Where something is known, there is only one outcome left,
//! and it may be recorded anywhere.
//!
//! The decision is the record that the participant would have written on receiving the outcome
//! ([`Record::Outcome`]). So a server that starts with it acts on it as on any other, and answers
//! the inquiries of participants in doubt with it.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::{
    id::{Epoch, ServerId, TranxId},
    item::Key,
    message::Outcome,
    range::KeyRange,
    record::Record,
    transaction::Write,
};

/// A transaction that a participant has voted for, and of which its log has no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionInDoubt {
    /// Id of the transaction, with its coordinator.
    pub tranx: TranxId,
    /// All participants, in order; the coordinator need not be one.
    pub participants: Vec<ServerId>,
    /// Keys of this participant that are read, and not written too.
    pub shared: Vec<Key>,
    /// Ranges that were scanned at this participant.
    pub ranges: Vec<KeyRange>,
    /// Writes of the transaction at this participant.
    pub writes: Vec<Write>,
}

/// State of a transaction by the log and the items of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The transaction is committed, in this epoch.
    Committed(Epoch),
    /// The transaction is aborted: the log says so, or the coordinator's log has no commit of it,
    /// or it is complete although a participant is in doubt.
    Aborted,
    /// The server has voted yes, and does not know the outcome.
    InDoubt,
    /// The server has voted yes, and has done its writes: it had received the commit.
    Applied,
    /// The server has voted yes, and may or may not have done its writes: none of the keys that it
    /// puts shows them, and a key that it deletes is absent.
    PerhapsApplied,
    /// The server has not voted yes: the transaction cannot have been committed.
    NoVote,
    /// The log is the coordinator's and ends before the transaction's number was given: it is an
    /// old copy.
    Older,
}

/// An operator's decision about one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The transaction's writes are done.
    Commit,
    /// The transaction's writes are dropped.
    Abort,
}

/// Reason why a decision is refused. Nothing is recorded then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Undecided {
    /// Logs of servers that may know the outcome were neither read nor said to be lost.
    #[error("{tranx}: the outcome may be known to server {}", list(servers))]
    Unasked {
        /// Id of the transaction in doubt.
        tranx: TranxId,
        /// Servers that may know its outcome.
        servers: Vec<ServerId>,
    },
    /// No log knows the outcome, so that either is right: it is chosen on one server only.
    #[error("{tranx}: no log knows the outcome: decide this on server {server}")]
    Elsewhere {
        /// Id of the transaction in doubt.
        tranx: TranxId,
        /// The lowest-numbered participant that is not lost.
        server: ServerId,
    },
    /// A server's log says otherwise.
    #[error("{tranx}: it cannot be {}: server {server} {known}", decision.done())]
    Known {
        /// Id of the transaction in doubt.
        tranx: TranxId,
        /// Decision that the operator has requested.
        decision: Decision,
        /// Server whose log contradicts the decision.
        server: ServerId,
        /// State of the transaction by that log.
        known: Known,
    },
    /// The server is not in doubt about the transaction.
    #[error("{tranx}: {what}")]
    NotInDoubt {
        /// Id of the transaction that the operator has named.
        tranx: TranxId,
        /// State of the transaction at the server.
        what: String,
    },
}

impl TransactionInDoubt {
    /// Servers that may know the outcome, in order: the coordinator and the other participants.
    pub fn witnesses(&self, me: ServerId) -> BTreeSet<ServerId> {
        let participants = self.participants.iter().copied().filter(|server| *server != me);
        participants.chain([self.tranx.server]).collect()
    }

    /// State of the transaction at a participant whose log is in doubt, by its items. `version`
    /// gives what a key's item has. The writes are done all together or not at all, but a restart
    /// may have put some of the keys back to what they were.
    ///
    /// # Errors
    /// Errors of `version`, which reads an item.
    pub fn by_items<E>(&self, mut version: impl FnMut(&Key) -> Result<Option<TranxId>, E>) -> Result<Known, E> {
        let mut may_have_deleted = false;
        for write in &self.writes {
            let found = version(&write.key)?;
            if write.value.is_none() {
                may_have_deleted |= found.is_none();
            } else if found == Some(self.tranx) {
                return Ok(Known::Applied);
            }
        }
        Ok(if may_have_deleted { Known::PerhapsApplied } else { Known::InDoubt })
    }

    /// The participant in whose log an outcome is chosen that no log knows.
    fn chooser(&self, me: ServerId, lost: &BTreeSet<ServerId>) -> ServerId {
        let left = self.participants.iter().copied().filter(|server| !lost.contains(server));
        left.min().unwrap_or(me)
    }

    /// Outcome that the participant `me` may record by an operator's decision. `known` is what logs
    /// and items of servers say, this one's among them; `epoch` is the last epoch that any of the
    /// logs has reserved, so that no participant has accepted its part in a later one.
    ///
    /// # Errors
    /// A log says otherwise; a server that may know the outcome is neither in `known` nor `lost`;
    /// nothing is known, and another server is the one on which it is decided.
    pub fn decide(
        &self,
        me: ServerId,
        decision: Decision,
        known: &BTreeMap<ServerId, Known>,
        lost: &BTreeSet<ServerId>,
        epoch: Epoch,
    ) -> Result<Outcome, Undecided> {
        let tranx = self.tranx;
        let witnesses = self.witnesses(me);
        let says = |server: &ServerId| *server == me || witnesses.contains(server);
        let known: BTreeMap<ServerId, Known> =
            known.iter().filter(|(server, _)| says(server)).map(|(server, known)| (*server, *known)).collect();
        let was_aborted = known.values().any(|known| matches!(known, Known::Aborted | Known::NoVote));
        if let Some((server, known)) = known.iter().find(|(_, known)| !known.fits(decision, was_aborted)) {
            return Err(Undecided::Known { tranx, decision, server: *server, known: *known });
        }
        let unasked = |server: &ServerId| !known.contains_key(server) && !lost.contains(server);
        let servers: Vec<ServerId> = witnesses.into_iter().filter(unasked).collect();
        if !servers.is_empty() {
            return Err(Undecided::Unasked { tranx, servers });
        }
        let chooser = self.chooser(me, lost);
        if chooser != me && known.values().all(|known| *known == Known::InDoubt) {
            return Err(Undecided::Elsewhere { tranx, server: chooser });
        }
        let committed_in = known.values().find_map(|known| match known {
            Known::Committed(epoch) => Some(*epoch),
            _ => None,
        });
        Ok(match decision {
            Decision::Commit => Outcome::Commit(committed_in.unwrap_or(epoch)),
            Decision::Abort => Outcome::Abort,
        })
    }
}

/// Records that a participant appends to its log for these outcomes, in this order. `reserved` is
/// the last epoch that its log has reserved: it has to have reserved the epoch of a commit before.
pub fn records(outcomes: &BTreeMap<TranxId, Outcome>, reserved: Epoch) -> Vec<Record> {
    let epochs = outcomes.values().filter_map(|outcome| match outcome {
        Outcome::Commit(epoch) => Some(*epoch),
        Outcome::Abort => None,
    });
    let last = epochs.max().filter(|last| *last > reserved);
    let reserve = last.map(|through| Record::Epochs { through });
    let outcomes = outcomes.iter().map(|(tranx, outcome)| Record::Outcome { tranx: *tranx, outcome: *outcome });
    reserve.into_iter().chain(outcomes).collect()
}

impl Decision {
    /// Returns true if the decision and the outcome agree.
    pub const fn is(self, outcome: Outcome) -> bool {
        matches!(self, Self::Commit) == outcome.is_commit()
    }

    /// The decision as a participle.
    pub const fn done(self) -> &'static str {
        match self {
            Self::Commit => "committed",
            Self::Abort => "aborted",
        }
    }
}

impl Known {
    /// Returns true if a decision does not contradict this state. `was_aborted`: some log says that
    /// the transaction was not committed.
    fn fits(self, decision: Decision, was_aborted: bool) -> bool {
        match self {
            Self::InDoubt => true,
            Self::Aborted | Self::NoVote => decision == Decision::Abort,
            Self::Committed(_) | Self::Applied => decision == Decision::Commit,
            // A commit does the same again; an abort could leave deletions that were done.
            Self::PerhapsApplied => decision == Decision::Commit || was_aborted,
            Self::Older => false,
        }
    }
}

impl std::fmt::Display for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Committed(_) => "knows that it is committed",
            Self::Aborted => "knows that it is aborted",
            Self::InDoubt => "has voted yes and does not know the outcome",
            Self::Applied => "has done its writes, so that it is committed",
            Self::PerhapsApplied => "has voted yes, and may have deleted its keys already",
            Self::NoVote => "has not voted yes, so that it was not committed",
            Self::Older => "has a log that ends before this transaction: it is an old copy",
        })
    }
}

fn list(servers: &[ServerId]) -> String {
    servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
