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
use super::gc_log::GcLog;
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

/// The complete segments, oldest first.
#[derive(Clone)]
pub(super) struct Complete {
    segments: Arc<Mutex<VecDeque<SegmentInfo>>>,
}

impl Complete {
    pub(super) fn new(segments: VecDeque<SegmentInfo>) -> Self {
        Self { segments: Arc::new(Mutex::new(segments)) }
    }

    pub(super) fn push(&self, info: SegmentInfo) {
        self.lock().push_back(info);
    }

    pub(super) fn all(&self) -> Vec<SegmentInfo> {
        self.lock().iter().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<SegmentInfo>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
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
        let complete = self.complete.lock();
        let complete_bytes: u64 = complete.iter().map(|info| info.size_bytes).sum();
        LogSpace { segments: complete.len() as u64 + others, bytes: complete_bytes + others * self.size_bytes }
    }
}

/// The side of a log that forgets, and prepares.
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
        self.gc_log.write(self.gc_log.oldest(), state)
    }

    /// Removes the complete segments up to and with `through`, oldest first. Returns their number.
    ///
    /// The caller ensures that nothing in them is needed: what they committed is durable in the
    /// storage.
    ///
    /// # Errors
    /// The medium refuses.
    pub fn remove_through(&mut self, through: SegmentNumber) -> Result<usize> {
        let going: Vec<_> = self.shared.complete.all().into_iter().filter(|info| info.number <= through).collect();
        let Some(last) = going.last() else { return Ok(0) };
        let state = self.gc_log.payload().to_vec();
        self.gc_log.write(last.number.next(), &state)?;
        for info in &going {
            self.medium.remove(&info.number.file_name())?;
            self.shared.complete.lock().pop_front();
        }
        Ok(going.len())
    }
}
