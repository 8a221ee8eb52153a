//! The bytes of a segment: its header and its blocks. Pure. `docs/dtranx-log-format.md` is this
//! file in words.

use super::entry::{Position, State};
use super::{LogError, Result};
use crate::core::StoreId;

/// Version of the format of everything that the log writes, the records included.
pub const FORMAT_VERSION: u16 = 8;

/// The version before, which is read, too: version 8 has one more kind of record. A log that is
/// opened has the later version in its GC log from then on.
const VERSION_BEFORE: u16 = 7;

/// Returns true if what has this version is read.
pub(super) const fn is_read(version: u16) -> bool {
    matches!(version, VERSION_BEFORE | FORMAT_VERSION)
}

/// Alignment of blocks, in bytes: a block never shares a cache line with the one before.
pub(super) const ALIGN_BYTES: usize = 64;
pub(super) const HEADER_BYTES: usize = 64;
pub(super) const BLOCK_HEADER_BYTES: usize = 48;

/// Limit of the numbers of blocks, segments, generations, entries and terms. No log reaches it;
/// counting on from below it never overflows.
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
            version if is_read(version) => {}
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

/// Header of a block: its place in the log, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub(super) sequence: u64,
    /// All blocks with a lower sequence were durable when this one was written.
    pub(super) durable_below: u64,
    /// The sequence of the first block in the same segment.
    pub(super) first_sequence: u64,
    /// Index and term of an entry; the term of a state, with index 0; zeros in a seal.
    pub(super) entry: Position,
}

/// A block that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block<'a> {
    pub(super) header: BlockHeader,
    pub(super) content: Content<'a>,
}

/// Content of a block, by what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// Everything before it is durable.
    Seal,
    /// State of a member of a group.
    State(State),
    /// Records, each after its length; an entry may have none.
    Entry(Position, &'a [u8]),
}

/// The room of a seal: a block without records, written behind what was persisted, which says so.
pub(super) const SEAL_BYTES: u64 = ALIGN_BYTES as u64;

/// Bytes that a block with such a payload takes.
pub(super) fn block_bytes(payload_bytes: usize) -> usize {
    (BLOCK_HEADER_BYTES + payload_bytes).next_multiple_of(ALIGN_BYTES)
}

/// Completes a block in place: `buffer` begins with room for the header, then comes the payload.
pub(super) fn finish_block(buffer: &mut Vec<u8>, segment: u64, header: BlockHeader) {
    let length = (buffer.len() - BLOCK_HEADER_BYTES) as u32;
    buffer[..4].copy_from_slice(&length.to_le_bytes());
    buffer[8..16].copy_from_slice(&header.sequence.to_le_bytes());
    buffer[16..24].copy_from_slice(&header.durable_below.to_le_bytes());
    buffer[24..32].copy_from_slice(&header.first_sequence.to_le_bytes());
    buffer[32..40].copy_from_slice(&header.entry.index.to_le_bytes());
    buffer[40..48].copy_from_slice(&header.entry.term.to_le_bytes());
    let checksum = block_checksum(segment, buffer);
    buffer[4..8].copy_from_slice(&checksum.to_le_bytes());
    buffer.resize(buffer.len().next_multiple_of(ALIGN_BYTES), 0);
}

/// Decodes the header of a block: the length of the payload, in bytes, and the rest. `None`: no
/// block has such a header. The checksum, which is over the payload, too, is not compared.
pub(super) fn decode_block_header(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Option<(usize, BlockHeader)> {
    let length = u32_at(bytes, 0) as usize;
    let header = BlockHeader {
        sequence: u64_at(bytes, 8),
        durable_below: u64_at(bytes, 16),
        first_sequence: u64_at(bytes, 24),
        entry: Position { index: u64_at(bytes, 32), term: u64_at(bytes, 40) },
    };
    let is_entry = header.entry.index > 0;
    let is_none = header.sequence.max(header.entry.index).max(header.entry.term) >= COUNT_LIMIT
        || header.durable_below.max(header.first_sequence) > header.sequence
        || !(is_entry || is_state(length) || is_seal(length, header));
    (!is_none).then_some((length, header))
}

/// The block at the beginning of `bytes`, if a whole one is there, and how many bytes it takes.
pub(super) fn decode_block(bytes: &[u8], segment: u64) -> Option<(Block<'_>, usize)> {
    // Cheap refusals first: most places that are not blocks are zeros.
    let (length, header) = decode_block_header(bytes.first_chunk()?)?;
    let block = bytes.get(..BLOCK_HEADER_BYTES.checked_add(length)?)?;
    if block_checksum(segment, block) != u32_at(block, 4) {
        return None;
    }
    let taken = block_bytes(length).min(bytes.len());
    let payload = &block[BLOCK_HEADER_BYTES..];
    let content = match header.entry.index {
        0 if length == 0 => Content::Seal,
        0 => Content::State(decode_state(header.entry.term, payload)?),
        _ => Content::Entry(header.entry, payload),
    };
    Some((Block { header, content }, taken))
}

/// Appends what the header of a state does not have: the committed index, and the vote, if there is
/// one.
pub(super) fn push_state(payload: &mut Vec<u8>, state: State) {
    payload.extend_from_slice(&state.committed.to_le_bytes());
    payload.extend(state.vote.iter().flat_map(|vote| vote.to_le_bytes()));
}

/// Bytes of the payload of the longest state.
pub(super) const STATE_BYTES: usize = 16;

/// The state in a payload; `None` if its committed index is none.
fn decode_state(term: u64, payload: &[u8]) -> Option<State> {
    let vote = (payload.len() == STATE_BYTES).then(|| u64_at(payload, 8));
    Some(State { term, vote, committed: u64_at(payload, 0) }).filter(|state| state.committed < COUNT_LIMIT)
}

/// Returns true if a block without an index may be a state, by the length of its payload.
fn is_state(length: usize) -> bool {
    matches!(length, 8 | STATE_BYTES)
}

/// A seal follows what it is about, so that it is never the first block of all; zeros are none.
fn is_seal(length: usize, header: BlockHeader) -> bool {
    length == 0 && header.sequence > 0 && header.durable_below == header.sequence && header.entry.term == 0
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
