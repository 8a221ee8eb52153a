//! Conclusions of the owner about its transactions: from the answer to a write, or from the record
//! itself where there was none.

use super::{Phase, RecordWrite, Recorder, TransactionEnd, Verdict};
use crate::{id::Seq, status::ClientRecord};

impl Recorder {
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

    fn apply(&mut self, write: &RecordWrite) -> Vec<TransactionEnd> {
        self.stamp = write.stamp;
        self.low = write.low;
        self.phases = self.phases.split_off(&write.low);
        self.aborted_in_trace += write.aborted.len();
        self.waiting.retain(|w| !write.decides.contains(&w.seq));
        write.decides.iter().map(|seq| self.settle(*seq, Phase::Committed)).collect()
    }

    fn settle(&mut self, seq: Seq, phase: Phase) -> TransactionEnd {
        self.phases.insert(seq, phase);
        if phase == Phase::Committed { TransactionEnd::Committed(seq) } else { TransactionEnd::RolledBack(seq) }
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

    /// The record has the stamp that the write demands: a transaction of the group was aborted, or
    /// the write has not arrived. A write that is bound to its connection was answered as refused
    /// and is composed anew, or is waited for behind a barrier.
    fn not_applied(&mut self, record: &ClientRecord) -> Verdict {
        let is_bound = self.in_flight.as_ref().is_none_or(|write| write.over.is_some());
        match self.refused_for_aborted(record) {
            Verdict::SendAgain if is_bound => {
                self.drop_unproven_evidence();
                Verdict::GoOn(Vec::new())
            }
            verdict => verdict,
        }
    }

    /// The write was applied in an unknown connection epoch: transactions that needed it as
    /// evidence need another.
    fn applied_unproven(&mut self, write: &RecordWrite) -> Vec<TransactionEnd> {
        let outcomes = self.apply(write);
        self.unanswered = None;
        self.drop_unproven_evidence();
        outcomes
    }

    pub(super) fn drop_unproven_evidence(&mut self) {
        self.in_flight = None;
        for waiting in self.waiting.iter_mut().filter(|w| !w.proven) {
            waiting.evidence = None;
        }
        for clean in self.cleans().filter(|c| !c.proven) {
            clean.evidence = None;
        }
    }

    /// The stamp was right, so a transaction of the group was aborted; if none was, the write has
    /// not arrived.
    fn refused_for_aborted(&mut self, record: &ClientRecord) -> Verdict {
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
    pub fn abandon(&mut self, record: Option<&ClientRecord>) -> Vec<TransactionEnd> {
        self.lost = true;
        let under_way: Vec<RecordWrite> = self.in_flight.take().into_iter().chain(self.unanswered.take()).collect();
        self.waiting.clear();
        let open: Vec<Seq> = self.phases.iter().filter(|(_, p)| **p == Phase::Open).map(|(seq, _)| *seq).collect();
        let undecided = |seq: Seq| record.is_none() && under_way.iter().any(|write| write.decides.contains(&seq));
        let found = |seq: Seq| match record {
            Some(record) if record.committed.contains(&seq) => Phase::Committed,
            _ => Phase::RolledBack,
        };
        let settle =
            |seq| if undecided(seq) { TransactionEnd::Indeterminate(seq) } else { self.settle(seq, found(seq)) };
        open.into_iter().map(settle).collect()
    }
}
