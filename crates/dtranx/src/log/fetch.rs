//! Entries of a log that is open, read again: another member of the group lacks them. Their
//! checksums are compared once more.

use super::entry::Position;
use super::format::{self, BLOCK_HEADER_BYTES, Content, HEADER_BYTES};
use super::manager::LogManager;
use super::medium::MediumFile;
use super::segment::SegmentNumber;
use super::{LogError, Result};

/// Place in a log behind the entry that was read last. Reading goes on there if the next one
/// follows, and looks for it in the segments if not.
#[derive(Debug, Default)]
pub struct Cursor {
    behind: Option<(SegmentNumber, u64)>,
}

/// A segment that is read from.
struct Source {
    number: SegmentNumber,
    file: Box<dyn MediumFile>,
    /// Offset behind its last block.
    end: u64,
}

impl Source {
    fn open(log: &LogManager, number: SegmentNumber, end: u64) -> Result<Self> {
        Ok(Self { number, file: log.medium().open(&number.file_name())?, end })
    }

    /// Payload of an entry at this offset or behind it, and the offset behind its block.
    fn find(&self, mut at: u64, wanted: Position) -> Result<Option<(Vec<u8>, u64)>> {
        let damaged =
            |at: u64| LogError::corrupt(&self.number.file_name(), at, "a block that was written is not whole");
        while at + BLOCK_HEADER_BYTES as u64 <= self.end {
            let mut head = [0; BLOCK_HEADER_BYTES];
            self.file.read(at, &mut head)?;
            let (length, header) = format::decode_block_header(&head).ok_or_else(|| damaged(at))?;
            let taken = format::block_bytes(length) as u64;
            if at + taken > self.end {
                return Err(damaged(at));
            }
            if header.entry == wanted {
                let mut block = vec![0; taken as usize];
                self.file.read(at, &mut block)?;
                return match format::decode_block(&block, self.number.0) {
                    Some((block, _)) => match block.content {
                        Content::Entry(found, payload) if found == wanted => Ok(Some((payload.to_vec(), at + taken))),
                        _ => Err(damaged(at)),
                    },
                    None => Err(damaged(at)),
                };
            }
            at += taken;
        }
        Ok(None)
    }
}

/// Entries that were read again.
#[derive(Debug, PartialEq, Eq)]
pub enum Fetched {
    /// Payloads of the first of the entries; of one at least.
    Payloads(Vec<Vec<u8>>),
    /// The first of them was removed.
    Removed,
}

/// Reads entries that are not void, in the order of their indices, until their payloads have more
/// than `limit_bytes`; at least one.
pub(super) fn fetch(
    log: &LogManager,
    cursor: &mut Cursor,
    wanted: impl IntoIterator<Item = Position>,
    limit_bytes: usize,
) -> Result<Fetched> {
    let mut wanted = wanted.into_iter().peekable();
    let first = wanted.peek().map_or(u64::MAX, |entry| entry.index);
    match read(log, cursor, wanted, limit_bytes) {
        // Segments go while they are read: what fails because of that is no damage.
        _ if first <= log.before().index => {
            *cursor = Cursor::default();
            Ok(Fetched::Removed)
        }
        found => found.map(Fetched::Payloads),
    }
}

fn read(
    log: &LogManager,
    cursor: &mut Cursor,
    wanted: impl IntoIterator<Item = Position>,
    limit_bytes: usize,
) -> Result<Vec<Vec<u8>>> {
    let segments = log.extents();
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut source: Option<Source> = None;
    for entry in wanted {
        let mut next = None;
        if let Some((number, at)) = cursor.behind {
            if source.as_ref().is_none_or(|source| source.number != number) {
                let extent = segments.iter().find(|extent| extent.number == number);
                // It may be on its way out: then what is wanted is in a later one.
                source = extent.and_then(|extent| Source::open(log, number, extent.used_bytes).ok());
            }
            next = source.as_ref().map(|source| source.find(at, entry)).transpose()?.flatten();
        }
        // The newest segment that may have it does, unless that one has only void entries.
        let mut older = segments.iter().rev().filter(|extent| extent.lowest.is_some_and(|low| low.index < entry.index));
        while next.is_none() {
            let Some(extent) = older.next() else {
                let what = format!("{entry} is not in it, nor in the segments before");
                return Err(LogError::corrupt(&log.current().file_name(), 0, what));
            };
            let opened = Source::open(log, extent.number, extent.used_bytes)?;
            next = opened.find(HEADER_BYTES as u64, entry)?;
            source = Some(opened);
        }
        let (Some((payload, behind)), Some(source)) = (next, &source) else { break };
        bytes += payload.len();
        if bytes > limit_bytes && !found.is_empty() {
            // It is where the next call begins.
            break;
        }
        cursor.behind = Some((source.number, behind));
        found.push(payload);
    }
    Ok(found)
}
