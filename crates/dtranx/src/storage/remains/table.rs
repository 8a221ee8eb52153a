//! A table: blocks of data, one after another, and then what finds them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::block::{self, HEADER_BYTES, Header, MAGIC};
use super::manifest::Listed;
use super::{Between, Entry, Remains, checksum};
use crate::damage::Damage;

/// Bytes that are looked through at once for the next block.
const WINDOW_BYTES: usize = 1 << 20;

/// Reads the blocks of data that are whole. Without `listed` nothing says whether all are there.
///
/// # Errors
/// Those of `take`.
pub(super) fn read(
    path: &Path,
    listed: Option<Listed>,
    found: &mut Remains,
    take: &mut dyn FnMut(Entry<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let is_whole = match checksum(path) {
        Ok(checksum) => listed.is_some_and(|listed| listed.checksum == checksum),
        Err(error) => {
            let what = format!("{error}; the newest version of any item may be lost");
            found.damages.push(Damage::of(path.display(), what));
            found.lose(Between::all());
            return Ok(());
        }
    };
    let file = File::open(path)?;
    let mut walk = Walk { bytes: file.metadata()?.len(), file, at: 0, is_done: false, last: None, block: Vec::new() };
    let before = found.damages.list().len();
    let base = listed.map_or(0, |listed| listed.base);
    while let Some(step) = walk.next() {
        match step {
            Step::Data => {
                let from = walk.at - walk.block.len() as u64 - HEADER_BYTES as u64;
                let last = &mut walk.last;
                let is_read = block::entries(&walk.block, base, &mut |entry| {
                    *last = Some(entry.key.to_vec());
                    take(entry)
                })?;
                if !is_read {
                    walk.lose(path, from, "its entries make no sense", found);
                }
            }
            Step::Bad { at, what } => walk.lose(path, at, what, found),
        }
    }
    if !is_whole && listed.is_some() && found.damages.list().len() == before {
        let what = "it is not what was written, but every block of items is whole: nothing is lost";
        found.damages.push(Damage::of(path.display(), what));
    }
    Ok(())
}

enum Step {
    /// A whole block of data is in `block`.
    Data,
    Bad {
        at: u64,
        what: &'static str,
    },
}

struct Walk {
    file: File,
    bytes: u64,
    at: u64,
    is_done: bool,
    /// The last key that was read.
    last: Option<Vec<u8>>,
    block: Vec<u8>,
}

impl Walk {
    /// The next block of data, or the next damage; `None` behind the blocks of data.
    fn next(&mut self) -> Option<Step> {
        if self.is_done {
            return None;
        }
        let at = self.at;
        let Some(header) = self.header(at) else {
            let next = self.find(at + 1);
            self.is_done = next.is_none();
            self.at = next.unwrap_or(self.bytes);
            let is_cut = at >= self.bytes;
            let what = if is_cut { "the file is cut off" } else { "the header of a block is damaged" };
            return Some(Step::Bad { at, what });
        };
        if !header.is_data {
            self.is_done = true;
            return None;
        }
        let length = header.length as usize;
        self.at = at + (HEADER_BYTES + length) as u64;
        if self.at > self.bytes {
            self.is_done = true;
            return Some(Step::Bad { at, what: "the file is cut off" });
        }
        self.block.resize(length, 0);
        let is_read = self.file.read_exact_at(&mut self.block, at + HEADER_BYTES as u64).is_ok();
        Some(if is_read && header.fits(&self.block) {
            Step::Data
        } else {
            Step::Bad { at, what: "a block of items is damaged" }
        })
    }

    fn header(&self, at: u64) -> Option<Header> {
        let mut bytes = [0; HEADER_BYTES];
        self.file.read_exact_at(&mut bytes, at).ok()?;
        Header::decode(&bytes)
    }

    /// The next place from `from` on at which a block begins, and another one behind it: a value
    /// may hold bytes that look like a block.
    fn find(&self, from: u64) -> Option<u64> {
        let mut window = vec![0; WINDOW_BYTES];
        let mut start = from;
        while start < self.bytes {
            let wanted = (self.bytes - start).min(WINDOW_BYTES as u64) as usize;
            if self.file.read_exact_at(&mut window[..wanted], start).is_ok() {
                let places = window[..wanted].windows(MAGIC.len()).enumerate();
                let mut places = places.filter(|(_, bytes)| bytes == MAGIC).map(|(at, _)| start + at as u64);
                let is_block = |at: &u64| {
                    let next = self.header(*at).map(|header| at + (HEADER_BYTES + header.length as usize) as u64);
                    next.is_some_and(|next| self.header(next).is_some() || next >= self.bytes)
                };
                if let Some(at) = places.find(is_block) {
                    return Some(at);
                }
            }
            start += (wanted.saturating_sub(MAGIC.len() - 1)).max(1) as u64;
        }
        None
    }

    /// What is lost with the damage at `at`: keys between the last one that was read, and the first
    /// one of the next whole block.
    fn lose(&mut self, path: &Path, at: u64, what: &str, found: &mut Remains) {
        let before = self.peek();
        // A stored key has a mark before it.
        let bare = |key: &Vec<u8>| key.get(1..).unwrap_or_default().escape_ascii().to_string();
        let shown = |key: &Option<Vec<u8>>| key.as_ref().map(bare);
        let keys = match (shown(&self.last), shown(&before)) {
            (None, None) => "any keys".to_owned(),
            (Some(after), None) => format!("keys after \"{after}\""),
            (None, Some(before)) => format!("keys before \"{before}\""),
            (Some(after), Some(before)) => format!("keys between \"{after}\" and \"{before}\""),
        };
        let what = format!("{what}; the newest versions of {keys} may be lost");
        found.damages.push(Damage::at(path.display(), at, what));
        found.lose(Between { after: self.last.clone(), before });
    }

    /// The first key of the block that comes next, if it is whole.
    fn peek(&self) -> Option<Vec<u8>> {
        let header = self.header(self.at).filter(|header| header.is_data)?;
        let mut block = vec![0; header.length as usize];
        self.file.read_exact_at(&mut block, self.at + HEADER_BYTES as u64).ok()?;
        let mut first = None;
        if header.fits(&block) {
            // The first entry is all that is wanted.
            let _ = block::entries(&block, 0, &mut |entry| {
                first = Some(entry.key.to_vec());
                Err(())
            });
        }
        first
    }
}
