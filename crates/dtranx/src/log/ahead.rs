//! The next segment, made before it is needed by the thread that collects garbage, so that a full
//! one costs the thread that appends no more than an exchange.
//!
//! A segment made ahead has its name, its room and a header that does not say which block is its
//! first; each of its blocks does. If the machine stops at any moment, the log's reader finds
//! 1. before its header is durable: a newest segment without one, whose creation was interrupted;
//! 2. before anything was written into it: a newest segment that is empty;
//! 3. later: a segment in use. What was in the one before had been made durable first.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::format::SegmentHeader;
use super::medium::Medium;
use super::segment::{Segment, SegmentNumber};
use super::{LogError, Result};

/// Time that the making of a segment may take, when the one before is full already. A medium that
/// takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The place where the next segment is put.
#[derive(Clone)]
pub(super) struct Ahead {
    shared: Arc<Shared>,
}

struct Shared {
    next: Mutex<Next>,
    made: Condvar,
}

enum Next {
    /// The segment is wanted, and not begun.
    Wanted(SegmentHeader),
    /// A thread makes the segment.
    Making,
    /// The segment waits to be used.
    Ready(Segment),
}

impl Ahead {
    /// The segment behind `current` will be wanted.
    pub(super) fn behind(current: &SegmentHeader) -> Self {
        Self { shared: Arc::new(Shared { next: Mutex::new(Next::Wanted(behind(current))), made: Condvar::new() }) }
    }

    /// Makes the next segment, unless it is there.
    ///
    /// # Errors
    /// The medium refuses or is full: the thread that needs the segment will try it again.
    pub(super) fn make(&self, medium: &dyn Medium) -> Result<()> {
        let mut next = self.lock();
        let Next::Wanted(header) = &*next else { return Ok(()) };
        let header = *header;
        *next = Next::Making;
        drop(next);
        let (next, outcome) = match Segment::create(medium, header) {
            Ok(segment) => (Next::Ready(segment), Ok(())),
            Err(error) => (Next::Wanted(header), Err(error)),
        };
        *self.lock() = next;
        self.shared.made.notify_all();
        outcome
    }

    /// The next segment, made now if it does not exist yet; the one behind it is wanted from now
    /// on.
    ///
    /// # Errors
    /// The medium refuses, is full, or takes too long.
    pub(super) fn take(&self, medium: &dyn Medium, current: SegmentNumber) -> Result<Segment> {
        let waited = self.shared.made.wait_timeout_while(self.lock(), PATIENCE, |next| matches!(next, Next::Making));
        let (mut next, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let segment = match std::mem::replace(&mut *next, Next::Making) {
            Next::Ready(segment) => segment,
            Next::Wanted(header) => Segment::create(medium, header).inspect_err(|_| *next = Next::Wanted(header))?,
            Next::Making => {
                let file = current.next().file_name();
                return Err(LogError::io("make", &file, std::io::ErrorKind::TimedOut.into()));
            }
        };
        *next = Next::Wanted(behind(&segment.header));
        Ok(segment)
    }

    /// Returns true if a segment is on the medium that was not taken.
    pub(super) fn is_made(&self) -> bool {
        matches!(&*self.lock(), Next::Ready(_))
    }

    fn lock(&self) -> MutexGuard<'_, Next> {
        // Nothing here panics half-way through a change.
        self.shared.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn behind(current: &SegmentHeader) -> SegmentHeader {
    SegmentHeader { number: SegmentNumber(current.number).next().0, first_sequence: None, ..*current }
}
