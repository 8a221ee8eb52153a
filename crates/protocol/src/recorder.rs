//! The owner's side of a client record: chooses the next write to the record, and draws conclusions
//! from its answer.
//!
//! One write is under way at a time. It demands the stamp that the last one left and leaves a new
//! one.
//!
//! Commit of a transaction, with the numbers used in the code below:
//!
//! 1. The transaction asks ([`Recorder::request_commit`]) after its last prepared write was
//!    acknowledged.
//! 2. A write to the record that was *composed after* step 1 and acknowledged is the transaction's
//!    evidence: a server that later loses a prepared write has lost this stamp too, because logs
//!    lose suffixes only. The evidence also has to show that no server was replaced *between* the
//!    prepared writes: the write must have run in the connection epoch in which the transaction
//!    sent its first prepared write, and over a connection that had been answered by then.
//! 3. The next write decides it, together with all other transactions that have evidence (group
//!    commit). Under load the decision of one group is the evidence of the next; alone, a cheap
//!    stamp that waits for no journal comes first.
//! 4. Its documents are finished by the caller, who then reports [`Recorder::note_clean`].
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
//! Interrupted after 1 or 2: undecided, rolled back when the lease ends. After 3: committed; any
//! client that meets one of its documents finishes it. After 5: nothing is left but a number.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    id::Seq,
    status::{ClientRecord, TxStatus},
};

/// How durable a decision is before it is answered. Where several servers keep the data, less than
/// the majority is raised to it.
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
    /// Does a write that is acknowledged over the connection of this number prove that nothing was
    /// lost since?
    fn is_proven_over(self, connection: u64) -> bool {
        self.answered && connection == self.epoch
    }
}

/// The life of a number from `low` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Open,
    Committed,
    CommittedClean(Clean),
    RolledBack,
    RolledBackClean,
}

/// The evidence that finished documents were not lost (step 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Clean {
    /// The connection before the first document was finished.
    since: Since,
    evidence: Option<u64>,
    proven: bool,
}

impl Phase {
    fn is_committed(&self) -> bool {
        matches!(self, Self::Committed | Self::CommittedClean(_))
    }

    fn is_rolled_back(&self) -> bool {
        matches!(self, Self::RolledBack | Self::RolledBackClean)
    }

    /// No document carries its locks, as far as is known.
    fn is_clean(&self) -> bool {
        matches!(self, Self::CommittedClean(_) | Self::RolledBackClean)
    }

    /// May `low` rise above it, by a write that is sent over this connection or not at all?
    fn may_leave(&self, connection: Option<u64>) -> bool {
        match self {
            Self::RolledBackClean => true,
            Self::CommittedClean(clean) => {
                clean.proven || connection.is_some_and(|connection| clean.since.is_proven_over(connection))
            }
            _ => false,
        }
    }
}

/// A transaction that asked to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    seq: Seq,
    concern: Concern,
    /// The connection before its first prepared write.
    since: Since,
    /// The stamp of the write that will be, or is, its evidence (step 2).
    evidence: Option<u64>,
    proven: bool,
}

/// One write to the record. All of it or none of it is applied, and at most once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordWrite {
    /// Applies only to a record with this stamp …
    pub demands: u64,
    /// … that is not fenced and in which none of these is killed.
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
pub enum Outcome {
    /// The decision was acknowledged: the transaction is committed.
    Committed(Seq),
    /// Decided, or certain to be: not committed.
    RolledBack(Seq),
    /// The decision was sent, and the record that would tell what became of it is gone.
    Indeterminate(Seq),
}

