//! The next write to the record: steps 2, 3 and 5.

use super::{Clean, Concern, Phase, RecordWrite, Recorder, Waiting};
use crate::id::Seq;

impl Recorder {
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

    pub(super) fn cleans(&mut self) -> impl Iterator<Item = &mut Clean> {
        self.phases.values_mut().filter_map(|phase| match phase {
            Phase::CommittedClean(clean) => Some(clean),
            _ => None,
        })
    }

    /// Step 3: every transaction that has evidence and the same concern as the first. Empty as long
    /// as an earlier decision may still arrive.
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
}
