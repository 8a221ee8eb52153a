//! One segment: a file of fixed size, named by when it was made among the others; writing it and
//! reading it whole.

use std::collections::VecDeque;

use super::format::{
    ALIGN_BYTES, BLOCK_HEADER_BYTES, BadHeader, Block, COUNT_LIMIT, Content, FORMAT_VERSION, HEADER_BYTES, Owner,
    SegmentHeader,
};
use super::medium::{Medium, MediumFile};
use super::{LogError, Result, format};

/// Size of the largest segment, in bytes.
pub(super) const SEGMENT_MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// A segment's place in the order of creation. The names of files sort in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentNumber(pub u64);

impl SegmentNumber {
    /// Number of the next segment.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    pub(super) fn file_name(self) -> String {
        format!("segment-{:020}.wal", self.0)
    }

    /// `None` for files that are no segments.
    pub(crate) fn from_file_name(name: &str) -> Option<Self> {
        let digits = name.strip_prefix("segment-")?.strip_suffix(".wal")?;
        let number = Self(digits.parse().ok()?);
        (number.file_name() == name).then_some(number)
    }
}

/// The segment that is being written.
pub(super) struct Segment {
    pub(super) header: SegmentHeader,
    /// The sequence of its first block: the thread that begins to use a segment made ahead sets it.
    pub(super) first_sequence: u64,
    file: Box<dyn MediumFile>,
    /// Offset at which the next block goes.
    end: u64,
}

impl Segment {
    /// Makes a segment; it is durable, header and name, when this returns.
    pub(super) fn create(medium: &dyn Medium, header: SegmentHeader) -> Result<Self> {
        let mut file = medium.create(&SegmentNumber(header.number).file_name(), header.size_bytes)?;
        file.write(0, &header.encode())?;
        file.persist()?;
        let first_sequence = header.first_sequence.unwrap_or_default();
        Ok(Self { header, first_sequence, file, end: HEADER_BYTES as u64 })
    }

    pub(super) fn number(&self) -> SegmentNumber {
        SegmentNumber(self.header.number)
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.end
    }

    pub(super) fn left_bytes(&self) -> u64 {
        self.header.size_bytes - self.end
    }

    /// Writes a finished block; the caller has seen that there is room.
    pub(super) fn write(&mut self, block: &[u8]) -> Result<()> {
        self.file.write(self.end, block)?;
        self.end += block.len() as u64;
        Ok(())
    }

    pub(super) fn persist(&mut self) -> Result<()> {
        self.file.persist()
    }
}

/// A segment that was read whole.
pub(super) struct Read {
    name: String,
    bytes: Vec<u8>,
    pub(super) header: SegmentHeader,
}

/// End of the blocks of a segment.
pub(super) struct End {
    /// The sequence that comes next.
    pub(super) sequence: u64,
    /// Bytes that hold blocks and the header.
    pub(super) used_bytes: u64,
    /// Offset of the first block that no other proves to have been durable; `used_bytes` if there
    /// is none.
    pub(super) proven_bytes: u64,
}

/// Blocks that were found, and may not be on the medium: after a sync that failed, the system shows
/// what it could not write, and takes it for written.
#[derive(Default)]
pub(super) struct Unproven {
    name: String,
    offset: u64,
    bytes: Vec<u8>,
}

impl Unproven {
    /// Writes the blocks once more where they are, so that the next sync covers them.
    pub(super) fn rewrite(&self, medium: &dyn Medium) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let mut file = medium.open(&self.name)?;
        file.write(self.offset, &self.bytes)?;
        file.persist()
    }
}

impl Read {
    /// Reads a segment and makes sure that all of it is durable: a killed process may have left it
    /// in a cache.
    ///
    /// `Ok(None)` is a segment whose creation was interrupted: no header and no block.
    pub(super) fn open(medium: &dyn Medium, number: SegmentNumber, owner: Owner) -> Result<Option<Self>> {
        let name = number.file_name();
        let mut file = medium.open(&name)?;
        file.persist()?;
        if file.size_bytes() > SEGMENT_MAX_BYTES {
            // A sparse file may claim any size, and all of it would be read.
            let what = format!("it has {} bytes; a segment has at most {SEGMENT_MAX_BYTES}", file.size_bytes());
            return Err(LogError::corrupt(&name, 0, what));
        }
        let mut bytes = vec![0; file.size_bytes() as usize];
        file.read(0, &mut bytes)?;
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = match SegmentHeader::decode(head) {
            Ok(header) => header,
            Err(BadHeader::Version(found)) => {
                return Err(LogError::Version { file: name, found, supported: FORMAT_VERSION });
            }
            Err(BadHeader::Torn) if find_block(&bytes, HEADER_BYTES, number.0, |_| true).is_none() => return Ok(None),
            Err(BadHeader::Torn) => {
                return Err(LogError::corrupt(&name, 0, "the segment's header is damaged, but it has blocks"));
            }
        };
        header.owner.check(&name, owner)?;
        if header.number != number.0 || header.size_bytes != bytes.len() as u64 {
            let what = format!(
                "the header is that of segment {} with {} bytes; the file has {} bytes",
                header.number,
                header.size_bytes,
                bytes.len()
            );
            return Err(LogError::corrupt(&name, 0, what));
        }
        if let Some(first) = header.first_sequence.filter(|first| *first >= COUNT_LIMIT) {
            return Err(LogError::corrupt(&name, 0, format!("its first block would be number {first}")));
        }
        Ok(Some(Self { name, bytes, header }))
    }

