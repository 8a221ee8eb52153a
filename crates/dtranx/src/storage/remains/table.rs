//! A table: blocks of data, one after another, and then what finds them (`footer`).
//!
//! A stretch of damaged blocks, or of bytes that the disk cannot read, concerns the keys between
//! the whole blocks before and behind it, and no others. What a file says about itself decides
//! whether it is this table at all: a file that was copied over another one is whole, block by
//! block.

use std::io;
use std::ops::Bound;
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use super::block::{self, HEADER_BYTES, Header, MAGIC};
use super::footer::{About, Footer};
use super::manifest::Listed;
use super::{Between, Entry, Remains};
use crate::damage::Damage;
use crate::files::{Files, Source};

/// Number of bytes that are read at once for the checksum of a file.
const WINDOW_BYTES: usize = 1 << 20;
/// Words for the loss of a file of which no one can say which keys it had.
const ANY: &str = "the newest version of any item may be lost";

/// Reads the blocks of data of table `number` that are whole. Without `listed` nothing says whether
/// all are there. Returns the highest number of an entry; `None`: it may be lost.
///
/// # Errors
/// Those of `take`.
pub(super) fn read(
    files: &Files<'_>,
    path: &Path,
    number: u64,
    listed: Option<Listed>,
    found: &mut Remains,
    take: &mut dyn FnMut(Entry<'_>) -> io::Result<()>,
) -> io::Result<Option<u64>> {
    let source = match files.open(path) {
        Ok(source) => source,
        Err(error) => {
            found.lose_all(Damage::of(path.display(), format!("{error}; {ANY}")));
            return Ok(None);
        }
    };
    let is_whole = listed.is_some_and(|listed| checksum(&source) == Some(listed.checksum));
    let footer = if is_whole { Footer::default() } else { Footer::read(&source) };
    if !is_whole && let Some(what) = other_content(&source, &footer, number, listed) {
        found.lose_all(Damage::of(path.display(), format!("{what}; none of its items is used, and {ANY}")));
        return Ok(None);
    }
    let base = listed.map_or(0, |listed| listed.base);
    let about = if is_whole { None } else { footer.about.as_ref() };
    let table = Table { walk: Walk::new(&source), path, about, last: None, lost: None };
    let before = found.damages.total();
    let (blocks, highest) = table.read(base, found, take)?;
    if is_whole {
        return Ok(Some(highest));
    }
    if found.damages.total() == before {
        if about.is_some_and(|about| about.blocks != blocks) {
            found.lose_all(Damage::of(path.display(), format!("not all of its blocks are there; {ANY}")));
        } else if listed.is_some() {
            let what = "it is not what was written, but every block of items is whole: nothing is lost";
            found.damages.push(Damage::of(path.display(), what));
        }
    }
    Ok(about.map(|about| about.numbers.1.saturating_add(base)))
}

/// Says what the file is, if it is not this table.
fn other_content(source: &Source, footer: &Footer, number: u64, listed: Option<Listed>) -> Option<String> {
    if let Some(about) = &footer.about
        && about.table != number
    {
        return Some(format!("it has the content of table {}", about.table));
    }
    // A table that is not as it was written has a damaged place, or is another one.
    let is_other = listed.is_some() && footer.is_whole && is_data_whole(source, footer.data_bytes);
    is_other.then(|| "each part of it is whole, but it is not the table that the manifest names".to_owned())
}

/// Returns true if the file has nothing but whole blocks up to this offset.
fn is_data_whole(source: &Source, data_bytes: Option<u64>) -> bool {
    let mut walk = Walk::new(source);
    let mut end = 0;
    while let Some(step) = walk.next() {
        match step {
            Step::Data { .. } => end = walk.at,
            Step::Bad { .. } => return false,
        }
    }
    data_bytes == Some(end)
}

/// Checksum of a whole file; `None`: not all of it can be read.
fn checksum(source: &Source) -> Option<u128> {
    let (mut hasher, mut window, mut at) = (Xxh3::new(), vec![0; WINDOW_BYTES], 0);
    while at < source.bytes() {
        let part = &mut window[..(source.bytes() - at).min(WINDOW_BYTES as u64) as usize];
        source.read(part, at).ok()?;
        hasher.update(part);
        at += part.len() as u64;
    }
    Some(hasher.digest128())
}

/// State of a table that is being read.
struct Table<'a> {
    walk: Walk<'a>,
    path: &'a Path,
    /// Facts that the table states about itself, if its blocks have to be compared with them.
    about: Option<&'a About>,
    /// Key of the last entry that was read.
    last: Option<Vec<u8>>,
    /// Offset at which the stretch of damage begins that is being read, in bytes, and what is
    /// there.
    lost: Option<(u64, &'static str)>,
}

impl Table<'_> {
    /// Reads the blocks of data. `base` is added to the numbers of the entries. Returns the number
    /// of blocks that were read, and the highest number of an entry.
    fn read(
        mut self,
        base: u64,
        found: &mut Remains,
        take: &mut dyn FnMut(Entry<'_>) -> io::Result<()>,
    ) -> io::Result<(u64, u64)> {
        let (mut blocks, mut highest) = (0, 0);
        while let Some(step) = self.walk.next() {
            let (at, what) = match step {
                Step::Data { at } if self.is_own() => {
                    self.end_stretch(found);
                    blocks += 1;
                    let last = &mut self.last;
                    let is_read = block::entries(&self.walk.block, base, &mut |entry| {
                        highest = highest.max(entry.number);
                        if last.as_deref() != Some(entry.key) {
                            *last = Some(entry.key.to_vec());
                        }
                        take(entry)
                    })?;
                    if is_read {
                        continue;
                    }
                    (at, "the entries of a block make no sense")
                }
                Step::Data { at } => (at, "the entries of a block are not those of this table"),
                Step::Bad { at, what } => (at, what),
            };
            self.lost.get_or_insert((at, what));
        }
        self.end(found);
        Ok((blocks, highest))
    }

    /// Returns true if the entries of the block that was read may be this table's: their keys and
    /// numbers are within its limits, and behind those of the block before.
    fn is_own(&self) -> bool {
        let Some(about) = self.about else { return true };
        let is_own = block::entries(&self.walk.block, 0, &mut |entry| {
            let is_behind = self.last.as_deref().is_none_or(|last| last <= entry.key);
            let is_key = about.first[..] <= *entry.key && *entry.key <= about.last[..];
            let is_number = (about.numbers.0..=about.numbers.1).contains(&entry.number);
            if is_behind && is_key && is_number { Ok(()) } else { Err(()) }
        });
        is_own.is_ok()
    }

    /// Ends a stretch of damage, if there is one, before the block that was read.
    fn end_stretch(&mut self, found: &mut Remains) {
        let Some((at, what)) = self.lost.take() else { return };
        let mut first = None;
        // The first entry is all that is wanted.
        let _ = block::entries(&self.walk.block, 0, &mut |entry| {
            first = Some(entry.key.to_vec());
            Err(())
        });
        self.lose(at, what, first, found);
    }

    /// Ends a stretch of damage, if there is one, at the table's end.
    fn end(mut self, found: &mut Remains) {
        let Some((at, what)) = self.lost.take() else { return };
        let last = self.about.map(|about| about.last.clone());
        self.lose(at, what, last, found);
    }

    /// Names damage at `at`, and the keys of which the newest entries may be lost by it: those
    /// behind the last key that was read, up to `end`. Behind the damage there may be an older
    /// entry of `end`.
    fn lose(&self, at: u64, what: &str, end: Option<Vec<u8>>, found: &mut Remains) {
        let keys = Between {
            start: match (&self.last, self.about) {
                (Some(last), _) => Bound::Excluded(last.clone()),
                (None, Some(about)) => Bound::Included(about.first.clone()),
                (None, None) => Bound::Unbounded,
            },
            end: end.map_or(Bound::Unbounded, Bound::Included),
        };
        let what = format!("{what}; the newest versions of {keys} may be lost");
        found.damages.push(Damage::at(self.path.display(), at, what));
        found.lose(keys);
    }
}

/// The next part of a table.
enum Step {
    /// A block of data, which begins at an offset and is in `block`.
    Data { at: u64 },
    /// A damaged place, which begins at an offset.
    Bad { at: u64, what: &'static str },
}

/// Goes through the blocks of data of a table.
struct Walk<'a> {
    source: &'a Source,
    /// Offset of what comes next, in bytes.
    at: u64,
    is_done: bool,
    /// Bytes of the block that was read last, without its header.
    block: Vec<u8>,
}

impl<'a> Walk<'a> {
    fn new(source: &'a Source) -> Self {
        Self { source, at: 0, is_done: false, block: Vec::new() }
    }

    /// The next block of data, or the next damage; `None` behind the blocks of data.
    fn next(&mut self) -> Option<Step> {
        if self.is_done {
            return None;
        }
        let (at, bytes) = (self.at, self.source.bytes());
        let Some(header) = self.header(at) else {
            let next = self.find(at + 1);
            self.is_done = next.is_none();
            self.at = next.unwrap_or(bytes);
            let what = if at >= bytes {
                "the file is cut off"
            } else if self.source.is_unreadable(at, HEADER_BYTES) {
                "the header of a block cannot be read"
            } else {
                "the header of a block is damaged"
            };
            return Some(Step::Bad { at, what });
        };
        if !header.is_data {
            self.is_done = true;
            return None;
        }
        let length = header.length as usize;
        self.at = at + (HEADER_BYTES + length) as u64;
        if self.at > bytes {
            self.is_done = true;
            return Some(Step::Bad { at, what: "the file is cut off" });
        }
        self.block.resize(length, 0);
        Some(match self.source.read(&mut self.block, at + HEADER_BYTES as u64) {
            Ok(()) if header.fits(&self.block) => Step::Data { at },
            Ok(()) => Step::Bad { at, what: "a block of items is damaged" },
            Err(_) => Step::Bad { at, what: "a block of items cannot be read" },
        })
    }

    fn header(&self, at: u64) -> Option<Header> {
        let mut bytes = [0; HEADER_BYTES];
        self.source.read(&mut bytes, at).ok()?;
        Header::decode(&bytes)
    }

    /// The next place from `from` on at which a block begins, and another one behind it: a value
    /// may hold bytes that look like a block.
    fn find(&self, from: u64) -> Option<u64> {
        // Bytes that cannot be read are zeros, in which no block begins.
        self.source.search(from, MAGIC.len() - 1, |window, start| {
            let places = window.windows(MAGIC.len()).enumerate();
            let mut places = places.filter(|(_, bytes)| bytes == MAGIC).map(|(at, _)| start + at as u64);
            places.find(|at| self.is_block(*at))
        })
    }

    /// Returns true if a block begins here. What follows it is another one, or cannot be read.
    fn is_block(&self, at: u64) -> bool {
        let next = self.header(at).map(|header| at + (HEADER_BYTES + header.length as usize) as u64);
        next.is_some_and(|next| {
            next >= self.source.bytes() || self.header(next).is_some() || self.source.is_unreadable(next, HEADER_BYTES)
        })
    }
}
