//! What is committed in the segments of a member's log, and which of these are complete: they are
//! handed to the garbage collection.
//!
//! A segment is complete when it is not in use, no entry in it or in those before can still be
//! committed or become void, and no member of the group that is waited for lacks an entry in it.

use std::collections::BTreeMap;

use crate::core::{Record, SegmentId, SegmentSummary};
use crate::log;

/// Segments with committed entries that the garbage collection does not have.
pub(in crate::server) struct Committed {
    segments: BTreeMap<SegmentId, Counted>,
    /// No member that is waited for lacks entries up to this index.
    spare: u64,
}

/// The committed entries of a segment.
struct Counted {
    summary: SegmentSummary,
    /// Greatest index among them, or more.
    last: u64,
}

impl Committed {
    /// Begins with what was found when the log was read, and the greatest index in it that is
    /// committed.
    pub(in crate::server) fn new(found: BTreeMap<SegmentId, SegmentSummary>, last: u64) -> Self {
        let counted = found.into_iter().map(|(segment, summary)| (segment, Counted { summary, last }));
        Self { segments: counted.collect(), spare: 0 }
    }

    /// Counts an entry that is committed.
    ///
    /// # Errors
    /// A record of it is none.
    pub(in crate::server) fn count(&mut self, segment: SegmentId, index: u64, payload: &[u8]) -> Result<(), String> {
        let empty = || Counted { summary: SegmentSummary::default(), last: 0 };
        let counted = self.segments.entry(segment).or_insert_with(empty);
        counted.last = counted.last.max(index);
        for record in log::records(payload) {
            let record: Record = postcard::from_bytes(record).map_err(|error| format!("entry {index}: {error}"))?;
            counted.summary.note(&record);
        }
        Ok(())
    }

    /// No member that is waited for lacks entries up to this index.
    pub(in crate::server) fn spare(&mut self, through: u64) {
        self.spare = self.spare.max(through);
    }

    /// The segments that are complete, oldest first. `open` is the first one that is in use, or has
    /// an entry that is not known to be committed.
    pub(in crate::server) fn take_complete(&mut self, open: SegmentId) -> Vec<(SegmentId, SegmentSummary)> {
        let mut complete = Vec::new();
        while let Some(first) = self.segments.first_entry() {
            if *first.key() >= open || first.get().last > self.spare {
                break;
            }
            let (segment, counted) = first.remove_entry();
            complete.push((segment, counted.summary));
        }
        complete
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::core::{Outcome, ServerId, TranxId};

    const FIRST: SegmentId = SegmentId(1);
    const SECOND: SegmentId = SegmentId(2);

    fn record(number: u64) -> Record {
        Record::Outcome { tranx: TranxId { server: ServerId(1), number }, outcome: Outcome::Abort }
    }

    fn payload(number: u64) -> Vec<u8> {
        log::payload([&postcard::to_stdvec(&record(number)).unwrap()[..]])
    }

    fn summary(numbers: &[u64]) -> SegmentSummary {
        let mut summary = SegmentSummary::default();
        numbers.iter().for_each(|number| summary.note(&record(*number)));
        summary
    }

    /// Entries 1 and 2 in the first segment, and 3 in the second.
    fn three() -> Committed {
        let mut committed = Committed::new(BTreeMap::new(), 0);
        for (segment, index) in [(FIRST, 1), (FIRST, 2), (SECOND, 3)] {
            committed.count(segment, index, &payload(index * 10)).unwrap();
        }
        committed
    }

    #[test]
    fn segment_is_complete_when_no_member_lacks_an_entry_of_it() {
        let mut committed = three();
        committed.spare(1);
        assert_eq!(committed.take_complete(SegmentId(3)), []);
        committed.spare(2);
        assert_eq!(committed.take_complete(SegmentId(3)), [(FIRST, summary(&[10, 20]))]);
        committed.spare(1);
        committed.spare(3);
        assert_eq!(committed.take_complete(SegmentId(3)), [(SECOND, summary(&[30]))]);
    }

    #[test]
    fn segment_is_not_complete_while_it_or_one_before_has_an_open_entry() {
        let mut committed = three();
        committed.spare(u64::MAX);
        assert_eq!(committed.take_complete(FIRST), []);
        assert_eq!(committed.take_complete(SegmentId(0)), []);
        assert_eq!(committed.take_complete(SECOND), [(FIRST, summary(&[10, 20]))]);
    }

    #[test]
    fn segment_that_was_found_waits_for_all_that_was_found() {
        let found = BTreeMap::from([(FIRST, summary(&[10]))]);
        let mut committed = Committed::new(found, 5);
        committed.spare(4);
        assert_eq!(committed.take_complete(SECOND), []);
        committed.spare(5);
        committed.count(FIRST, 6, &payload(60)).unwrap();
        assert_eq!(committed.take_complete(SECOND), [], "an entry in it has become committed");
        committed.spare(6);
        assert_eq!(committed.take_complete(SECOND), [(FIRST, summary(&[10, 60]))]);
    }

    #[test]
    fn entry_without_records_is_counted_and_one_of_no_records_refused() {
        let mut committed = Committed::new(BTreeMap::new(), 0);
        committed.count(FIRST, 1, &[]).unwrap();
        assert_eq!(committed.take_complete(SECOND), []);
        let error = committed.count(FIRST, 2, &log::payload([&b"\xff"[..]])).unwrap_err();
        assert!(error.starts_with("entry 2: "), "{error}");
    }
}
