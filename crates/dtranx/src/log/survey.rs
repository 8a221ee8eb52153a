//! Reads what is whole of a log that may be damaged, block by block, and names what is not. Nothing
//! is written, and no more is in memory than one block, and the entries of a group's log that are
//! not known to be committed.
//!
//! A record is *in order* as long as nothing is missing before it, and its entry is known to be
//! committed. From the first gap on, records are *behind*: what was lost may have been about the
//! same keys. An entry that nothing calls committed is like a gap: what is true before it may not
//! be the newest, and it may have been replaced. A block at the end that nothing proves to have
//! been persisted is no damage, as for `reader`; what lies behind it is dropped.

mod segment;
mod sight;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::configured::configuration;
use super::counted::{Counted, Held};
use super::entry::{Position, State};
use super::format::{self, BadHeader, Content, FORMAT_VERSION, HEADER_BYTES, Owner};
use super::gc_log::Kept;
use super::segment::SegmentNumber;
use super::{Result, gc_log};
use crate::core::StoreId;
use crate::damage::Damage;
use crate::files::Files;
use segment::Segment;
pub use sight::{See, Sight, Surveyed};

/// Reads the log in a folder. `store` is the one that it must belong to, if that is known.
pub fn survey(folder: &Path, server: u16, store: Option<StoreId>, see: &mut See<'_>) -> Surveyed {
    survey_files(&Files::new(folder), server, store, see)
}

fn survey_files(files: &Files<'_>, server: u16, store: Option<StoreId>, see: &mut See<'_>) -> Surveyed {
    let found = Surveyed { store, ..Surveyed::default() };
    let mut surveyor = Surveyor { files, server, see, found, counted: Counted::new(Position::default()), next: None };
    surveyor.read();
    surveyor.found.void = surveyor.counted.void;
    surveyor.found
}

/// State of a survey that is under way.
struct Surveyor<'a, 'b> {
    files: &'a Files<'a>,
    server: u16,
    see: &'a mut See<'b>,
    found: Surveyed,
    /// The entries before the first gap.
    counted: Counted,
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
        let kept = self.gc_log();
        let oldest = kept.as_ref().map(|kept| kept.oldest);
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
        self.counted = match &kept {
            _ if self.found.begins_late => Counted::late(),
            kept => Counted::new(kept.as_ref().map_or(Position::default(), |kept| kept.before)),
        };
        for (at, number) in numbers.iter().copied().enumerate() {
            let after = numbers.get(at + 1).copied();
            self.segment(number, after);
            if let Some(after) = after.filter(|after| *after != number.next()) {
                let what = format!("it is missing, and so are all up to {}: their records are lost", after.file_name());
                self.gap(Damage::of(self.path(number.next()).display(), what));
                self.next = None;
            }
        }
        self.end(kept.map_or(State::default(), |kept| kept.state));
    }

    /// Decides about the entries that may still become void, at the end of the log. `kept` is the
    /// state in the GC log: it does not say before which entries it was written.
    fn end(&mut self, kept: State) {
        self.found.state = kept.followed_by(self.found.state);
        if self.found.gap.is_some() {
            return;
        }
        self.counted.terms.commit(kept.committed);
        self.hand_on();
        match self.counted.check_end() {
            Ok(()) => self.set_aside(),
            Err(what) => self.gap(Damage::of(self.files.folder().display(), what)),
        }
    }

    /// Takes a whole block. Before the first gap, it is the next one.
    fn block(&mut self, number: SegmentNumber, at: u64, content: Content<'_>) {
        match content {
            Content::Seal => {}
            Content::State(state) => {
                self.found.state = self.found.state.followed_by(state);
                if self.found.gap.is_none() {
                    self.counted.state(state);
                    self.hand_on();
                }
            }
            Content::Entry(_, payload) if self.found.gap.is_some() => {
                records(payload, self.see, &mut self.found);
            }
            Content::Entry(position, payload) => match self.counted.entry(position) {
                Ok(counts) if counts.is_committed => self.entry(number, at, payload),
                Ok(_) => {
                    let payload = payload.to_vec();
                    if !self.counted.hold(Held { position, segment: number, at, payload }) {
                        self.set_aside();
                    }
                }
                Err(refused) => {
                    self.gap(Damage::at(self.path(number).display(), at, refused.to_string()));
                    records(payload, self.see, &mut self.found);
                }
            },
        }
    }

    /// Hands on the records of an entry that is committed.
    fn entry(&mut self, number: SegmentNumber, at: u64, payload: &[u8]) {
        if !records(payload, self.see, &mut self.found) {
            let what = "a record cannot be read: it and all later records of the log are not used";
            self.gap(Damage::at(self.path(number).display(), at, what));
        }
    }

    /// Hands on what is known by now to be committed.
    fn hand_on(&mut self) {
        while let Some(held) = self.counted.next_committed() {
            self.entry(held.segment, held.at, &held.payload);
        }
    }

    /// Begins a gap with the first entry that is not known to be committed, if there is one.
    fn set_aside(&mut self) {
        let rest = self.counted.rest();
        let Some(Held { position, segment, at, .. }) = rest.front() else { return };
        let what = format!("{position} is not known to be committed: it and all later ones are not used");
        let damage = Damage::at(self.path(*segment).display(), *at, what);
        self.found.damages.push(damage.clone());
        self.found.gap.get_or_insert(damage);
        for held in &rest {
            records(&held.payload, self.see, &mut self.found);
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

    /// Reads the GC log. Returns what it knows of the segments, if it can be read.
    fn gc_log(&mut self) -> Option<Kept> {
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
                    return Some(state.kept);
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
        self.set_aside();
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
            let Some((block, taken)) = segment.block_at(at).filter(|(block, _)| block.header.sequence == sequence)
            else {
                let is_proven = self.not_there(&mut segment, at, sequence, until, after.is_some());
                // Blocks may have been in what is cut off.
                if let Some(cut) = cut.filter(|_| !is_proven) {
                    self.gap(cut);
                }
                return;
            };
            self.block(number, at, block.content);
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
        self.set_aside();
        let number = segment.number;
        let before = self.found.behind;
        let mut from = at;
        let mut through = sequence;
        while let Some((later, taken)) = segment.find_block(from, |block| block.header.sequence >= sequence) {
            if let Some((block, _)) = segment.block_at(later) {
                if until.is_some_and(|until| block.header.sequence >= until) {
                    break;
                }
                through = through.max(block.header.sequence + 1);
                // From here on nothing is in order.
                self.found.gap.get_or_insert_with(|| Damage::at(&shown, at, ""));
                self.block(number, later, block.content);
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

/// Hands on the records of an entry. Returns false if one of them cannot be read.
fn records(payload: &[u8], see: &mut See<'_>, found: &mut Surveyed) -> bool {
    if configuration(payload).is_some() {
        return true;
    }
    for record in format::records(payload) {
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

#[cfg(test)]
mod tests;