    /// The sequence of its first block, as the header or any block says it: all blocks below were
    /// durable then.
    pub(super) fn first_sequence(&self) -> Option<u64> {
        let in_blocks = || {
            let at = find_block(&self.bytes, HEADER_BYTES, self.header.number, |_| true)?;
            self.block_at(at).map(|(block, _)| block.header.first_sequence)
        };
        self.header.first_sequence.or_else(in_blocks)
    }

    /// Returns true if nothing was ever written into the segment.
    pub(super) fn is_blank(&self) -> bool {
        self.bytes[HEADER_BYTES..].iter().all(|byte| *byte == 0)
    }

    /// Gives every block from `first` on to `see`, with its offset, up to the block `until` (the
    /// first of the next segment, if there is one).
    ///
    /// Without a next segment the log ends at the first place that is no block, unless something
    /// shows that the block which should be there had been durable.
    pub(super) fn replay(
        &self,
        first: u64,
        until: Option<u64>,
        see: &mut dyn FnMut(u64, Content<'_>) -> Result<()>,
    ) -> Result<End> {
        let mut at = HEADER_BYTES;
        let mut sequence = first;
        let mut unproven: VecDeque<(u64, usize)> = VecDeque::new();
        while until.is_none_or(|until| sequence < until) {
            let Some((block, taken)) = self.block_at(at).filter(|(block, _)| block.header.sequence == sequence) else {
                self.check_torn(at, sequence, until)?;
                break;
            };
            see(at as u64, block.content)?;
            let durable_below = block.header.durable_below;
            unproven.push_back((sequence, at));
            while unproven.front().is_some_and(|(sequence, _)| *sequence < durable_below) {
                unproven.pop_front();
            }
            at += taken;
            sequence += 1;
        }
        let proven = unproven.front().filter(|_| until.is_none()).map_or(at, |(_, at)| *at);
        Ok(End { sequence, used_bytes: at as u64, proven_bytes: proven as u64 })
    }

    /// The blocks that no other block proves to have been durable.
    pub(super) fn unproven(&self, end: &End) -> Unproven {
        let bytes = self.bytes[end.proven_bytes as usize..end.used_bytes as usize].to_vec();
        Unproven { name: self.name.clone(), offset: end.proven_bytes, bytes }
    }

    fn block_at(&self, at: usize) -> Option<(Block<'_>, usize)> {
        format::decode_block(self.bytes.get(at..)?, self.header.number)
    }

    /// The block `sequence` should be at `at` and is not. It was never durable, or this is damage.
    fn check_torn(&self, at: usize, sequence: u64, until: Option<u64>) -> Result<()> {
        let evidence = match until {
            Some(_) => Some("the next segment".to_owned()),
            None => find_block(&self.bytes, at, self.header.number, |block| block.header.durable_below > sequence)
                .map(|later| format!("the block at offset {later}")),
        };
        match evidence {
            None => Ok(()),
            Some(evidence) => {
                let what = format!("block {sequence} is not there, but {evidence} says that it had been persisted");
                Err(LogError::corrupt(&self.name, at as u64, what))
            }
        }
    }
}

/// The first whole block from `from` on that satisfies `wanted`.
fn find_block(bytes: &[u8], from: usize, segment: u64, wanted: impl Fn(&Block<'_>) -> bool) -> Option<usize> {
    (from..bytes.len().saturating_sub(BLOCK_HEADER_BYTES))
        .step_by(ALIGN_BYTES)
        .find(|at| format::decode_block(&bytes[*at..], segment).is_some_and(|(block, _)| wanted(&block)))
}
