//! The owner's side of a client record: chooses the next write to the record, and draws conclusions
//! from its answer.
//!
//! One write is under way at a time. It demands the stamp that the last one left and leaves a new
//! one.
//!
//! Commit of a transaction, with the numbers used in the code below:
//!
//! 1. The transaction requests its commit ([`Recorder::request_commit`]) after its last prepared
//!    write was acknowledged.
//! 2. A write to the record that was *composed after* step 1 and acknowledged is the transaction's
//!    evidence: a server that later loses a prepared write has lost this stamp too, because logs
//!    lose suffixes only. The evidence also has to show that no server was replaced *between* the
//!    prepared writes: the write must have run in the connection epoch in which the transaction
//!    sent its first prepared write, and over a connection that had been answered by then.
//! 3. The next write decides it, together with all other transactions that have evidence (group
//!    commit). Under load the decision of one group is the evidence of the next; alone, a cheap
//!    stamp that waits for no journal comes first.
//! 4. Its documents are finished by the caller, which then reports [`Recorder::note_clean`].
//! 5. A later write is evidence, as in 2, that the server has not lost a finished document since;
//!    only the one after it raises `low` above the number. (A document that a restart locks again
//!    under a number below `low` would be taken for an orphan, and half of a commit rolled back.)
//!    Documents of rolled-back transactions need no evidence: their numbers stay known as rolled
//!    back.
//!
//! On a server with a single log, the connection itself may be the evidence for both, if the write
//! is sent over that very connection or not at all ([`Recorder::next_write_over`],
//! [`RecordWrite::over`], decision 0039): then 2 falls away, and 5 is one write. Such a write is
//! never sent again over another connection. When its answer is lost, the record shows whether it
//! was applied. If it was not, a *barrier*, a write that decides nothing, makes sure that it never
//! will be, before an outcome is reported.
//!
//! This file has the steps 1 and 4 and the owner's queries about its numbers; `compose.rs` has the
//! next write, and `conclude.rs` what follows from its answer.
//!
//! Interrupted after 1 or 2: undecided, rolled back when the lease ends. After 3: committed; any
//! client that meets one of its documents finishes it. After 5: nothing is left but a number.

use std::collections::{BTreeMap, BTreeSet};

use self::phase::{Clean, Phase, Waiting};
pub use self::write::{Concern, RecordWrite, Since, TransactionEnd, Verdict};
use crate::{
    id::Seq,
    status::{ClientRecord, TxStatus},
};

mod compose;
mod conclude;
mod phase;
#[cfg(test)]
mod tests;
mod write;