/// Conclusion about a write to the record, from its answer or from the record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The write was applied, or all that it did not decide is settled: go on with the next write.
    GoOn(Vec<Outcome>),
    /// The write was not applied and can be sent again unchanged.
    SendAgain,
    /// Nothing can be decided in this record any more: each of its open transactions is rolled
    /// back, and none of its writes can be applied later. The record should be fenced (if it exists
    /// and is not), so that rivals need not wait for the lease. The client needs a new record.
    Lost(Vec<Outcome>),
}

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
    /// Numbers that are left out of decisions for now, because a reader has asked for quiet.
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
    /// Answers false when the number is not open (rolled back in the meantime, or never allocated).
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

    /// Is a decision about it under way? Then the server may know more than the owner: others may
    /// have read it.
    pub fn is_being_decided(&self, seq: Seq) -> bool {
        self.under_way().any(|write| write.decides.contains(&seq))
    }

    /// The writes that may have been applied without its being known.
    fn under_way(&self) -> impl Iterator<Item = &RecordWrite> {
        self.in_flight.iter().chain(&self.unanswered)
    }

    /// Stamp of the last acknowledged write. A write that closes the record demands it: a server
    /// that lost the acknowledged write may show documents locked again that were finished before.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Whether a transaction that is not held back waits for its decision, or for the evidence that
    /// it needs.
    pub fn has_waiting(&self) -> bool {
        self.waiting.iter().any(|waiting| !waiting.proven || !self.held.contains(&waiting.seq))
    }

    /// May a write be applied still that was bound to a connection which is lost? Then the next one
    /// is a barrier.
    pub fn has_unanswered(&self) -> bool {
        self.unanswered.is_some()
    }

    /// The server has *answered* that it did not apply the write that is under way, because the
    /// record asks for quiet where these numbers have written. They are left out until
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

    /// Is a transaction left out of decisions for now?
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

    /// Every number is below `low`, and the record says so.
    pub fn is_settled(&self) -> bool {
        self.phases.is_empty() && self.under_way().next().is_none()
    }

    /// How many numbers the record lists: what rotation keeps small.
    pub fn listed(&self) -> usize {
        self.phases.len() + self.aborted_in_trace
    }

    /// In this connection epoch, will the record be given up because documents were finished in an
    /// earlier one (step 5)? Then it is of no use to new transactions.
    pub fn is_outlived(&self, epoch: u64) -> bool {
        self.phases.values().any(|phase| match phase {
            Phase::CommittedClean(clean) => !clean.proven && !clean.since.is_proven_over(epoch),
            _ => false,
        })
    }

    /// The next write, if a transaction waits for a decision or for evidence, or if `anyway`
    /// (heartbeat, new collection). `None` while one is under way or once the record is lost.
    pub fn next_write(&mut self, anyway: bool) -> Option<RecordWrite> {
        self.next_write_over(anyway, None)
    }

    /// Like [`Self::next_write`], for a write that may be sent over the connection of this number
    /// or not at all, where that connection has been answered: it then needs no stamp as evidence.
    /// If it was not sent or not answered, [`Recorder::connection_lost`] has to be called, then
    /// [`Recorder::examined`].
    pub fn next_write_over(&mut self, anyway: bool, connection: Option<u64>) -> Option<RecordWrite> {
        if self.in_flight.is_some() || self.lost || !(self.has_waiting() || anyway || self.unanswered.is_some()) {
            return None;
        }
        let connection = connection.filter(|_| self.unanswered.is_none());
        let (decides, concern) = self.group(connection);
        let write = self.compose(decides, concern, connection);
        for waiting in self.waiting.iter_mut().filter(|w| w.evidence.is_none()) {
            waiting.evidence = Some(write.stamp);
        }
        for clean in self.cleans().filter(|c| c.evidence.is_none()) {
            clean.evidence = Some(write.stamp);
        }
        self.in_flight = Some(write.clone());
        Some(write)
    }

    fn cleans(&mut self) -> impl Iterator<Item = &mut Clean> {
        self.phases.values_mut().filter_map(|phase| match phase {
            Phase::CommittedClean(clean) => Some(clean),
            _ => None,
        })
    }

    /// Step 3: every transaction that has evidence and asks for the same concern as the first.
    /// Empty as long as an earlier decision may still arrive.
    fn group(&self, connection: Option<u64>) -> (Vec<Seq>, Concern) {
        let proven = |w: &&Waiting| w.proven || connection.is_some_and(|connection| w.since.is_proven_over(connection));
        let may = |w: &&Waiting| self.unanswered.is_none() && !self.held.contains(&w.seq);
        let free = || self.waiting.iter().filter(proven).filter(may);
        let mut proven = free();
        let Some(first) = proven.next() else {
            return (Vec::new(), Concern::Acknowledged);
        };
        let same = free().filter(|w| w.concern == first.concern);
        (same.map(|w| w.seq).collect(), first.concern)
    }

    /// The mark that a write may set which is sent over this connection or not at all.
    fn low_over(&self, connection: Option<u64>) -> Seq {
        let stays = self.phases.iter().find(|(_, phase)| !phase.may_leave(connection));
        stays.map_or(self.next_seq, |(seq, _)| *seq)
    }

    fn compose(&mut self, decides: Vec<Seq>, concern: Concern, connection: Option<u64>) -> RecordWrite {
        let low = self.low_over(connection);
        let by_stamp = |seq: &Seq| self.waiting.iter().any(|w| w.seq == *seq && w.proven);
        let over = connection.filter(|_| low > self.low_over(None) || !decides.iter().all(by_stamp));
        let of = |wanted: fn(&Phase) -> bool| {
            let listed = self.phases.range(low..).filter(move |(_, phase)| wanted(phase));
            listed.map(|(seq, _)| *seq).collect::<Vec<_>>()
        };
        let mut committed = of(Phase::is_committed);
        let rolled_back = of(Phase::is_rolled_back);
        committed.extend(&decides);
        committed.sort_unstable();
        let leaving = self.phases.range(..low).filter(|(_, phase)| **phase == Phase::RolledBackClean);
        let aborted = leaving.map(|(seq, _)| *seq).collect();
        self.last_used_stamp += 1;
        RecordWrite {
            demands: self.stamp,
            decides,
            stamp: self.last_used_stamp,
            low,
            committed,
            rolled_back,
            aborted,
            concern,
            over,
        }
    }

    /// Notes that the write was applied and acknowledged, in connection epoch `epoch` or an earlier
    /// one. [`Verdict::Lost`]: the server may have been replaced while documents were finished, so
    /// this record cannot go on; a sweep finishes them again.
    pub fn acknowledged(&mut self, epoch: u64) -> Verdict {
        let Some(write) = self.in_flight.take() else {
            return Verdict::GoOn(Vec::new());
        };
        // An earlier write without an answer demands the stamp that this one has replaced.
        self.unanswered = None;
        let mut outcomes = self.apply(&write);
        let (kept, broken): (Vec<_>, Vec<_>) = self
            .waiting
            .drain(..)
            .partition(|w| w.proven || w.evidence != Some(write.stamp) || w.since.is_proven_over(epoch));
        self.waiting = kept;
        for waiting in self.waiting.iter_mut().filter(|w| w.evidence == Some(write.stamp)) {
            waiting.proven = true;
        }
        outcomes.extend(broken.into_iter().map(|w| self.settle(w.seq, Phase::RolledBack)));
        let mut replaced = false;
        for clean in self.cleans().filter(|c| c.evidence == Some(write.stamp)) {
            clean.proven = clean.since.is_proven_over(epoch);
            replaced |= !clean.proven;
        }
        if replaced {
            outcomes.extend(self.abandon(None));
            return Verdict::Lost(outcomes);
        }
        Verdict::GoOn(outcomes)
    }

    fn apply(&mut self, write: &RecordWrite) -> Vec<Outcome> {
        self.stamp = write.stamp;
        self.low = write.low;
        self.phases = self.phases.split_off(&write.low);
        self.aborted_in_trace += write.aborted.len();
        self.waiting.retain(|w| !write.decides.contains(&w.seq));
        write.decides.iter().map(|seq| self.settle(*seq, Phase::Committed)).collect()
    }

    fn settle(&mut self, seq: Seq, phase: Phase) -> Outcome {
        self.phases.insert(seq, phase);
        if phase == Phase::Committed { Outcome::Committed(seq) } else { Outcome::RolledBack(seq) }
    }

    /// The connection was lost over which the write that is under way was sent, and no answer came:
    /// what was bound to that connection is not sent again. The record is to be read
    /// ([`Recorder::examined`]) over a connection that has been answered.
    pub fn connection_lost(&mut self) {
        if self.in_flight.as_ref().is_some_and(|write| write.over.is_some()) {
            self.unanswered = self.in_flight.take();
            self.drop_unproven_evidence();
        }
    }

    /// Concludes from the record what became of the write that matched nothing or was not answered.
    ///
    /// The record passed must be *durable*: an acknowledged decision is reported to the
    /// application, and a server that is killed must not come back without it. (Read it with a
    /// journaled write that changes nothing of importance.)
    pub fn examined(&mut self, record: Option<&ClientRecord>) -> Verdict {
        let Some(latest) = self.under_way().next() else {
            return Verdict::GoOn(Vec::new());
        };
        let demands = latest.demands;
        let applied = |record: &ClientRecord| self.under_way().find(|write| write.stamp == record.stamp).cloned();
        match record.filter(|record| !record.fenced) {
            Some(open) if open.stamp == demands => self.not_applied(open),
            Some(open) => match applied(open) {
                Some(write) => Verdict::GoOn(self.applied_unproven(&write)),
                None => Verdict::Lost(self.abandon(record)),
            },
            None => Verdict::Lost(self.abandon(record)),
        }
    }

    /// The record has the stamp that the write demands: a transaction of the group was killed, or
    /// the write has not arrived. A write that is bound to its connection was answered as refused
    /// and is composed anew, or is waited for behind a barrier.
    fn not_applied(&mut self, record: &ClientRecord) -> Verdict {
        let is_bound = self.in_flight.as_ref().is_none_or(|write| write.over.is_some());
        match self.refused_for_killed(record) {
            Verdict::SendAgain if is_bound => {
                self.drop_unproven_evidence();
                Verdict::GoOn(Vec::new())
            }
            verdict => verdict,
        }
    }

    /// The write was applied in an unknown connection epoch: transactions that needed it as
    /// evidence need another.
    fn applied_unproven(&mut self, write: &RecordWrite) -> Vec<Outcome> {
        let outcomes = self.apply(write);
        self.unanswered = None;
        self.drop_unproven_evidence();
        outcomes
    }

    fn drop_unproven_evidence(&mut self) {
        self.in_flight = None;
        for waiting in self.waiting.iter_mut().filter(|w| !w.proven) {
            waiting.evidence = None;
        }
        for clean in self.cleans().filter(|c| !c.proven) {
            clean.evidence = None;
        }
    }

    /// The stamp was right, so a transaction of the group was killed; if none was, the write has
    /// not arrived.
    fn refused_for_killed(&mut self, record: &ClientRecord) -> Verdict {
        let killed: Vec<Seq> = self.waiting.iter().map(|w| w.seq).filter(|seq| record.killed.contains(seq)).collect();
        if killed.is_empty() {
            return Verdict::SendAgain;
        }
        self.drop_unproven_evidence();
        self.waiting.retain(|w| !killed.contains(&w.seq));
        Verdict::GoOn(killed.into_iter().map(|seq| self.settle(seq, Phase::RolledBack)).collect())
    }

    /// Gives the record up: fenced by a rival, gone, or written back in time by a server that lost
    /// acknowledged writes. Transactions that the record calls committed are committed; all others
    /// that were open are rolled back. Without a record, the outcome of a decision that was under
    /// way is unknown.
    pub fn abandon(&mut self, record: Option<&ClientRecord>) -> Vec<Outcome> {
        self.lost = true;
        let under_way: Vec<RecordWrite> = self.in_flight.take().into_iter().chain(self.unanswered.take()).collect();
        self.waiting.clear();
        let open: Vec<Seq> = self.phases.iter().filter(|(_, p)| **p == Phase::Open).map(|(seq, _)| *seq).collect();
        let undecided = |seq: Seq| record.is_none() && under_way.iter().any(|write| write.decides.contains(&seq));
        let fate = |seq: Seq| match record {
            Some(record) if record.committed.contains(&seq) => Phase::Committed,
            _ => Phase::RolledBack,
        };
        let settle = |seq| if undecided(seq) { Outcome::Indeterminate(seq) } else { self.settle(seq, fate(seq)) };
        open.into_iter().map(settle).collect()
    }

    /// Is this record of no more use?
    pub fn is_lost(&self) -> bool {
        self.lost
    }
}

#[cfg(test)]
mod tests;
