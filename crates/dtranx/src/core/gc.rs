//! Garbage collection: finds the segments of the log that are no longer needed (section 3.3.2 of
//! the paper).
//!
//! A segment may go once each coordinator's low-water mark has reached the largest number that the
//! segment refers to. Only a prefix of the segments goes: a `Ready` must not outlive its outcome.
//! The marks are those of a `Marks` record in the log that is durable, and applied with everything
//! before it (`marks`).
//! 1. Find the prefix, by these marks; everything in it is applied.
//! 2. Let the storage persist what it applied.
//! 3. Write these marks, and the reserved numbers, into the GC log.
//! 4. Remove the segments.
//!
//! A crash between any two of these leaves more log than necessary, and nothing else.

use std::collections::BTreeMap;

use super::{
    event::Command,
    flaw::Flaw,
    id::{SegmentId, ServerId},
    machine::{GcEvent, Turn},
    record::{GcRecord, SegmentSummary},
};

/// The sealed segments, and the step of the collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Gc {
    segments: BTreeMap<SegmentId, SegmentSummary>,
    step: Step,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Step {
    #[default]
    Idle,
    /// The storage makes durable what it has applied.
    Persisting(SegmentId, GcRecord),
    /// The GC record is written.
    Recording(SegmentId),
}

impl Gc {
    pub(crate) fn on(&mut self, turn: &mut Turn<'_>, event: GcEvent) {
        match event {
            GcEvent::Collect(record) => self.collect(turn, record),
            GcEvent::Sealed { segment, summary } => self.sealed(segment, summary),
            GcEvent::Persisted => self.persisted(turn),
            GcEvent::Recorded => self.recorded(turn),
        }
    }

    /// Notes a segment that gets no more records.
    pub(crate) fn sealed(&mut self, segment: SegmentId, summary: SegmentSummary) {
        self.segments.insert(segment, summary);
    }

    /// Number of sealed segments.
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    /// Step 1: lets the storage persist.
    fn collect(&mut self, turn: &mut Turn<'_>, record: GcRecord) {
        let low_water: BTreeMap<ServerId, u64> = record.low_water.iter().copied().collect();
        let is_complete = |(server, number): (ServerId, u64)| low_water.get(&server).is_some_and(|low| number <= *low);
        // The marks may be older than the segment: what it reserves must be in the record, too.
        let is_superfluous =
            |summary: &SegmentSummary| summary.largest().all(is_complete) && summary.is_reserved_by(&record);
        let complete = self.segments.iter().take_while(|(_, summary)| is_superfluous(summary));
        let Some(last) = complete.last().map(|(segment, _)| *segment).filter(|_| self.step == Step::Idle) else {
            return;
        };
        if turn.config.has(Flaw::StorageNotPersisted) {
            self.step = Step::Recording(last);
            turn.out.commands.push(Command::WriteGcRecord(record));
        } else {
            self.step = Step::Persisting(last, record);
            turn.out.commands.push(Command::PersistStorage);
        }
    }

    /// Step 3: writes the record of the GC log.
    fn persisted(&mut self, turn: &mut Turn<'_>) {
        let Step::Persisting(last, record) = std::mem::take(&mut self.step) else { return };
        self.step = Step::Recording(last);
        if turn.config.has(Flaw::GcRecordAfterRemoval) {
            self.recorded(turn);
        } else {
            turn.out.commands.push(Command::WriteGcRecord(record));
        }
    }

    /// Step 4: removes the segments.
    fn recorded(&mut self, turn: &mut Turn<'_>) {
        let Step::Recording(through) = std::mem::take(&mut self.step) else { return };
        self.segments.retain(|segment, _| *segment > through);
        turn.out.commands.push(Command::RemoveSegments { through });
    }
}
