//! Journals: what was written last, in batches. Room is reserved ahead, with zeros.
//!
//! A batch that a killed process has not written to its end is no damage: it was not persisted, so
//! that the log has it. It is the beginning of a batch, and then zeros or the file's end.

use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use super::numbers::{Batches, Tabled};
use super::{Entry, Remains, numbered};
use crate::core::item::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::damage::Damage;
use crate::files::{Cursor, Files};

/// Length that a journal has at least when the engine begins the next one, in bytes.
const FULL_BYTES: u64 = 64_000_000;
const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
/// Bytes that a batch's last entry ends with.
const MAGIC: &[u8; 4] = b"FJL\x03";
/// Limits of the length of a stored key and a stored value, in bytes: a mark and a version are
/// stored with them.
const KEY_LIMIT_BYTES: usize = MAX_KEY_BYTES + 16;
const VALUE_LIMIT_BYTES: usize = MAX_VALUE_BYTES + 64;

/// Words for the loss of any part of a journal: no one can say which keys it had.
const LOST: &str = "the newest version of any item may be lost";

/// Reads all journals. `tabled` are the numbers of the writes in tables. `take` is given the
/// entries of whole batches, with their keyspaces' numbers.
///
/// # Errors
/// Those of `take`.
pub(super) fn read(
    files: &Files<'_>,
    tabled: &Tabled,
    found: &mut Remains,
    take: &mut dyn FnMut(u64, Entry<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let folder = files.folder();
    let journals = match numbered(files, folder, ".jnl") {
        Ok(journals) => journals,
        Err(error) => {
            found.lose_all(Damage::of(folder.display(), format!("it cannot be listed: {error}")));
            return Ok(());
        }
    };
    let Some((first, last)) = journals.first().copied().zip(journals.last().copied()) else {
        found.lose_all(Damage::of(folder.display(), format!("it has no journal; {LOST}")));
        return Ok(());
    };
    let before = found.damages.total();
    if journals.len() as u64 != (last - first).saturating_add(1) {
        let what = format!("a journal between {first}.jnl and {last}.jnl is missing; {LOST}");
        found.lose_all(Damage::of(folder.display(), what));
    }
    let path = |number: u64| folder.join(format!("{number}.jnl"));
    let mut batches = Batches::default();
    for number in journals {
        if let Some(damage) = read_journal(files, &path(number), number == last, &mut batches, take)? {
            found.lose_all(damage);
        }
    }
    // Where something is damaged, numbers are missing.
    let is_damaged = found.damages.total() != before;
    if let Some(mut damage) = batches.check(tabled, &path(first), first).filter(|_| !is_damaged) {
        damage.what = format!("{}; {LOST}", damage.what);
        found.lose_all(damage);
    }
    Ok(())
}

/// Reads a journal. Returns what is damaged of it.
///
/// # Errors
/// Those of `take`.
fn read_journal(
    files: &Files<'_>,
    path: &Path,
    is_last: bool,
    batches: &mut Batches,
    take: &mut dyn FnMut(u64, Entry<'_>) -> io::Result<()>,
) -> io::Result<Option<Damage>> {
    let mut journal = match files.open(path) {
        Ok(source) => Journal { file: BufReader::new(Cursor::new(source)), at: 0 },
        Err(error) => return Ok(Some(Damage::of(path.display(), format!("{error}; {LOST}")))),
    };
    // A journal is synced to its end before the next one is begun.
    let what = match journal.read(path, batches, take)? {
        End::Damaged(at) => Some((at, "a batch of writes is damaged, and nothing behind it is read".to_owned())),
        End::Cut(at) if !is_last => Some((at, "a batch of writes is cut off, and there is a later journal".to_owned())),
        End::Whole(at) if !is_last && at <= FULL_BYTES => {
            let what = format!(
                "it ends here, and there is a later journal, which is not begun before this one has {FULL_BYTES} \
                 bytes: its end is missing"
            );
            Some((at, what))
        }
        End::Whole(_) | End::Cut(_) => None,
    };
    Ok(what.map(|(at, what)| Damage::at(path.display(), at, format!("{what}; {LOST}"))))
}

/// State of a journal behind its last whole batch, with the offset of its end.
enum End {
    /// Only zeros, or nothing, follow the batch.
    Whole(u64),
    /// A batch follows that was not written to its end.
    Cut(u64),
    /// A damaged batch follows, and nothing behind it is read.
    Damaged(u64),
}

/// Result of reading a batch to its end.
enum Batch {
    /// The batch is whole, and has this number.
    Whole(u64),
    /// There is no batch: zeros follow, or the end of the file.
    None,
    /// The batch was not written to its end.
    Cut,
    /// The batch makes no sense, or its checksum differs.
    Damaged,
}

/// A journal that is being read.
struct Journal {
    file: BufReader<Cursor>,
    /// Offset of what is read next, in bytes.
    at: u64,
}

/// An entry of a journal that was read.
enum Found {
    Start { items: u32, number: u64 },
    Item { keyspace: u64, key: Vec<u8>, value: Option<Vec<u8>> },
    Clear,
    End { checksum: u64, mark: [u8; 4] },
}

impl Journal {
    /// Reads the journal, and notes the numbers of its batches.
    fn read(
        &mut self,
        path: &Path,
        batches: &mut Batches,
        take: &mut dyn FnMut(u64, Entry<'_>) -> io::Result<()>,
    ) -> io::Result<End> {
        loop {
            let begin = self.at;
            match self.check() {
                // The number is not in the checksum; numbers grow from batch to batch.
                Batch::Whole(number) if !batches.note(path, begin, number) => return Ok(End::Damaged(begin)),
                Batch::Whole(_) => {
                    let end = self.at;
                    // It is read twice, so that it need not be kept until its checksum is known.
                    if self.seek(begin).is_err() {
                        return Ok(End::Damaged(begin));
                    }
                    self.hand_on(take)?;
                    if self.at != end {
                        return Ok(End::Damaged(begin));
                    }
                }
                Batch::None => return Ok(End::Whole(begin)),
                Batch::Cut => return Ok(End::Cut(begin)),
                Batch::Damaged => return Ok(End::Damaged(begin)),
            }
        }
    }

    /// Reads a batch to its end, and compares its checksum.
    fn check(&mut self) -> Batch {
        let (mut hasher, mut left, mut begun) = (Xxh3::new(), None, 0);
        loop {
            let mut summed = Vec::new();
            let entry = match self.entry(&mut summed) {
                Ok(Some(entry)) => entry,
                // What follows a batch's beginning are zeros, or nothing.
                Ok(None) => {
                    return match (self.is_blank(), left) {
                        (true, None) => Batch::None,
                        (true, Some(_)) => Batch::Cut,
                        (false, _) => Batch::Damaged,
                    };
                }
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Batch::Cut,
                // Lengths that were not written to their end contradict each other.
                Err(_) if left.is_some() && self.is_blank() => return Batch::Cut,
                Err(_) => return Batch::Damaged,
            };
            left = match (entry, left) {
                (Found::Start { items, number }, None) => {
                    begun = number;
                    Some(items)
                }
                (Found::Item { .. } | Found::Clear, Some(left @ 1..)) => {
                    hasher.update(&summed);
                    Some(left - 1)
                }
                (Found::End { checksum, mark }, Some(0)) if mark == *MAGIC && hasher.digest() == checksum => {
                    return Batch::Whole(begun);
                }
                // The mark is written last: there are only its first bytes.
                (Found::End { mark, .. }, Some(0)) if is_begun(mark) && self.is_blank() => return Batch::Cut,
                _ => return Batch::Damaged,
            };
        }
    }

    /// Reads a batch once more, and hands on its entries.
    fn hand_on(&mut self, take: &mut dyn FnMut(u64, Entry<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut number = 0;
        loop {
            match self.entry(&mut Vec::new()) {
                Ok(Some(Found::Start { number: found, .. })) => number = found,
                Ok(Some(Found::Item { keyspace, key, value })) => {
                    take(keyspace, Entry { key: &key, number, value: value.as_deref() })?;
                }
                Ok(Some(Found::Clear)) => {}
                // The caller compares the place at which it ends.
                Ok(Some(Found::End { .. }) | None) | Err(_) => return Ok(()),
            }
        }
    }

    /// Reads the next entry, whose bytes are appended to `raw`. `None`: no entry follows.
    fn entry(&mut self, raw: &mut Vec<u8>) -> io::Result<Option<Found>> {
        let mut tag = [0];
        match self.fill(&mut tag, raw) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(Some(match tag[0] {
            0 => {
                // It may be the first of the zeros that were reserved.
                self.seek(self.at - 1)?;
                return Ok(None);
            }
            START => Found::Start { items: self.u32(raw)?, number: self.u64(raw)? },
            ITEM => self.item(raw)?,
            CLEAR => {
                self.u64(raw)?;
                Found::Clear
            }
            END => {
                let checksum = self.u64(raw)?;
                let mut mark = [0; 4];
                self.fill(&mut mark, raw)?;
                Found::End { checksum, mark }
            }
            _ => return Err(ErrorKind::InvalidData.into()),
        }))
    }

    /// Reads an entry that puts or deletes an item, behind its first byte.
    fn item(&mut self, raw: &mut Vec<u8>) -> io::Result<Found> {
        let mut kinds = [0; 2];
        self.fill(&mut kinds, raw)?;
        let keyspace = self.u64(raw)?;
        let mut key_bytes = [0; 2];
        self.fill(&mut key_bytes, raw)?;
        let key_bytes = usize::from(u16::from_le_bytes(key_bytes));
        let (bytes, stored) = (self.u32(raw)? as usize, self.u32(raw)? as usize);
        // The second is how the value is compressed: it never is.
        if kinds[0] > 2 || kinds[1] != 0 || bytes != stored || key_bytes > KEY_LIMIT_BYTES || bytes > VALUE_LIMIT_BYTES
        {
            return Err(ErrorKind::InvalidData.into());
        }
        let (mut key, mut value) = (vec![0; key_bytes], vec![0; bytes]);
        self.fill(&mut key, raw)?;
        self.fill(&mut value, raw)?;
        Ok(Found::Item { keyspace, key, value: (kinds[0] == 0).then_some(value) })
    }

    fn u32(&mut self, raw: &mut Vec<u8>) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes, raw)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self, raw: &mut Vec<u8>) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes, raw)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn fill(&mut self, into: &mut [u8], raw: &mut Vec<u8>) -> io::Result<()> {
        self.file.read_exact(into)?;
        self.at += into.len() as u64;
        raw.extend_from_slice(into);
        Ok(())
    }

    fn seek(&mut self, at: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.at = at;
        Ok(())
    }

    /// Returns true if only zeros follow.
    fn is_blank(&mut self) -> bool {
        let (mut window, zeros) = (vec![0; 1 << 20], vec![0; 1 << 20]);
        loop {
            match self.file.read(&mut window) {
                Ok(0) => return true,
                Ok(read) if window[..read] != zeros[..read] => return false,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }
}

/// Returns true if the mark was not written to its end.
fn is_begun(mark: [u8; 4]) -> bool {
    let written = mark.iter().zip(MAGIC).take_while(|(found, wanted)| found == wanted).count();
    written < MAGIC.len() && mark[written..].iter().all(|byte| *byte == 0)
}
