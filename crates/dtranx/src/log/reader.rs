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
//! 4. An entry may be void, because a later one has its index or a lower one (see `counted`). That
//!    is a matter of indices, and never of what is missing: a void block that is not whole is as
//!    much damage as any other.

use std::collections::VecDeque;

use super::collector::{Closed, SegmentInfo};
use super::configured::configuration;
use super::counted::{Counted, Counts, HELD_LIMIT_BYTES, Held};
use super::entry::Position;
use super::format::{self, Content, Owner};
use super::gc_log::Kept;
use super::log_reader::LogReader;
use super::medium::Medium;
use super::segment::{Read, SegmentNumber, Unproven};
use super::{LogError, Result};

/// The owner of a log that is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reads {
    pub(super) owner: Owner,
    /// True if it is a member of a group; the log of one is refused otherwise.
    pub(super) is_member: bool,
}

/// Findings in the segments.
pub(super) struct Found {
    /// The segments to be kept, oldest first.
    pub(super) complete: VecDeque<Closed>,
    /// The newest ones, if nothing was ever written into them; oldest first.
    pub(super) unused: Vec<SegmentNumber>,
    /// The sequence that comes next.
    pub(super) next_sequence: u64,
    /// The end of the newest segment that was written into.
    pub(super) unproven: Unproven,
    /// The entries and the newest state.
    pub(super) counted: Counted,
}

/// Reads a log, giving every record that is not void to `reader`. `kept` is what the GC log knows.
/// Segments below the oldest that is needed are leftovers of an interrupted removal, and are
/// removed; the oldest itself must be there if it ever was.
///
/// # Errors
/// A file is damaged, missing, foreign or of another version; entries contradict each other; the
/// medium refuses; `reader` cannot read a record.
pub(super) fn read(medium: &dyn Medium, reads: Reads, kept: &Kept, reader: &mut dyn LogReader) -> Result<Found> {
    let numbers = list(medium, kept.oldest)?;
    let open = |at: usize| numbers.get(at).map(|number| Read::open(medium, *number, reads.owner)).transpose();
    let mut found = Found {
        complete: VecDeque::new(),
        unused: Vec::new(),
        next_sequence: 0,
        unproven: Unproven::default(),
        counted: Counted::configured(kept.before, kept.configured.clone()),
    };
    let mut blank: Vec<Closed> = Vec::new();
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
        let mut blocks = Blocks { number, reads, counted: &mut found.counted, reader: &mut *reader, lowest: None };
        let end = segment.replay(first, until, &mut |at, content| blocks.see(at, content))?;
        let lowest = blocks.lowest;
        found.next_sequence = end.sequence;
        let info = SegmentInfo { number, size_bytes: segment.header.size_bytes, used_bytes: end.used_bytes };
        blank.push(Closed { info, lowest });
        if !segment.is_blank() {
            found.unproven = segment.unproven(&end);
            found.complete.extend(blank.drain(..));
        }
    }
    found.unused.splice(0..0, blank.iter().map(|closed| closed.info.number));
    finish(&mut found, kept, reader)?;
    Ok(found)
}

/// Hands on what the GC log knows to be committed, and then what nothing does.
fn finish(found: &mut Found, kept: &Kept, reader: &mut dyn LogReader) -> Result<()> {
    let counted = &mut found.counted;
    // Not before: at its place in the log, an entry may still have been made void by a later one.
    counted.terms.commit(kept.state.committed);
    counted.state = kept.state.followed_by(counted.state);
    while let Some(held) = counted.next_committed() {
        records(held.segment, held.at, &held.payload, &mut |record| reader.record(held.segment, record))?;
    }
    if let Err(what) = counted.check_end() {
        let last = found.complete.back().map(|closed| closed.info);
        let (name, at) =
            last.map_or_else(|| (super::gc_log::NAME.to_owned(), 0), |info| (info.number.file_name(), info.used_bytes));
        return Err(LogError::corrupt(&name, at, what));
    }
    for Held { position, segment, at, payload } in counted.rest() {
        records(segment, at, &payload, &mut |record| reader.uncommitted(position, segment, record))?;
    }
    Ok(())
}

/// Reading of the blocks of one segment: counts them, and passes their records to a reader.
struct Blocks<'a> {
    number: SegmentNumber,
    reads: Reads,
    counted: &'a mut Counted,
    reader: &'a mut dyn LogReader,
    /// Place before the entry with the lowest index in the segment.
    lowest: Option<Position>,
}

impl Blocks<'_> {
    fn see(&mut self, at: u64, content: Content<'_>) -> Result<()> {
        match content {
            Content::Seal => Ok(()),
            Content::State(state) => {
                self.check_member(state.term)?;
                self.counted.state(state);
                while let Some(held) = self.counted.next_committed() {
                    records(held.segment, held.at, &held.payload, &mut |record| {
                        self.reader.record(held.segment, record)
                    })?;
                }
                Ok(())
            }
            Content::Entry(position, payload) => {
                if position.term > 0 {
                    self.check_member(position.term)?;
                }
                self.entry(at, position, payload)
            }
        }
    }

    fn entry(&mut self, at: u64, position: Position, payload: &[u8]) -> Result<()> {
        let number = self.number;
        let refused = |what: String| LogError::corrupt(&number.file_name(), at, what);
        let Counts { before, is_committed } = self.counted.entry(position).map_err(|what| refused(what.to_string()))?;
        self.lowest = Position::lower(self.lowest, before);
        if before.is_some() {
            self.counted.terms.holds(position, configuration(payload));
        }
        if is_committed {
            return records(number, at, payload, &mut |record| self.reader.record(number, record));
        }
        if !self.counted.hold(Held { position, segment: number, at, payload: payload.to_vec() }) {
            return Err(refused(format!("{HELD_LIMIT_BYTES} bytes of entries are not known to be committed")));
        }
        Ok(())
    }

    fn check_member(&self, term: u64) -> Result<()> {
        let file = || self.number.file_name();
        if self.reads.is_member { Ok(()) } else { Err(LogError::OfGroup { file: file(), term }) }
    }
}

/// Takes the records of an entry one by one.
fn records(
    segment: SegmentNumber,
    at: u64,
    payload: &[u8],
    take: &mut dyn FnMut(&[u8]) -> Result<(), String>,
) -> Result<()> {
    if configuration(payload).is_some() {
        return Ok(());
    }
    for record in format::records(payload) {
        let record = record.ok_or_else(|| LogError::corrupt(&segment.file_name(), at, "a record is cut off"))?;
        take(record).map_err(|what| LogError::Unreadable { file: segment.file_name(), what })?;
    }
    Ok(())
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
