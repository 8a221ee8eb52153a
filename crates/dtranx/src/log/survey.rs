//! Reads what is whole of a log that may be damaged, block by block, and names what is not. Nothing
//! is written, and no more than one block is in memory.
//!
//! A record is *in order* as long as nothing is missing before it. From the first gap on, records
//! are *behind*: what was lost may have been about the same keys. A block at the end that nothing
//! proves to have been persisted is no damage, as for `reader`; what lies behind it is dropped.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::format::{
    self, ALIGN_BYTES, BLOCK_HEADER_BYTES, BadHeader, Block, COUNT_LIMIT, FORMAT_VERSION, HEADER_BYTES, Owner,
    SegmentHeader,
};
use super::segment::SegmentNumber;
use super::tranx_log::RECORD_LIMIT_BYTES;
use super::{Result, gc_log};
use crate::core::StoreId;
use crate::damage::{Damage, Damages};
use crate::files::{Files, Source};

/// Limit of the length of a block's payload, in bytes: a record behind others that nearly fill a
/// block.
const PAYLOAD_LIMIT_BYTES: usize = RECORD_LIMIT_BYTES + (128 << 10);
/// Number of bytes that are compared with zeros at once.
const WINDOW_BYTES: usize = 1 << 20;

/// One thing that a survey of the log reports to its caller.
#[derive(Clone, Copy, Debug)]
pub enum Sight<'a> {
    /// The state in the GC log; comes first, if it can be read.
    State(&'a [u8]),
    /// A record before which nothing is missing.
    InOrder(&'a [u8]),
    /// A record behind a gap: it is whole, but records before it are missing.
    Behind(&'a [u8]),
}

/// Facts that a survey has found out about a log, beside its records.
#[derive(Clone, Debug, Default)]
pub struct Surveyed {
    /// Everything that is not as it was written.
    pub damages: Damages,
    /// Number of segment files that were found.
    pub segments: usize,
    /// Number of records that are in order.
    pub in_order: u64,
    /// Number of whole records that are behind a gap.
    pub behind: u64,
    /// True if records may be missing before the first one that was found.
    pub begins_late: bool,
    /// The first place at which something is missing.
    pub gap: Option<Damage>,
    /// The store that the log belongs to, according to the first file that names one.
    pub store: Option<StoreId>,
}

/// Receives what a survey sees. An error is the reason why a record makes no sense: the record
/// counts as damaged then.
pub type See<'a> = dyn FnMut(Sight<'_>) -> Result<(), String> + 'a;

/// Reads the log in a folder. `store` is the one that it must belong to, if that is known.
pub fn survey(folder: &Path, server: u16, store: Option<StoreId>, see: &mut See<'_>) -> Surveyed {
    survey_files(&Files::new(folder), server, store, see)
}

fn survey_files(files: &Files<'_>, server: u16, store: Option<StoreId>, see: &mut See<'_>) -> Surveyed {
    let found = Surveyed { store, ..Surveyed::default() };
    let mut surveyor = Surveyor { files, server, see, found, next: None };
    surveyor.read();
    surveyor.found
}

/// State of a survey that is under way.
struct Surveyor<'a, 'b> {
    files: &'a Files<'a>,
    server: u16,
    see: &'a mut See<'b>,
    found: Surveyed,
    /// Sequence of the block that comes next, once one is known.
    next: Option<u64>,
}

impl Surveyor<'_, '_> {
    fn read(&mut self) {
        let mut numbers = match self.list() {
            Ok(numbers) => numbers,
            Err(error) => {
                self.found.begins_late = true;
                return self
                    .gap(Damage::of(self.files.folder().display(), format!("the log cannot be listed: {error}")));
            }
        };
        let oldest = self.gc_log();
        if let Some(oldest) = oldest {
            // Leftovers of an interrupted removal.
            numbers.retain(|number| *number >= oldest);
        }
        self.found.segments = numbers.len();
        let Some(first) = numbers.first().copied() else {
            self.found.begins_late = true;
            return self.gap(Damage::of(
                self.files.folder().display(),
                "there is no segment: all records of the log are lost",
            ));
        };
        // Nothing was ever collected if the first of all is there.
        let expected = oldest.unwrap_or(SegmentNumber(1));
        if first != expected {
            self.found.begins_late = true;
            let missing = self.path(expected).display().to_string();
            let what =
                format!("it is missing, and so may be others before {}: their records are lost", first.file_name());
            self.found.damages.push(Damage::of(missing, what));
        }
        for (at, number) in numbers.iter().copied().enumerate() {
            let after = numbers.get(at + 1).copied();
            self.segment(number, after);
            if let Some(after) = after.filter(|after| *after != number.next()) {
                let what = format!("it is missing, and so are all up to {}: their records are lost", after.file_name());
                self.gap(Damage::of(self.path(number.next()).display(), what));
                self.next = None;
            }
        }
    }

    fn list(&self) -> std::io::Result<Vec<SegmentNumber>> {
        let mut numbers = Vec::new();
        for name in self.files.list(self.files.folder())? {
            numbers.extend(name.to_str().and_then(SegmentNumber::from_file_name));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn path(&self, number: SegmentNumber) -> PathBuf {
        self.files.folder().join(number.file_name())
    }

    /// Reads the GC log. Returns the oldest segment that is needed, if it is known.
    fn gc_log(&mut self) -> Option<SegmentNumber> {
        let path = self.files.folder().join(gc_log::NAME);
        let without = "which segments were removed is not known";
        let damaged = |what: String| Damage::of(path.display(), format!("{what}; {without}"));
        let bytes = match self.files.open(&path) {
            Ok(source) if source.bytes() == gc_log::FILE_BYTES => {
                // One of its halves is enough.
                let mut bytes = vec![0; gc_log::FILE_BYTES as usize];
                source.window(&mut bytes, 0);
                bytes
            }
            Ok(source) => {
                let what = format!("it has {} bytes, not {}", source.bytes(), gc_log::FILE_BYTES);
                self.found.damages.push(damaged(what));
                return None;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.found.damages.push(damaged("it is missing".to_owned()));
                return None;
            }
            Err(error) => {
                self.found.damages.push(damaged(format!("it cannot be read: {error}")));
                return None;
            }
        };
        match gc_log::newest(&bytes) {
            Ok(Some(state)) if self.owns(state.owner) => {
                if (self.see)(Sight::State(&state.payload)).is_ok() {
                    return Some(state.oldest);
                }
                self.found.damages.push(damaged("its state makes no sense".to_owned()));
            }
            Ok(Some(state)) => self.found.damages.push(damaged(foreign(state.owner))),
            Ok(None) => self.found.damages.push(damaged("both of its halves are damaged".to_owned())),
            Err(error) => self.found.damages.push(damaged(error.to_string())),
        }
        None
    }

    /// Returns true if a file of this owner belongs to the log. The first one says which store that
    /// is, if it is not known.
    fn owns(&mut self, owner: Owner) -> bool {
        owner.server == self.server && owner.store == *self.found.store.get_or_insert(owner.store)
    }

    fn gap(&mut self, damage: Damage) {
        self.found.damages.push(damage.clone());
        self.found.gap.get_or_insert(damage);
    }

    fn segment(&mut self, number: SegmentNumber, after: Option<SegmentNumber>) {
        let path = self.path(number);
        let mut segment = match Segment::open(self.files, &path, number) {
            Ok(segment) => segment,
            Err(error) => return self.gap(Damage::of(path.display(), format!("it cannot be read: {error}"))),
        };
        if !self.header(&mut segment, after.is_none()) {
            self.next = None;
            return;
        }
        let header = segment.header.and_then(Result::ok);
        let bytes = segment.source.bytes();
        let cut = header.filter(|header| header.size_bytes != bytes).map(|header| {
            let what = format!("it has {bytes} bytes, and was made with {}", header.size_bytes);
            Damage::at(path.display(), bytes.min(header.size_bytes), what)
        });
        let first = segment.first_sequence();
        let until = after.and_then(|after| Segment::open(self.files, &self.path(after), after).ok()?.first_sequence());
        let mut at = HEADER_BYTES as u64;
        let mut sequence = match (first, self.next) {
            (Some(first), Some(next)) if first < next => {
                let what = format!("it begins with block {first}, before the end of the segment before it");
                self.gap(Damage::at(path.display(), 0, what));
                first
            }
            (Some(first), Some(next)) if first > next => {
                let what = format!("it begins with block {first}, and the segment before it ends before {next}");
                self.gap(Damage::at(path.display(), 0, what));
                first
            }
            (Some(first), _) => first,
            (None, next) => next.unwrap_or(0),
        };
        while until.is_none_or(|until| sequence < until) {
            let Some((block, taken)) = segment.block_at(at).filter(|(block, _)| block.position.sequence == sequence)
            else {
                let is_proven = self.not_there(&mut segment, at, sequence, until, after.is_some());
                // Blocks may have been in what is cut off.
                if let Some(cut) = cut.filter(|_| !is_proven) {
                    self.gap(cut);
                }
                return;
            };
            if !records(&block, self.see, &mut self.found) {
                let what = "a record cannot be read: it and all later records of the log are not used";
                self.gap(Damage::at(path.display(), at, what));
            }
            at += taken;
            sequence += 1;
        }
        self.next = Some(sequence);
        if let Some(cut) = cut {
            self.found.damages.push(cut);
        }
    }

    /// Checks a segment's header. Returns false if nothing in the segment is to be read.
    fn header(&mut self, segment: &mut Segment, is_last: bool) -> bool {
        let shown = segment.path.display().to_string();
        let header = segment.header;
        let header = match header {
            Some(Ok(header)) => header,
            Some(Err(BadHeader::Version(found))) => {
                let what = format!("it has format version {found}; this version reads {FORMAT_VERSION}");
                self.gap(Damage::at(&shown, 0, what));
                return false;
            }
            // Its blocks say whose they are no less: their checksums have the segment's number.
            Some(Err(BadHeader::Torn)) | None if segment.has_blocks() => {
                self.found.damages.push(Damage::at(&shown, 0, "its header is damaged; its blocks are read"));
                return true;
            }
            // Its making was interrupted.
            _ if is_last && segment.is_blank() => return false,
            _ => {
                self.gap(Damage::at(
                    &shown,
                    0,
                    "its header is damaged, and no block in it is whole: its records are lost",
                ));
                return false;
            }
        };
        if !self.owns(header.owner) {
            self.gap(Damage::at(&shown, 0, foreign(header.owner)));
            return false;
        }
        if header.number != segment.number.0 {
            self.gap(Damage::at(&shown, 0, format!("its header is that of segment {}", header.number)));
            return false;
        }
        true
    }

    /// Handles that block `sequence` should be at `at`, and is not. Returns true if something shows
    /// that it had been persisted, or may have been: then its records are lost.
    fn not_there(
        &mut self,
        segment: &mut Segment,
        at: u64,
        sequence: u64,
        until: Option<u64>,
        is_followed: bool,
    ) -> bool {
        let shown = segment.path.display().to_string();
        // A segment behind this one whose first block is not known has none, or is damaged itself.
        let proof = match until {
            Some(until) => Some((format!("the next segment begins with block {until}"), Some(until))),
            None => segment.proof_of(at, sequence).map(|proof| (proof, None)),
        };
        let Some((proof, until)) = proof else {
            self.next = if is_followed { None } else { Some(sequence) };
            return false;
        };
        let before = self.found.behind;
        let mut from = at;
        let mut through = sequence;
        while let Some((later, taken)) = segment.find_block(from, |block| block.position.sequence >= sequence) {
            if let Some((block, _)) = segment.block_at(later) {
                if until.is_some_and(|until| block.position.sequence >= until) {
                    break;
                }
                through = through.max(block.position.sequence + 1);
                // From here on nothing is in order.
                self.found.gap.get_or_insert_with(|| Damage::at(&shown, at, ""));
                records(&block, self.see, &mut self.found);
            }
            from = later + taken;
        }
        let behind = self.found.behind - before;
        let what = format!(
            "block {sequence} is not there, but {proof}; its records are lost, and the {behind} later ones of this \
             segment are not used"
        );
        let damage = Damage::at(shown, at, what);
        self.found.damages.push(damage.clone());
        if self.found.gap.as_ref().is_none_or(|gap| gap.what.is_empty()) {
            self.found.gap = Some(damage);
        }
        self.next = Some(until.unwrap_or(through));
        true
    }
}

/// Hands on the records of a block. Returns false if one of them cannot be read.
fn records(block: &Block<'_>, see: &mut See<'_>, found: &mut Surveyed) -> bool {
    for record in format::records(block.payload) {
        let is_behind = found.gap.is_some();
        let Some(record) = record else { return is_behind };
        let sight = if is_behind { Sight::Behind(record) } else { Sight::InOrder(record) };
        match see(sight) {
            Ok(()) if is_behind => found.behind += 1,
            Ok(()) => found.in_order += 1,
            Err(_) if is_behind => {}
            Err(_) => return false,
        }
    }
    true
}

fn foreign(owner: Owner) -> String {
    format!("it belongs to server {}, store {}", owner.server, owner.store)
}

/// A segment that is read in pieces.
struct Segment {
    path: PathBuf,
    number: SegmentNumber,
    source: Source,
    /// `None`: it has no room for one, or it cannot be read.
    header: Option<Result<SegmentHeader, BadHeader>>,
    /// Header and payload of the block that was read last.
    block: Vec<u8>,
}

impl Segment {
    fn open(files: &Files<'_>, path: &Path, number: SegmentNumber) -> std::io::Result<Self> {
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
    fn first_sequence(&mut self) -> Option<u64> {
        if let Some(first) = self.named_first() {
            return Some(first);
        }
        let (at, _) = self.find_block(HEADER_BYTES as u64, |_| true)?;
        self.block_at(at).map(|(block, _)| block.position.first_sequence)
    }

    fn has_blocks(&mut self) -> bool {
        self.find_block(HEADER_BYTES as u64, |_| true).is_some()
    }

    /// Returns true if nothing was ever written behind its header.
    fn is_blank(&self) -> bool {
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
    fn proof_of(&mut self, at: u64, sequence: u64) -> Option<String> {
        let later = self.find_block(at, |block| block.position.durable_below > sequence);
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
    fn block_at(&mut self, at: u64) -> Option<(Block<'_>, u64)> {
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
        let (payload, position) = format::decode_block_header(header)?;
        // Each block before it takes its place in the segment.
        let before = position.sequence - position.first_sequence;
        let is_named = self.named_first().is_none_or(|first| first == position.first_sequence);
        let is_possible = payload <= PAYLOAD_LIMIT_BYTES && before <= self.source.bytes() / ALIGN_BYTES as u64;
        (is_named && is_possible).then_some(payload)
    }

    /// Offset and size of the first whole block from `from` on that satisfies `wanted`.
    fn find_block(&mut self, from: u64, wanted: impl Fn(&Block<'_>) -> bool) -> Option<(u64, u64)> {
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

#[cfg(test)]
mod tests;
