//! Summaries of the log's segments. An entry is counted when it is committed, and not when it is
//! appended: one that becomes void must not hold its segment back.

use std::collections::VecDeque;

use crate::core::{Record, SegmentId, SegmentSummary};
use crate::log::Position;

/// The segments that are in use, or have entries that are not committed.
pub(in crate::server) struct Summaries {
    /// Oldest first; the last one is in use.
    segments: VecDeque<Segment>,
}

struct Segment {
    id: SegmentId,
    /// Summary of the entries that are committed.
    counted: SegmentSummary,
    /// Summaries of the others, in the order of their indices.
    open: VecDeque<(Position, SegmentSummary)>,
}

impl Segment {
    fn new(id: SegmentId) -> Self {
        Self { id, counted: SegmentSummary::default(), open: VecDeque::new() }
    }

    /// Drops the summaries of entries that are void because of this one.
    fn replace(&mut self, entry: Position) {
        while self.open.back().is_some_and(|(other, _)| other.index >= entry.index && *other != entry) {
            self.open.pop_back();
        }
    }

    fn commit(&mut self, through: u64) {
        while self.open.front().is_some_and(|(entry, _)| entry.index <= through) {
            let Some((_, summary)) = self.open.pop_front() else { return };
            self.counted.add(&summary);
        }
    }
}

impl Summaries {
    /// The summaries of a log that goes on in this segment.
    pub(in crate::server) fn new(segment: SegmentId) -> Self {
        Self { segments: VecDeque::from([Segment::new(segment)]) }
    }

    /// Notes a segment that is in use from now on.
    pub(in crate::server) fn begin(&mut self, segment: SegmentId) {
        self.segments.push_back(Segment::new(segment));
    }

    /// Notes a record of an entry, in the segment in use.
    pub(in crate::server) fn note(&mut self, entry: Position, record: &Record) {
        self.segments.iter_mut().for_each(|segment| segment.replace(entry));
        let Some(current) = self.segments.back_mut() else { return };
        if current.open.back().is_none_or(|(last, _)| *last != entry) {
            current.open.push_back((entry, SegmentSummary::default()));
        }
        if let Some((_, summary)) = current.open.back_mut() {
            summary.note(record);
        }
    }

    /// Counts the entries up to this index, which are committed. Returns the segments that are
    /// complete by it, with their summaries: no entry in them, nor in those before, is open.
    pub(in crate::server) fn commit(&mut self, through: u64) -> Vec<(SegmentId, SegmentSummary)> {
        self.segments.iter_mut().for_each(|segment| segment.commit(through));
        let mut complete = Vec::new();
        while self.segments.len() > 1 && self.segments[0].open.is_empty() {
            complete.extend(self.segments.pop_front().map(|segment| (segment.id, segment.counted)));
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Outcome, ServerId, TranxId};

    fn at(index: u64, term: u64) -> Position {
        Position { term, index }
    }

    fn record(number: u64) -> Record {
        Record::Outcome { tranx: TranxId { server: ServerId(1), number }, outcome: Outcome::Abort }
    }

    fn summary(numbers: &[u64]) -> SegmentSummary {
        let mut summary = SegmentSummary::default();
        numbers.iter().for_each(|number| summary.note(&record(*number)));
        summary
    }

    #[test]
    fn segment_is_complete_when_all_its_entries_are_committed() {
        let mut summaries = Summaries::new(SegmentId(1));
        summaries.note(at(1, 1), &record(10));
        summaries.note(at(1, 1), &record(11));
        summaries.note(at(2, 1), &record(12));
        assert_eq!(summaries.commit(2), [], "the segment is in use");
        summaries.note(at(3, 1), &record(13));
        summaries.begin(SegmentId(2));
        summaries.note(at(4, 1), &record(14));
        assert_eq!(summaries.commit(2), []);
        summaries.begin(SegmentId(3));
        assert_eq!(summaries.commit(3), [(SegmentId(1), summary(&[10, 11, 12, 13]))]);
        assert_eq!(summaries.commit(9), [(SegmentId(2), summary(&[14]))]);
    }

    /// The entry reserves numbers that are never reached: its segment could not go before a later
    /// record reserves as many.
    #[test]
    fn void_entry_is_not_counted_in_any_segment() {
        let reserve = Record::Reserve { through: 1 << 40 };
        let mut summaries = Summaries::new(SegmentId(1));
        summaries.note(at(1, 1), &record(10));
        summaries.note(at(2, 1), &reserve);
        summaries.begin(SegmentId(2));
        summaries.note(at(3, 1), &reserve);
        assert_eq!(summaries.commit(1), []);
        summaries.note(at(2, 2), &record(20));
        assert_eq!(summaries.commit(1), [(SegmentId(1), summary(&[10]))], "nothing in it is open any more");
        summaries.begin(SegmentId(3));
        assert_eq!(summaries.commit(2), [(SegmentId(2), summary(&[20]))]);
    }
}
