//! Garbage collection: which segments of the log are no longer needed (section 3.3.2 of the paper).
//!
//! A segment may go once each coordinator's low-water mark has reached the largest number that the segment refers to.
//! Only a prefix of the segments goes: a `Ready` must not outlive its outcome.
//! 1. Find the prefix, by the marks as they are now; everything in it is applied.
//! 2. Let the storage persist what it applied.
//! 3. Write these marks, and the reserved numbers, into the GC log.
//! 4. Remove the segments.
//!
//! A crash between any two of these leaves more log than necessary, and nothing else.

use std::collections::BTreeMap;

use super::{
    config::NodeConfig,
    event::Command,
    flaw::Flaw,
    id::{SegmentId, ServerId},
    record::{GcRecord, SegmentSummary},
};

/// The sealed segments, and how far the collection is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Gc {
    segments: BTreeMap<SegmentId, SegmentSummary>,
    step: Step,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Step {
    #[default]
    Idle,
    /// The storage persists.
    Persisting(SegmentId, GcRecord),
    /// The GC record is written.
    Recording(SegmentId),
}

impl Gc {
    pub(crate) fn sealed(&mut self, segment: SegmentId, summary: SegmentSummary) {
        self.segments.insert(segment, summary);
    }

    /// How many sealed segments there are.
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    /// Step 1.
    pub(crate) fn collect(&mut self, config: &NodeConfig, record: GcRecord, commands: &mut Vec<Command>) {
        let low_water: BTreeMap<ServerId, u64> = record.low_water.iter().copied().collect();
        let is_complete = |(server, number): (ServerId, u64)| low_water.get(&server).is_some_and(|low| number <= *low);
        let complete = self.segments.iter().take_while(|(_, summary)| summary.largest().all(is_complete));
        let Some(last) = complete.last().map(|(segment, _)| *segment).filter(|_| self.step == Step::Idle) else {
            return;
        };
        if config.has(Flaw::StorageNotPersisted) {
            self.step = Step::Recording(last);
            commands.push(Command::WriteGcRecord(record));
        } else {
            self.step = Step::Persisting(last, record);
            commands.push(Command::PersistStorage);
        }
    }

    /// Step 3.
    pub(crate) fn persisted(&mut self, config: &NodeConfig, commands: &mut Vec<Command>) {
        let Step::Persisting(last, record) = std::mem::take(&mut self.step) else { return };
        self.step = Step::Recording(last);
        if config.has(Flaw::GcRecordAfterRemoval) {
            self.recorded(commands);
        } else {
            commands.push(Command::WriteGcRecord(record));
        }
    }

    /// Step 4.
    pub(crate) fn recorded(&mut self, commands: &mut Vec<Command>) {
        let Step::Recording(through) = std::mem::take(&mut self.step) else { return };
        self.segments.retain(|segment, _| *segment > through);
        commands.push(Command::RemoveSegments { through });
    }
}
