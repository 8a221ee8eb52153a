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
use super::collector::{Complete, Extent, SegmentInfo, Shared};
use super::configured::configuration;
use super::entry::{Position, State};
use super::format::{self, BLOCK_HEADER_BYTES, BlockHeader, HEADER_BYTES, SEAL_BYTES, SegmentHeader};
use super::gc_log::Kept;
use super::log_reader::LogReader;
use super::medium::Medium;
use super::reader::{self, Reads};
use super::segment::{Segment, SegmentNumber};
use super::terms::Terms;
use super::{LogError, Result};

/// The segments of one server's log.
pub(super) struct LogManager {
    medium: Arc<dyn Medium>,
    shared: Shared,
    current: Segment,
    next_sequence: u64,
    /// All blocks below this sequence number are durable.
    durable_below: u64,
    /// The entries that are not void.
    terms: Terms,
    /// The newest state that was written.
    state: State,
    /// True if other blocks have come since the last seal.
    is_unsealed: bool,
    seal: Vec<u8>,
    /// True if a write or a sync has failed: what is on the medium is not known, and nothing more
    /// is written.
    has_failed: bool,
}

impl LogManager {
    /// Opens a log, giving every record in it that is not void to `reader`, and begins a new
    /// segment of `size_bytes`.
    ///
    /// # Errors
    /// As for [`reader::read`]; there is no room for the new segment.
    pub(super) fn open(
        medium: Arc<dyn Medium>,
        reads: Reads,
        size_bytes: u64,
        kept: &Kept,
        reader: &mut dyn LogReader,
    ) -> Result<(Self, u64)> {
        let found = reader::read(&*medium, reads, kept, reader)?;
        found.unproven.rewrite(&*medium)?;
        // The newest first: there is never a gap.
        for number in found.unused.iter().rev() {
            medium.remove(&number.file_name())?;
        }
        let number = found.complete.back().map_or(kept.oldest, |last| last.info.number.next());
        let next_sequence = found.next_sequence;
        let (owner, first_sequence) = (reads.owner, Some(next_sequence));
        let header = SegmentHeader { owner, number: number.0, size_bytes, first_sequence };
        let current = Segment::create(&*medium, header)?;
        let (terms, state) = (found.counted.terms, found.counted.state);
        let complete = Complete::new(found.complete, &terms.outline(), Kept { state, ..kept.clone() });
        let manager = Self {
            medium,
            shared: Shared { complete, ahead: Ahead::behind(&header), size_bytes },
            current,
            next_sequence,
            durable_below: next_sequence,
            terms,
            state,
            is_unsealed: false,
            seal: Vec::new(),
            has_failed: false,
        };
        Ok((manager, found.counted.void))
    }

    /// The segment that the next block goes to, if it fits.
    pub(super) fn current(&self) -> SegmentNumber {
        self.current.number()
    }

    pub(super) fn medium(&self) -> &dyn Medium {
        &*self.medium
    }

    /// Place of the last entry that was removed and is not void.
    pub(super) fn before(&self) -> Position {
        self.shared.complete.before()
    }

    /// All segments with their blocks, oldest first.
    pub(super) fn extents(&self) -> Vec<Extent> {
        self.shared.complete.extents(self.current(), self.current.used_bytes())
    }

    /// The entries that are not void.
    pub(super) fn terms(&self) -> &Terms {
        &self.terms
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

    /// The last entry.
    pub(super) fn last(&self) -> Position {
        self.terms.last()
    }

    /// The newest state that was written.
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Checks that an entry may be written next.
    ///
    /// # Errors
    /// [`LogError::Cut`], [`LogError::OutOfOrder`].
    pub(super) fn check_entry(&self, entry: Position) -> Result<()> {
        Ok(self.terms.check(entry).map(drop)?)
    }

    /// Writes an entry; `buffer` is as for [`LogManager::write_block`]. It makes all entries of its
    /// index and above void.
    pub(super) fn write_entry(&mut self, entry: Position, buffer: &mut Vec<u8>) -> Result<()> {
        let before = self.terms.check(entry)?;
        let configuration = configuration(&buffer[BLOCK_HEADER_BYTES..]).map(<[u8]>::to_vec);
        self.write_block(entry, buffer)?;
        self.terms.push(entry)?;
        self.terms.holds(entry, configuration.as_deref());
        self.shared.complete.written(before, entry, configuration.as_deref());
        Ok(())
    }

    /// Writes a state. What counts of it is [`State::followed_by`].
    pub(super) fn write_state(&mut self, state: State) -> Result<()> {
        let mut block = vec![0; BLOCK_HEADER_BYTES];
        format::push_state(&mut block, state);
        self.write_block(Position { term: state.term, index: 0 }, &mut block)?;
        self.state = self.state.followed_by(state);
        self.terms.commit(state.committed);
        Ok(())
    }

    /// Writes `buffer` as a block, with its first bytes left free for the header, and empties it
    /// for the next one.
    fn write_block(&mut self, entry: Position, buffer: &mut Vec<u8>) -> Result<()> {
        let number = self.current.number().0;
        let (sequence, durable_below) = (self.next_sequence, self.durable_below);
        let header = BlockHeader { sequence, durable_below, first_sequence: self.current.first_sequence, entry };
        format::finish_block(buffer, number, header);
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
        let sealed = self.write_block(Position::default(), &mut seal);
        self.seal = seal;
        self.is_unsealed = false;
        sealed
    }

    /// Makes every block durable.
    fn sync(&mut self) -> Result<()> {
        self.check()?;
        self.current.persist().inspect_err(|_| self.has_failed = true)?;
        self.durable_below = self.next_sequence;
        self.shared.complete.durable(self.state);
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