/// The owner's state. See the module's header for the steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recorder {
    stamp: u64,
    last_used_stamp: u64,
    low: Seq,
    next_seq: Seq,
    phases: BTreeMap<Seq, Phase>,
    aborted_in_trace: usize,
    waiting: Vec<Waiting>,
    in_flight: Option<RecordWrite>,
    /// A write that was bound to a connection which was lost before it answered: it may be applied
    /// still. Until that is settled, nothing is decided.
    unanswered: Option<RecordWrite>,
    /// Numbers that are left out of decisions for now, because a reader has set quiet.
    held: BTreeSet<Seq>,
    lost: bool,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// The state that belongs to a record just inserted: stamp 0, low 1, nothing decided.
    pub fn new() -> Self {
        Self {
            stamp: 0,
            last_used_stamp: 0,
            low: 1,
            next_seq: 1,
            phases: BTreeMap::new(),
            aborted_in_trace: 0,
            waiting: Vec::new(),
            in_flight: None,
            unanswered: None,
            held: BTreeSet::new(),
            lost: false,
        }
    }

    /// The record as [`Recorder::new`] expects to find it.
    pub fn initial_record() -> ClientRecord {
        ClientRecord { low: 1, ..Default::default() }
    }

    /// A number for a transaction that is about to send its first prepared write.
    pub fn allocate(&mut self) -> Seq {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.phases.insert(seq, Phase::Open);
        seq
    }

    /// Step 1. `since` is the connection as it was before the first prepared write was sent.
    /// Returns false when the number is not open (rolled back in the meantime, or never allocated).
    pub fn request_commit(&mut self, seq: Seq, concern: Concern, since: impl Into<Since>) -> bool {
        let open = self.phases.get(&seq) == Some(&Phase::Open) && !self.lost;
        if open && self.waiting.iter().all(|w| w.seq != seq) {
            self.waiting.push(Waiting { seq, concern, since: since.into(), evidence: None, proven: false });
        }
        open
    }

    /// The owner rolls `seq` back. Only for a number whose commit was not requested, or was
    /// answered.
    pub fn note_rolled_back(&mut self, seq: Seq) {
        if let Some(phase) = self.phases.get_mut(&seq)
            && *phase == Phase::Open
        {
            *phase = Phase::RolledBack;
        }
        self.waiting.retain(|w| w.seq != seq);
    }

    /// Step 4: no document carries a lock of `seq` any more. `since` is the connection as it was
    /// before the first of its documents was finished.
    pub fn note_clean(&mut self, seq: Seq, since: impl Into<Since>) {
        if let Some(phase) = self.phases.get_mut(&seq) {
            *phase = match *phase {
                Phase::Committed => Phase::CommittedClean(Clean { since: since.into(), evidence: None, proven: false }),
                Phase::RolledBack => Phase::RolledBackClean,
                other => other,
            };
        }
    }

    /// Status of one of the owner's numbers as the owner knows it, without asking the server.
    pub fn status(&self, seq: Seq) -> TxStatus {
        match self.phases.get(&seq) {
            Some(Phase::Open) => TxStatus::Active,
            Some(Phase::Committed | Phase::CommittedClean(_)) => TxStatus::Committed,
            Some(Phase::RolledBack | Phase::RolledBackClean) => TxStatus::RolledBack,
            None if seq < self.low => TxStatus::Finished,
            None => TxStatus::RolledBack,
        }
    }

    /// Returns true if a decision about this transaction is under way. Then the server may know the
    /// outcome before the owner does, and other clients may have read it.
    pub fn is_being_decided(&self, seq: Seq) -> bool {
        self.under_way().any(|write| write.decides.contains(&seq))
    }

    /// The writes that the server may have applied without the owner's knowledge.
    fn under_way(&self) -> impl Iterator<Item = &RecordWrite> {
        self.in_flight.iter().chain(&self.unanswered)
    }

    /// Stamp of the last acknowledged write. A write that closes the record demands it: a server
    /// that lost the acknowledged write may show documents locked again that were finished before.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Returns true if a transaction that is not held back waits for its decision, or for the
    /// evidence that it needs.
    pub fn has_waiting(&self) -> bool {
        self.waiting.iter().any(|waiting| !waiting.proven || !self.held.contains(&waiting.seq))
    }

    /// Returns true if a write may still be applied that was bound to a connection which is lost.
    /// Then the next one is a barrier.
    pub fn has_unanswered(&self) -> bool {
        self.unanswered.is_some()
    }

    /// The server has *answered* that it did not apply the write that is under way, because the
    /// record demands quiet where these numbers have written. They are left out until
    /// [`Recorder::release`]; the others of the group go with the next write.
    pub fn hold(&mut self, held: impl IntoIterator<Item = Seq>) {
        self.drop_unproven_evidence();
        self.held.extend(held);
    }

    /// The write that is under way cannot be applied any more: these numbers ask again, when what
    /// they rest on was looked at again ([`Recorder::request_commit`]).
    pub fn withdraw(&mut self, withdrawn: &[Seq]) {
        self.drop_unproven_evidence();
        self.waiting.retain(|waiting| !withdrawn.contains(&waiting.seq));
        self.held.retain(|seq| !withdrawn.contains(seq));
    }

    /// Returns true if a transaction is left out of decisions for now.
    pub fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Releases the numbers that were held back: the next write decides them.
    pub fn release(&mut self) {
        self.held.clear();
    }

    /// Every number is below `low`, or will be after at most two more writes: nothing is open,
    /// nothing unfinished.
    pub fn is_finished(&self) -> bool {
        self.phases.values().all(Phase::is_clean)
    }

    /// Returns true if a transaction of the record is not decided.
    pub fn has_open(&self) -> bool {
        self.phases.values().any(|phase| matches!(phase, Phase::Open))
    }

    /// Every number is below `low`, and the record says so.
    pub fn is_settled(&self) -> bool {
        self.phases.is_empty() && self.under_way().next().is_none()
    }

    /// Count of the numbers that the record lists; rotation keeps it small.
    pub fn listed(&self) -> usize {
        self.phases.len() + self.aborted_in_trace
    }

    /// Returns true if, in this connection epoch, the record will be given up because documents
    /// were finished in an earlier one (step 5). Then it is of no use to new transactions.
    pub fn is_outlived(&self, epoch: u64) -> bool {
        self.phases.values().any(|phase| match phase {
            Phase::CommittedClean(clean) => !clean.proven && !clean.since.is_proven_over(epoch),
            _ => false,
        })
    }

    /// Returns true if this record is of no more use.
    pub fn is_lost(&self) -> bool {
        self.lost
    }
}
