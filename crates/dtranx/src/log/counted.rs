//! Which entries of a log count, found out while it is read from its beginning: an entry is handed
//! on once it is known to be committed. Until then a later one may make it void.
//!
//! At the log's beginning, entries may come that follow none: what was before them was void, as
//! they are, and its segment is removed. The entry that makes them void comes behind.

use std::collections::VecDeque;

use super::entry::{Configured, Position, State};
use super::segment::SegmentNumber;
use super::terms::{Refused, Terms};

/// Limit of the bytes of entries that are not known to be committed: four times what a leader lets
/// come to that.
pub(super) const HELD_LIMIT_BYTES: usize = 256 << 20;

/// An entry that may still become void.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) position: Position,
    pub(super) segment: SegmentNumber,
    /// Offset of the block in the segment, in bytes.
    pub(super) at: u64,
    /// The entry's records, each after its length.
    pub(super) payload: Vec<u8>,
}

/// State of an entry that was just read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    /// Place before it; `None`: it follows none that is left.
    pub(super) before: Option<Position>,
    /// True if it is committed; otherwise it is to be held.
    pub(super) is_committed: bool,
}

/// The entries and states of a log that were read so far.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) terms: Terms,
    /// The newest state.
    pub(super) state: State,
    /// Number of entries that later ones have made void.
    pub(super) void: u64,
    held: VecDeque<Held>,
    held_bytes: usize,
    /// True if it is not known where the log begins.
    is_late: bool,
    /// True until the first entry that follows another one, or the beginning.
    is_beginning: bool,
}

impl Counted {
    /// Nothing was read yet of a log that begins behind `before`.
    pub(super) fn new(before: Position) -> Self {
        Self::configured(before, None)
    }

    /// The same, of a log before which this configuration was in force.
    pub(super) fn configured(before: Position, configured: Option<Configured>) -> Self {
        Self {
            terms: Terms::configured(before, configured),
            state: State::default(),
            void: 0,
            held: VecDeque::new(),
            held_bytes: 0,
            is_late: false,
            is_beginning: true,
        }
    }

    /// Nothing was read yet of a log whose beginning is lost: the lowest entry shows where the rest
    /// begins.
    pub(super) fn late() -> Self {
        Self { is_late: true, ..Self::new(Position::default()) }
    }

    /// Takes the next entry. What it makes void is dropped.
    pub(super) fn entry(&mut self, entry: Position) -> Result<Counts, Refused> {
        if self.is_late {
            self.begin_at(entry);
        }
        let before = match self.terms.push(entry) {
            Ok(before) => before,
            Err(Refused::Gap { .. }) if self.is_beginning && entry.term > 0 => {
                return Ok(Counts { before: None, is_committed: false });
            }
            Err(refused) => return Err(refused),
        };
        self.is_beginning = false;
        self.drop_from(entry.index);
        Ok(Counts { before: Some(before), is_committed: entry.index <= self.terms.committed() })
    }

    /// Lets the log begin with this entry if it is the first, or makes void all that was found.
    fn begin_at(&mut self, entry: Position) {
        let is_lower = entry.term > 0 && entry.index <= self.terms.before().index;
        if self.is_beginning || is_lower && entry.index > self.state.committed {
            self.drop_from(entry.index);
            self.terms = Terms::new(Position { term: 0, index: entry.index - 1 });
            self.terms.commit(self.state.committed);
        }
    }

    fn drop_from(&mut self, index: u64) {
        while self.held.back().is_some_and(|held| held.position.index >= index) {
            self.void += 1;
            self.held_bytes -= self.held.pop_back().map_or(0, |held| held.payload.len());
        }
    }

    /// Keeps an entry until it is known to be committed. Returns false if there are too many.
    pub(super) fn hold(&mut self, held: Held) -> bool {
        self.held_bytes += held.payload.len();
        self.held.push_back(held);
        self.held_bytes <= HELD_LIMIT_BYTES
    }

    /// Takes the next state.
    pub(super) fn state(&mut self, state: State) {
        self.state = self.state.followed_by(state);
        self.terms.commit(state.committed);
    }

    /// The next of the entries that were held, if it is known by now to be committed.
    pub(super) fn next_committed(&mut self) -> Option<Held> {
        let through = self.terms.committed().min(self.terms.last().index);
        self.held.front().filter(|held| held.position.index <= through)?;
        let held = self.held.pop_front()?;
        self.held_bytes -= held.payload.len();
        Some(held)
    }

    /// The entries that are not known to be committed, at the end of the log.
    pub(super) fn rest(&mut self) -> VecDeque<Held> {
        self.held_bytes = 0;
        std::mem::take(&mut self.held)
    }

    /// Checks, at the end of the log, that nothing is missing which it speaks of.
    pub(super) fn check_end(&self) -> Result<(), String> {
        let last = self.terms.last();
        if let Some(found) = self.held.back().map(|held| held.position).filter(|found| found.index > last.index) {
            return Err(Refused::Gap { last, found }.to_string());
        }
        let committed = self.terms.committed();
        if committed > last.index {
            return Err(format!("entries up to {committed} are called committed, and the log ends with {last}"));
        }
        Ok(())
    }
}
