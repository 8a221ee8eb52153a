//! Journals: what was written last, in batches. Room is reserved ahead, with zeros.
//!
//! A batch that a killed process has not written to its end is no damage: it was not persisted, so
//! that the log has it. It is the beginning of a batch, and then zeros or the file's end.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use super::{Between, Entry, Remains, numbered};
use crate::core::item::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::damage::Damage;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
/// End of a batch's last entry.
const MAGIC: &[u8; 4] = b"FJL\x03";
/// The longest stored key and value: a mark and a version are stored with them.
const KEY_LIMIT_BYTES: usize = MAX_KEY_BYTES + 16;
const VALUE_LIMIT_BYTES: usize = MAX_VALUE_BYTES + 64;

/// Reads all journals. `take` is given the entries of whole batches, with their keyspaces' numbers.
///
/// # Errors
/// Those of `take`.
pub(super) fn read(
    folder: &Path,
    found: &mut Remains,
    take: &mut dyn FnMut(u64, Entry<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let journals = match numbered(folder, ".jnl") {
        Ok(journals) => journals,
        Err(error) => {
            found.damages.push(Damage::of(folder.display(), format!("it cannot be listed: {error}")));
            found.lose(Between::all());
            return Ok(());
        }
    };
    let lost = "the newest version of any item may be lost";
    let Some((first, last)) = journals.first().copied().zip(journals.last().copied()) else {
        found.damages.push(Damage::of(folder.display(), format!("it has no journal; {lost}")));
        found.lose(Between::all());
        return Ok(());
    };
    if journals.len() as u64 != (last - first).saturating_add(1) {
        let what = format!("a journal between {first}.jnl and {last}.jnl is missing; {lost}");
        found.damages.push(Damage::of(folder.display(), what));
        found.lose(Between::all());
    }
    let mut written = None;
    for number in journals {
        let path = folder.join(format!("{number}.jnl"));
        let damage = match File::open(&path).map(|file| Journal { file: BufReader::new(file), at: 0 }) {
            Ok(mut journal) => match journal.read(&mut written, take)? {
                End::Clean => continue,
                End::Damaged(at) => {
                    let what = format!("a batch of writes is damaged, and nothing behind it is read; {lost}");
                    Damage::at(path.display(), at, what)
                }
            },
            Err(error) => Damage::of(path.display(), format!("{error}; {lost}")),
        };
        found.damages.push(damage);
        found.lose(Between::all());
    }
    Ok(())
}

/// State of a journal behind its last whole batch.
enum End {
    /// Behind a whole batch, or in one that was not written to its end.
    Clean,
    /// In a batch that begins at this offset.
    Damaged(u64),
}

/// How a batch ends.
enum Batch {
    /// It is whole, and has this number.
    Whole(u64),
    /// There is none: zeros, or the end of the file.
    None,
    /// It was not written to its end.
    Cut,
    Damaged,
}

struct Journal {
    file: BufReader<File>,
    at: u64,
}

/// What an entry of a journal is.
enum Found {
    Start { items: u32, number: u64 },
    Item { keyspace: u64, key: Vec<u8>, value: Option<Vec<u8>> },
    Clear,
    End { checksum: u64, mark: [u8; 4] },
}

impl Journal {
    /// Reads the journal. `written` is the number of the batch before.
    fn read(
        &mut self,
        written: &mut Option<u64>,
        take: &mut dyn FnMut(u64, Entry<'_>) -> io::Result<()>,
    ) -> io::Result<End> {
        loop {
            let begin = self.at;
            match self.check() {
                // The number is not in the checksum; numbers grow from batch to batch.
                Batch::Whole(number) if written.is_some_and(|written| number <= written) => {
                    return Ok(End::Damaged(begin));
                }
                Batch::Whole(number) => {
                    *written = Some(number);
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
                Batch::None | Batch::Cut => return Ok(End::Clean),
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

    /// The next entry; `None`: there is none. `raw` gets its bytes.
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
