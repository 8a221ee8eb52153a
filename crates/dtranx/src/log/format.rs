//! The bytes of a segment: its header and its blocks. Pure. `docs/dtranx-log-format.md` is this
//! file in words.

use super::{LogError, Result};
use crate::core::StoreId;

/// Version of the format of everything that the log writes, the records included.
pub const FORMAT_VERSION: u16 = 4;

/// Alignment of blocks, in bytes: a block never shares a cache line with the one before.
pub(super) const ALIGN_BYTES: usize = 64;
pub(super) const HEADER_BYTES: usize = 64;
pub(super) const BLOCK_HEADER_BYTES: usize = 32;

/// Limit of the numbers of blocks, segments and generations. No log reaches it; counting on from
/// below it never overflows.
pub(super) const COUNT_LIMIT: u64 = 1 << 63;

/// Value in the place of the first sequence in the header of a segment that was made ahead.
const MADE_AHEAD: u64 = u64::MAX;

const MAGIC: [u8; 8] = *b"DTRX-WAL";

/// Server and store that a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) server: u16,
    pub(super) store: StoreId,
}

impl Owner {
    /// Checks that the file belongs to this owner.
    pub(super) fn check(self, file: &str, expected: Self) -> Result<()> {
        if self.server != expected.server {
            return Err(LogError::Foreign { file: file.to_owned(), found: self.server, expected: expected.server });
        }
        if self.store != expected.store {
            return Err(LogError::OtherStore { file: file.to_owned(), found: self.store, expected: expected.store });
        }
        Ok(())
    }
}

/// The first 64 bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) owner: Owner,
    pub(super) number: u64,
    pub(super) size_bytes: u64,
    /// The sequence of the segment's first block, unless the segment was made ahead: then its
    /// blocks say it. All blocks below were durable when the first was written.
    pub(super) first_sequence: Option<u64>,
}

/// Reason why 64 bytes are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadHeader {
    Torn,
    Version(u16),
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.owner.server.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.size_bytes.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first_sequence.unwrap_or(MADE_AHEAD).to_le_bytes());
        bytes[40..56].copy_from_slice(&self.owner.store.0);
        let checksum = crc32c::crc32c(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The checksum is judged before the version: a damaged header is not a newer one.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, BadHeader> {
        let mut unsummed = *bytes;
        unsummed[12..16].fill(0);
        if bytes[..8] != MAGIC || crc32c::crc32c(&unsummed) != u32_at(bytes, 12) {
            return Err(BadHeader::Torn);
        }
        match u16_at(bytes, 8) {
            FORMAT_VERSION => {}
            version => return Err(BadHeader::Version(version)),
        }
        Ok(Self {
            owner: Owner { server: u16_at(bytes, 10), store: store_at(bytes, 40) },
            number: u64_at(bytes, 16),
            size_bytes: u64_at(bytes, 24),
            first_sequence: Some(u64_at(bytes, 32)).filter(|first| *first != MADE_AHEAD),
        })
    }
}

/// Position of a block in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockPosition {
    pub(super) sequence: u64,
    /// All blocks with a lower sequence were durable when this one was written.
    pub(super) durable_below: u64,
    /// The sequence of the first block in the same segment.
    pub(super) first_sequence: u64,
}

/// A block that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block<'a> {
    pub(super) position: BlockPosition,
    /// Records, each after its length. A seal has none.
    pub(super) payload: &'a [u8],
}

/// The room of a seal: a block without records, written behind what was persisted, which says so.
pub(super) const SEAL_BYTES: u64 = ALIGN_BYTES as u64;

/// Bytes that a block with such a payload takes.
pub(super) fn block_bytes(payload_bytes: usize) -> usize {
    (BLOCK_HEADER_BYTES + payload_bytes).next_multiple_of(ALIGN_BYTES)
}

/// Completes a block in place: `buffer` begins with room for the header, then comes the payload.
pub(super) fn finish_block(buffer: &mut Vec<u8>, segment: u64, position: BlockPosition) {
    let length = (buffer.len() - BLOCK_HEADER_BYTES) as u32;
    buffer[..4].copy_from_slice(&length.to_le_bytes());
    buffer[8..16].copy_from_slice(&position.sequence.to_le_bytes());
    buffer[16..24].copy_from_slice(&position.durable_below.to_le_bytes());
    buffer[24..32].copy_from_slice(&position.first_sequence.to_le_bytes());
    let checksum = block_checksum(segment, buffer);
    buffer[4..8].copy_from_slice(&checksum.to_le_bytes());
    buffer.resize(buffer.len().next_multiple_of(ALIGN_BYTES), 0);
}

/// Decodes the header of a block: the length of the payload, in bytes, and the block's position.
/// `None`: no block has such a header. The checksum, which is over the payload, too, is not
/// compared.
pub(super) fn decode_block_header(header: &[u8; BLOCK_HEADER_BYTES]) -> Option<(usize, BlockPosition)> {
    let length = u32_at(header, 0) as usize;
    let position = BlockPosition {
        sequence: u64_at(header, 8),
        durable_below: u64_at(header, 16),
        first_sequence: u64_at(header, 24),
    };
    let is_none = position.sequence >= COUNT_LIMIT
        || position.durable_below.max(position.first_sequence) > position.sequence
        || length == 0 && !is_seal(position);
    (!is_none).then_some((length, position))
}

/// The block at the beginning of `bytes`, if a whole one is there, and how many bytes it takes.
pub(super) fn decode_block(bytes: &[u8], segment: u64) -> Option<(Block<'_>, usize)> {
    // Cheap refusals first: most places that are not blocks are zeros.
    let (length, position) = decode_block_header(bytes.first_chunk()?)?;
    let block = bytes.get(..BLOCK_HEADER_BYTES.checked_add(length)?)?;
    if block_checksum(segment, block) != u32_at(block, 4) {
        return None;
    }
    let taken = block_bytes(length).min(bytes.len());
    Some((Block { position, payload: &block[BLOCK_HEADER_BYTES..] }, taken))
}

/// A seal follows what it is about, so that it is never the first block of all; zeros are none.
fn is_seal(position: BlockPosition) -> bool {
    position.sequence > 0 && position.durable_below == position.sequence
}

/// Checksum of a block, over the segment's number and everything but the checksum itself: a block
/// of another segment never passes.
fn block_checksum(segment: u64, block: &[u8]) -> u32 {
    let seeded = crc32c::crc32c(&segment.to_le_bytes());
    let with_length = crc32c::crc32c_append(seeded, &block[..4]);
    crc32c::crc32c_append(with_length, &block[8..])
}

/// Appends a record to a block's payload.
pub(super) fn push_record(payload: &mut Vec<u8>, record: &[u8]) {
    payload.extend_from_slice(&(record.len() as u32).to_le_bytes());
    payload.extend_from_slice(record);
}

/// The room of a record in a block.
pub(super) fn record_bytes(record: usize) -> usize {
    4 + record
}

/// The records of a payload; `None` in the place of what is not one, and then nothing more.
pub(super) fn records(mut payload: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        if payload.is_empty() {
            return None;
        }
        let found =
            payload.split_at_checked(4).and_then(|(length, rest)| rest.split_at_checked(u32_at(length, 0) as usize));
        payload = found.map_or(&[], |(_, rest)| rest);
        Some(found.map(|(record, _)| record))
    })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn store_at(bytes: &[u8], at: usize) -> StoreId {
    let mut id = [0; 16];
    id.copy_from_slice(&bytes[at..at + 16]);
    StoreId(id)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
