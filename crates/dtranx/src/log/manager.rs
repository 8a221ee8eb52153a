//! LogManager: segments in the order of their creation, and blocks in them. The middle layer.
//!
//! What a crash can do to it, and what `open` finds:
//! 1. A segment is made (name, room and header durable) before its first block: one without a header was being made and
//!    is removed.
//! 2. Blocks that were not persisted are lost, torn, or whole after a torn one. The log ends at the first that is not
//!    whole. Each block says below which sequence everything was durable when it was written; if a later one says so of
//!    a block that is not there, that is damage, and an error.
//! 3. An opened log goes on in a new segment, which says where the one before ended: what was torn there, and what may
//!    lie whole behind it, is never read again.

use std::collections::VecDeque;
use std::sync::Arc;

use super::collector::{Complete, SegmentInfo};
use super::format::{self, BLOCK_HEADER_BYTES, HEADER_BYTES, SegmentHeader};
use super::medium::Medium;
use super::segment::{Read, Segment, SegmentNumber};
use super::{LogError, Result};

/// Called with every record found, and the segment that it is in.
pub(super) type Replay<'a> = dyn FnMut(SegmentNumber, &[u8]) -> Result<(), String> + 'a;

/// The segments of one server's log.
pub(super) struct LogManager {
    medium: Arc<dyn Medium>,
    size_bytes: u64,
    complete: Complete,
    current: Segment,
    next_sequence: u64,
    /// All blocks below are durable.
    durable_below: u64,
}

impl LogManager {
    /// Opens the log of `server`, giving every record in it to `replay`, and begins a new segment of `size_bytes`.
    /// Segments below `oldest` are leftovers of an interrupted removal; `oldest` itself must be there if it ever was.
    ///
    /// # Errors
    /// A file is damaged, missing, foreign or of another version; the medium refuses; `replay` cannot read a record.
    pub(super) fn open(
        medium: Arc<dyn Medium>,
        server: u16,
        size_bytes: u64,
        oldest: SegmentNumber,
        replay: &mut Replay<'_>,
    ) -> Result<Self> {
        let numbers = list(&*medium, oldest)?;
        let segments = read_all(&*medium, server, &numbers)?;
        let mut complete = VecDeque::new();
        let mut next_sequence = 0;
        for (at, segment) in segments.iter().enumerate() {
            let number = SegmentNumber(segment.header.number);
            if at > 0 && segment.header.first_sequence < next_sequence {
                return Err(LogError::corrupt(&number.file_name(), 0, "it begins before the segment before it"));
            }
            let until = segments.get(at + 1).map(|next| next.header.first_sequence);
            let end = segment.replay(until, &mut |record| replay(number, record))?;
            next_sequence = end.sequence;
            let size_bytes = segment.header.size_bytes;
            complete.push_back(SegmentInfo { number, size_bytes, used_bytes: end.used_bytes });
        }
        let number = complete.back().map_or(oldest, |last| last.number.next());
        let header = SegmentHeader { server, number: number.0, size_bytes, first_sequence: next_sequence };
        let current = Segment::create(&*medium, header)?;
        let complete = Complete::new(complete);
        Ok(Self { medium, size_bytes, complete, current, next_sequence, durable_below: next_sequence })
    }

    /// The segment that the next block goes to, if it fits.
    pub(super) fn current(&self) -> SegmentNumber {
        self.current.number()
    }

    /// The segments that are complete; whoever collects garbage shares the list.
    pub(super) fn complete(&self) -> &Complete {
        &self.complete
    }

    /// The room that the log takes on its medium.
    pub(super) fn size_bytes(&self) -> u64 {
        self.complete.size_bytes() + self.size_bytes
    }

    /// Whether a block with such a payload fits into the current segment.
    pub(super) fn fits(&self, payload_bytes: usize) -> bool {
        format::block_bytes(payload_bytes) as u64 <= self.current.left_bytes()
    }

    /// Whether the current segment has no block yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.current.used_bytes() == HEADER_BYTES as u64
    }

    /// Writes `buffer` as a block, with its first bytes left free for the header, and empties it for the next one.
    pub(super) fn write_block(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        format::finish_block(buffer, self.current.number().0, self.next_sequence, self.durable_below);
        self.current.write(buffer)?;
        self.next_sequence += 1;
        buffer.truncate(BLOCK_HEADER_BYTES);
        Ok(())
    }

    /// Makes every block durable.
    pub(super) fn persist(&mut self) -> Result<()> {
        self.current.persist()?;
        self.durable_below = self.next_sequence;
        Ok(())
    }

    /// Ends the current segment, durably, and begins the next.
    pub(super) fn roll(&mut self) -> Result<()> {
        self.persist()?;
        let number = self.current.number();
        let header = SegmentHeader {
            number: number.next().0,
            size_bytes: self.size_bytes,
            first_sequence: self.next_sequence,
            ..self.current.header
        };
        let next = Segment::create(&*self.medium, header)?;
        let last = std::mem::replace(&mut self.current, next);
        let used_bytes = last.used_bytes();
        self.complete.push(SegmentInfo { number, size_bytes: last.header.size_bytes, used_bytes });
        Ok(())
    }
}

/// The numbers of the segments that count, without a gap. Leftovers below `oldest` are removed.
fn list(medium: &dyn Medium, oldest: SegmentNumber) -> Result<Vec<SegmentNumber>> {
    let mut numbers: Vec<_> = medium.list()?.iter().filter_map(|name| SegmentNumber::from_file_name(name)).collect();
    numbers.sort_unstable();
    // Segments are removed when later ones hold everything that is needed.
    if let Some(last) = numbers.last().filter(|last| **last < oldest) {
        return Err(LogError::Missing { missing: oldest.file_name(), found: last.file_name() });
    }
    while let Some(number) = numbers.first().copied().filter(|number| *number < oldest) {
        medium.remove(&number.file_name())?;
        numbers.remove(0);
    }
    let mut expected = oldest;
    for number in &numbers {
        if *number != expected {
            return Err(LogError::Missing { missing: expected.file_name(), found: number.file_name() });
        }
        expected = expected.next();
    }
    Ok(numbers)
}

/// Reads the segments; a last one whose creation was interrupted is removed.
fn read_all(medium: &dyn Medium, server: u16, numbers: &[SegmentNumber]) -> Result<Vec<Read>> {
    let mut segments = Vec::new();
    for number in numbers {
        match Read::open(medium, *number, server)? {
            Some(segment) => segments.push(segment),
            None if Some(number) == numbers.last() => medium.remove(&number.file_name())?,
            None => return Err(LogError::corrupt(&number.file_name(), 0, "the segment has no header")),
        }
    }
    Ok(segments)
}
