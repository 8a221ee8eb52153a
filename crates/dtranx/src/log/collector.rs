//! The garbage collection's side of a log (section 3.3.2): it writes the GC log and removes
//! complete segments. It makes the next segment, too, because that may wait for the medium.
//!
//! With the thread that appends it shares the list of complete segments and the place where the
//! next one is put: appending waits for it only if the next segment is needed while it is being
//! made.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Result;
use super::ahead::Ahead;
use super::configured::Configurations;
use super::entry::{Outline, Position, State};
use super::gc_log::{GcLog, Kept};
use super::medium::Medium;
use super::segment::SegmentNumber;

/// A segment that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Number of the segment in the log: later segments have larger ones.
    pub number: SegmentNumber,
    /// Size of the segment on the medium, in bytes.
    pub size_bytes: u64,
    /// Bytes of it that were written.
    pub used_bytes: u64,
}

/// The room that a log takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSpace {
    /// Number of segments: complete ones, the one in use, and one made ahead.
    pub segments: u64,
    /// Size of all segments together, in bytes.
    pub bytes: u64,
}

/// A segment that is complete, and what it begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    pub(super) info: SegmentInfo,
    /// Place before the entry with the lowest index in it; `None`: no entry in it follows one.
    pub(super) lowest: Option<Position>,
}

/// Part of a segment that has blocks.
pub(super) struct Extent {
    pub(super) number: SegmentNumber,
    pub(super) used_bytes: u64,
    /// Place before the entry with the lowest index in it, as in [`Closed`].
    pub(super) lowest: Option<Position>,
}

/// The complete segments, and what the GC log has to keep when some of them go.
#[derive(Clone)]
pub(super) struct Complete {
    known: Arc<Mutex<Known>>,
}

struct Known {
    /// Oldest first.
    closed: VecDeque<Closed>,
    /// Place before the entry with the lowest index in the segment in use.
    lowest: Option<Position>,
    /// The last entry.
    last: Position,
    /// The newest state that is durable.
    state: State,
    /// Place of the last entry that was removed and is not void.
    before: Position,
    /// The configurations that are not void, from the one in force at `before` on.
    configurations: Configurations,
}

impl Known {
    /// The last of the entries in the segments up to `through` that is not void: no segment behind
    /// them has an entry of its index or below.
    fn last_in(&self, through: SegmentNumber) -> Position {
        let later = self.closed.iter().filter(|closed| closed.info.number > through).map(|closed| closed.lowest);
        later.fold(self.lowest, Position::lower).unwrap_or(self.last)
    }
}

impl Complete {
    pub(super) fn new(closed: VecDeque<Closed>, outline: &Outline, kept: Kept) -> Self {
        let (Kept { before, state, configured, .. }, last) = (kept, outline.last);
        let mut configurations = Configurations::before(configured);
        for configured in outline.configurations.iter().filter(|configured| configured.at.index > before.index) {
            configurations.written(configured.at, Some(&configured.bytes));
        }
        Self { known: Arc::new(Mutex::new(Known { closed, lowest: None, last, state, before, configurations })) }
    }

    /// The segment in use is complete.
    pub(super) fn push(&self, info: SegmentInfo) {
        let mut known = self.lock();
        let lowest = known.lowest.take();
        known.closed.push_back(Closed { info, lowest });
    }

    /// An entry is written into the segment in use.
    pub(super) fn written(&self, before: Position, entry: Position, configuration: Option<&[u8]>) {
        let mut known = self.lock();
        known.lowest = Position::lower(known.lowest, Some(before));
        known.last = entry;
        known.configurations.written(entry, configuration);
    }

    /// Place of the last entry that was removed and is not void. Its segment may be there still.
    pub(super) fn before(&self) -> Position {
        self.lock().before
    }

    /// A state is durable.
    pub(super) fn durable(&self, state: State) {
        self.lock().state = state;
    }

    /// The complete segments and then the one in use, of which the caller knows number and length.
    pub(super) fn extents(&self, current: SegmentNumber, used_bytes: u64) -> Vec<Extent> {
        let known = self.lock();
        let of = |closed: &Closed| {
            let SegmentInfo { number, used_bytes, .. } = closed.info;
            Extent { number, used_bytes, lowest: closed.lowest }
        };
        let complete = known.closed.iter().map(of);
        complete.chain([Extent { number: current, used_bytes, lowest: known.lowest }]).collect()
    }

    pub(super) fn all(&self) -> Vec<SegmentInfo> {
        self.lock().closed.iter().map(|closed| closed.info).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State that the appending side and the collecting side share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) complete: Complete,
    pub(super) ahead: Ahead,
    /// The size of the segment in use, and of those to come.
    pub(super) size_bytes: u64,
}

impl Shared {
    pub(super) fn space(&self) -> LogSpace {
        let others = 1 + u64::from(self.ahead.is_made());
        let complete = self.complete.all();
        let complete_bytes: u64 = complete.iter().map(|info| info.size_bytes).sum();
        LogSpace { segments: complete.len() as u64 + others, bytes: complete_bytes + others * self.size_bytes }
    }
}

/// Part of a log that removes segments, and makes the next one before it is needed.
pub struct Collector {
    pub(super) medium: Arc<dyn Medium>,
    pub(super) gc_log: GcLog,
    pub(super) shared: Shared,
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").field("complete", &self.shared.complete.all()).finish_non_exhaustive()
    }
}

impl Collector {
    /// Checks that the log is still where it was opened.
    ///
    /// # Errors
    /// [`super::LogError::Gone`].
    pub fn check(&self) -> Result<()> {
        self.medium.check()
    }

    /// The room that the segments take.
    pub fn space(&self) -> LogSpace {
        self.shared.space()
    }

    /// Makes the next segment, so that the appending thread finds it when the current one is full;
    /// does nothing if it is there.
    ///
    /// # Errors
    /// [`super::LogError::Full`], which is no failure yet: the thread that needs the segment will
    /// try again, and there may be room then. Or the medium refuses.
    pub fn make_ahead(&self) -> Result<()> {
        self.shared.ahead.make(&*self.medium)
    }

    /// Replaces the state in the GC log; durable when this returns.
    ///
    /// # Errors
    /// `state` is larger than [`super::GC_PAYLOAD_LIMIT_BYTES`] (nothing was done then), or the
    /// medium refuses.
    pub fn write(&mut self, state: &[u8]) -> Result<()> {
        let newest = self.shared.complete.lock().state;
        self.gc_log.write(Kept { state: newest, ..self.gc_log.kept().clone() }, state)
    }

    /// Removes the complete segments up to and with `through`, oldest first. Returns their number.
    ///
    /// The caller ensures that nothing in them is needed: what they committed is durable in the
    /// storage, and their other entries are void, durably.
    ///
    /// # Errors
    /// The medium refuses.
    pub fn remove_through(&mut self, through: SegmentNumber) -> Result<usize> {
        let going: Vec<_> = self.shared.complete.all().into_iter().filter(|info| info.number <= through).collect();
        let Some(last) = going.last() else { return Ok(0) };
        let state = self.gc_log.payload().to_vec();
        let kept = {
            let mut known = self.shared.complete.lock();
            // Before any segment goes: a reader of one of them sees that it is going.
            known.before = known.last_in(last.number);
            let (oldest, before, state) = (last.number.next(), known.before, known.state);
            Kept { oldest, before, state, configured: known.configurations.removed(before.index) }
        };
        self.gc_log.write(kept, &state)?;
        for info in &going {
            self.medium.remove(&info.number.file_name())?;
            self.shared.complete.lock().closed.pop_front();
        }
        Ok(going.len())
    }
}
