//! A segment of a log that may be damaged, read in pieces: no more than one block is in memory.

use std::path::{Path, PathBuf};

use crate::files::{Files, Source};
use crate::log::Result;
use crate::log::format::{
    self, ALIGN_BYTES, BLOCK_HEADER_BYTES, BadHeader, Block, COUNT_LIMIT, HEADER_BYTES, SegmentHeader,
};
use crate::log::segment::SegmentNumber;
use crate::log::tranx_log::RECORD_LIMIT_BYTES;

/// Limit of the length of a block's payload, in bytes: a record behind others that nearly fill a
/// block.
const PAYLOAD_LIMIT_BYTES: usize = RECORD_LIMIT_BYTES + (128 << 10);
/// Number of bytes that are compared with zeros at once.
const WINDOW_BYTES: usize = 1 << 20;

/// A segment that is read in pieces.
pub(super) struct Segment {
    pub(super) path: PathBuf,
    pub(super) number: SegmentNumber,
    pub(super) source: Source,
    /// `None`: it has no room for one, or it cannot be read.
    pub(super) header: Option<Result<SegmentHeader, BadHeader>>,
    /// Header and payload of the block that was read last.
    block: Vec<u8>,
}

impl Segment {
    pub(super) fn open(files: &Files<'_>, path: &Path, number: SegmentNumber) -> std::io::Result<Self> {
        let source = files.open(path)?;
        let mut head = [0; HEADER_BYTES];
        let header = source.read(&mut head, 0).is_ok().then(|| SegmentHeader::decode(&head));
        Ok(Self { path: path.to_owned(), number, source, header, block: Vec::new() })
    }

    /// Sequence of the first block that the segment's header names; `None`: the header does not
    /// name one, or is damaged.
    fn named_first(&self) -> Option<u64> {
        let said = self.header.and_then(Result::ok).and_then(|header| header.first_sequence);
        said.filter(|first| *first < COUNT_LIMIT)
    }

    /// Sequence of the segment's first block, as its header or any block names it.
    pub(super) fn first_sequence(&mut self) -> Option<u64> {
        if let Some(first) = self.named_first() {
            return Some(first);
        }
        let (at, _) = self.find_block(HEADER_BYTES as u64, |_| true)?;
        self.block_at(at).map(|(block, _)| block.header.first_sequence)
    }

    pub(super) fn has_blocks(&mut self) -> bool {
        self.find_block(HEADER_BYTES as u64, |_| true).is_some()
    }

    /// Returns true if nothing was ever written behind its header.
    pub(super) fn is_blank(&self) -> bool {
        let (mut window, zeros) = (vec![0; WINDOW_BYTES], vec![0; WINDOW_BYTES]);
        let mut at = HEADER_BYTES as u64;
        while at < self.source.bytes() {
            let filled = self.source.window(&mut window, at);
            if window[..filled] != zeros[..filled] {
                return false;
            }
            at += filled as u64;
        }
        !self.source.is_unreadable_from(0)
    }

    /// Returns what shows that block `sequence`, which is not at `at`, had been persisted, or that
    /// it may have been: bytes that cannot be read are no torn write.
    pub(super) fn proof_of(&mut self, at: u64, sequence: u64) -> Option<String> {
        let later = self.find_block(at, |block| block.header.durable_below > sequence);
        if let Some((later, _)) = later {
            return Some(format!("the block at offset {later} says that it had been persisted"));
        }
        let is_unreadable = self.source.is_unreadable_from(at) && !self.is_free(at);
        is_unreadable.then(|| "not all that follows can be read".to_owned())
    }

    /// Returns true if no block was begun at an offset: there is no room for one, or zeros.
    fn is_free(&self, at: u64) -> bool {
        let mut head = [0; BLOCK_HEADER_BYTES];
        at.saturating_add(head.len() as u64) > self.source.bytes()
            || self.source.read(&mut head, at).is_ok() && head == [0; BLOCK_HEADER_BYTES]
    }

    /// The whole block at an offset, if there is one, and the bytes that it takes. The payload is
    /// read only if the header is one that this segment may have.
    pub(super) fn block_at(&mut self, at: u64) -> Option<(Block<'_>, u64)> {
        let mut head = [0; BLOCK_HEADER_BYTES];
        self.source.read(&mut head, at).ok()?;
        let payload = self.payload(&head)?;
        let length = BLOCK_HEADER_BYTES + payload;
        if at.checked_add(length as u64)? > self.source.bytes() {
            return None;
        }
        self.block.resize(length, 0);
        self.source.read(&mut self.block, at).ok()?;
        let (block, _) = format::decode_block(&self.block, self.number.0)?;
        Some((block, format::block_bytes(payload) as u64))
    }

    /// Length of the payload behind a block's header, in bytes. `None`: no block of this segment
    /// has such a header. So bytes that are none, as in the middle of a damaged block, are seen to
    /// be none without reading the megabytes that they seem to announce.
    fn payload(&self, header: &[u8; BLOCK_HEADER_BYTES]) -> Option<usize> {
        let (payload, header) = format::decode_block_header(header)?;
        // Each block before it takes its place in the segment.
        let before = header.sequence - header.first_sequence;
        let is_named = self.named_first().is_none_or(|first| first == header.first_sequence);
        let is_possible = payload <= PAYLOAD_LIMIT_BYTES && before <= self.source.bytes() / ALIGN_BYTES as u64;
        (is_named && is_possible).then_some(payload)
    }

    /// Offset and size of the first whole block from `from` on that satisfies `wanted`.
    pub(super) fn find_block(&mut self, from: u64, wanted: impl Fn(&Block<'_>) -> bool) -> Option<(u64, u64)> {
        let mut at = from.next_multiple_of(ALIGN_BYTES as u64);
        loop {
            // Mostly it follows at once. In a whole block no other one begins.
            while let Some((is_wanted, taken)) = self.block_at(at).map(|(block, taken)| (wanted(&block), taken)) {
                if is_wanted {
                    return Some((at, taken));
                }
                at += taken;
            }
            at = self.next_header(at + ALIGN_BYTES as u64)?;
        }
    }

    /// Offset of the next bytes from `from` on that look like the header of a block.
    fn next_header(&self, from: u64) -> Option<u64> {
        // What cannot be read is zeros, in which no block begins.
        self.source.search(from, 0, |window, start| {
            let is_head = |head: &[u8]| head.first_chunk().is_some_and(|head| self.payload(head).is_some());
            window.chunks(ALIGN_BYTES).position(is_head).map(|at| start + (at * ALIGN_BYTES) as u64)
        })
    }
}
