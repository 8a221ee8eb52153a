//! Reads the segments of a log, one after another: never more than two are in memory.
//!
//! What a crash can do, and what is found then:
//! 1. The newest segment may be without a header, or without anything behind it: it was being made,
//!    or had been made ahead (see `ahead`), or its server did nothing. It is `unused`.
//! 2. Blocks that were not persisted are lost, torn, or whole after a torn one. The log ends at the
//!    first that is not whole. Each block says below which sequence everything was durable when it
//!    was written, and behind what was persisted there is a seal, which says nothing else. If a
//!    later one says so of a block that is not there, that is damage, and an error.
//! 3. A segment says which block is its first: in its header, or in each of its blocks. All before
//!    that one were durable, so what was torn in an earlier segment, and what may lie whole behind
//!    it, is never read again.

use std::collections::VecDeque;

use super::collector::SegmentInfo;
use super::format::Owner;
use super::medium::Medium;
use super::segment::{Read, SegmentNumber, Unproven};
use super::{LogError, Result};

/// Called with every record found, and the segment that it is in.
pub(super) type Replay<'a> = dyn FnMut(SegmentNumber, &[u8]) -> Result<(), String> + 'a;

/// Findings in the segments.
#[derive(Default)]
pub(super) struct Found {
    /// The segments to be kept, oldest first.
    pub(super) complete: VecDeque<SegmentInfo>,
    /// The newest ones, if nothing was ever written into them; oldest first.
    pub(super) unused: Vec<SegmentNumber>,
    /// The sequence that comes next.
    pub(super) next_sequence: u64,
    /// The end of the newest segment that was written into.
    pub(super) unproven: Unproven,
}

/// Reads the log of `owner`, giving every record in it to `replay`. Segments below `oldest` are
/// leftovers of an interrupted removal, and are removed; `oldest` itself must be there if it ever
/// was.
///
/// # Errors
/// A file is damaged, missing, foreign or of another version; the medium refuses; `replay` cannot
/// read a record.
pub(super) fn read(medium: &dyn Medium, owner: Owner, oldest: SegmentNumber, replay: &mut Replay<'_>) -> Result<Found> {
    let numbers = list(medium, oldest)?;
    let open = |at: usize| numbers.get(at).map(|number| Read::open(medium, *number, owner)).transpose();
    let mut found = Found::default();
    let mut blank: Vec<SegmentInfo> = Vec::new();
    let mut ahead = open(0)?.flatten();
    for (at, number) in numbers.iter().copied().enumerate() {
        let Some(segment) = std::mem::replace(&mut ahead, open(at + 1)?.flatten()) else {
            if at + 1 < numbers.len() {
                return Err(LogError::corrupt(&number.file_name(), 0, "the segment has no header"));
            }
            found.unused.push(number);
            break;
        };
        let first = segment.first_sequence().unwrap_or(found.next_sequence);
        if at > 0 && first < found.next_sequence {
            return Err(LogError::corrupt(&number.file_name(), 0, "it begins before the segment before it"));
        }
        let until = ahead.as_ref().and_then(Read::first_sequence);
        let end = segment.replay(first, until, &mut |record| replay(number, record))?;
        found.next_sequence = end.sequence;
        blank.push(SegmentInfo { number, size_bytes: segment.header.size_bytes, used_bytes: end.used_bytes });
        if !segment.is_blank() {
            found.unproven = segment.unproven(&end);
            found.complete.extend(blank.drain(..));
        }
    }
    found.unused.splice(0..0, blank.iter().map(|info| info.number));
    Ok(found)
}

/// The numbers of the segments that count, without a gap. Leftovers below `oldest` are removed.
fn list(medium: &dyn Medium, oldest: SegmentNumber) -> Result<Vec<SegmentNumber>> {
    let mut numbers: Vec<_> = medium.list()?.iter().filter_map(|name| SegmentNumber::from_file_name(name)).collect();
    numbers.sort_unstable();
    // Segments are removed when later ones hold everything that is needed.
    if let Some(last) = numbers.last().filter(|last| **last < oldest) {
        return Err(LogError::Missing { missing: oldest.file_name(), found: last.file_name() });
    }
    while let Some(number) = numbers.first().copied().filter(|number| *number < oldest) {
        medium.remove(&number.file_name())?;
        numbers.remove(0);
    }
    let mut expected = oldest;
    for number in &numbers {
        if *number != expected {
            return Err(LogError::Missing { missing: expected.file_name(), found: number.file_name() });
        }
        expected = expected.next();
    }
    Ok(numbers)
}
