//! LogManager: segments in the order of their creation, and blocks in them. The middle layer's
//! writing half; `reader` is the other one.
//!
//! 1. A segment is made (name, room and header durable) before its first block, usually ahead of
//!    its use.
//! 2. It is full: what was written is made durable, and the next segment takes its place.
//! 3. An opened log goes on in a new segment, whose header says where the one before ended: what
//!    was torn there, and what may lie whole behind it, is never read again. Segments into which
//!    nothing was written are removed before, so that a server that only starts and ends takes no
//!    room.
//! 4. What a process that ended has written and nothing says to have been durable is written once
//!    more when the log is opened: a sync that failed leaves it in the system's cache, and the next
//!    one says nothing of it.
//! 5. What was made durable is sealed: a block without records behind it says so. The seal itself
//!    becomes durable with whatever is made durable next. So damage of what was persisted last is
//!    not taken for a torn tail.

use std::sync::Arc;

use super::ahead::Ahead;
use super::collector::{Complete, SegmentInfo, Shared};
use super::format::{self, BLOCK_HEADER_BYTES, BlockPosition, HEADER_BYTES, Owner, SEAL_BYTES, SegmentHeader};
use super::medium::Medium;
use super::reader::{self, Replay};
use super::segment::{Segment, SegmentNumber};
use super::{LogError, Result};

/// The segments of one server's log.
pub(super) struct LogManager {
    medium: Arc<dyn Medium>,
    shared: Shared,
    current: Segment,
    next_sequence: u64,
    /// All blocks below this sequence number are durable.
    durable_below: u64,
    /// True if blocks with records have come since the last seal.
    is_unsealed: bool,
    seal: Vec<u8>,
    /// True if a write or a sync has failed: what is on the medium is not known, and nothing more
    /// is written.
    has_failed: bool,
}

impl LogManager {
    /// Opens the log of `owner`, giving every record in it to `replay`, and begins a new segment of
    /// `size_bytes`.
    ///
    /// # Errors
    /// As for [`reader::read`]; there is no room for the new segment.
    pub(super) fn open(
        medium: Arc<dyn Medium>,
        owner: Owner,
        size_bytes: u64,
        oldest: SegmentNumber,
        replay: &mut Replay<'_>,
    ) -> Result<Self> {
        let found = reader::read(&*medium, owner, oldest, replay)?;
        found.unproven.rewrite(&*medium)?;
        // The newest first: there is never a gap.
        for number in found.unused.iter().rev() {
            medium.remove(&number.file_name())?;
        }
        let number = found.complete.back().map_or(oldest, |last| last.number.next());
        let next_sequence = found.next_sequence;
        let header = SegmentHeader { owner, number: number.0, size_bytes, first_sequence: Some(next_sequence) };
        let current = Segment::create(&*medium, header)?;
        let shared = Shared { complete: Complete::new(found.complete), ahead: Ahead::behind(&header), size_bytes };
        let durable_below = next_sequence;
        Ok(Self {
            medium,
            shared,
            current,
            next_sequence,
            durable_below,
            is_unsealed: false,
            seal: Vec::new(),
            has_failed: false,
        })
    }

    /// The segment that the next block goes to, if it fits.
    pub(super) fn current(&self) -> SegmentNumber {
        self.current.number()
    }

    /// State that the garbage collection shares.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns true if a block with such a payload fits into the current segment, and the seal
    /// behind it.
    pub(super) fn fits(&self, payload_bytes: usize) -> bool {
        format::block_bytes(payload_bytes) as u64 + SEAL_BYTES <= self.current.left_bytes()
    }

    /// Returns true if the current segment has no block yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.current.used_bytes() == HEADER_BYTES as u64
    }

    /// Writes `buffer` as a block, with its first bytes left free for the header, and empties it
    /// for the next one.
    pub(super) fn write_block(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        let number = self.current.number().0;
        let (sequence, durable_below) = (self.next_sequence, self.durable_below);
        let position = BlockPosition { sequence, durable_below, first_sequence: self.current.first_sequence };
        format::finish_block(buffer, number, position);
        self.check()?;
        self.current.write(buffer).inspect_err(|_| self.has_failed = true)?;
        self.next_sequence += 1;
        buffer.truncate(BLOCK_HEADER_BYTES);
        self.is_unsealed = true;
        Ok(())
    }

    /// Makes every block durable, and writes a seal behind them that says so.
    pub(super) fn persist(&mut self) -> Result<()> {
        self.sync()?;
        if !self.is_unsealed {
            return Ok(());
        }
        let mut seal = std::mem::take(&mut self.seal);
        seal.clear();
        seal.resize(BLOCK_HEADER_BYTES, 0);
        let sealed = self.write_block(&mut seal);
        self.seal = seal;
        self.is_unsealed = false;
        sealed
    }

    /// Makes every block durable.
    fn sync(&mut self) -> Result<()> {
        self.check()?;
        self.current.persist().inspect_err(|_| self.has_failed = true)?;
        self.durable_below = self.next_sequence;
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let file = || self.current.number().file_name();
        if self.has_failed { Err(LogError::Failed { file: file() }) } else { Ok(()) }
    }

    /// Ends the current segment, durably, and begins the next.
    pub(super) fn roll(&mut self) -> Result<()> {
        // The next segment says that what is in this one is durable; a seal that is not must not be
        // missed.
        self.sync()?;
        self.is_unsealed = false;
        let number = self.current.number();
        let mut next = self.shared.ahead.take(&*self.medium, number)?;
        next.first_sequence = self.next_sequence;
        let last = std::mem::replace(&mut self.current, next);
        let used_bytes = last.used_bytes();
        self.shared.complete.push(SegmentInfo { number, size_bytes: last.header.size_bytes, used_bytes });
        Ok(())
    }
}
