//! A stand-in for a member's log, for tests: a crash keeps any prefix of what was not synced.

use std::collections::VecDeque;

use super::{
    event::{Found, State},
    id::{Entries, Index, Position, WriteId},
};

/// The records that a disk has for certain, and those that it may lose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Disk {
    durable: Found,
    unsynced: VecDeque<(WriteId, Record)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Record {
    State(State),
    Entry(Position),
}

impl Disk {
    /// The empty log of a new store.
    pub(crate) fn new() -> Self {
        Self::with(Found { state: State::default(), entries: Entries::new(Position::ZERO) })
    }

    pub(crate) fn with(durable: Found) -> Self {
        Self { durable, unsynced: VecDeque::new() }
    }

    pub(crate) fn write(&mut self, write: WriteId, state: Option<State>, entries: Option<Entries>) {
        let entries = entries.iter().flat_map(Entries::iter_with_positions).map(|(at, _)| Record::Entry(at));
        let records: Vec<Record> = state.map(Record::State).into_iter().chain(entries).collect();
        self.unsynced.extend(records.into_iter().map(|record| (write, record)));
    }

    /// Number of records that a crash may lose.
    pub(crate) fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    /// Makes all durable up to this write.
    pub(crate) fn sync(&mut self, through: WriteId) {
        while let Some((_, record)) = self.unsynced.front().copied().filter(|(write, _)| *write <= through) {
            self.keep(record);
            self.unsynced.pop_front();
        }
    }

    /// A crash that keeps the first `kept` records which were not synced. Returns what is found.
    pub(crate) fn crash(&mut self, kept: usize) -> Found {
        for (_, record) in std::mem::take(&mut self.unsynced).into_iter().take(kept) {
            self.keep(record);
        }
        self.durable.clone()
    }

    /// Returns true if this entry is durable and not void.
    pub(crate) fn has(&self, position: Position) -> bool {
        self.durable.entries.contains(position)
    }

    /// The entry of this index that is durable, if there is one.
    pub(crate) fn at(&self, index: Index) -> Option<Position> {
        self.durable.entries.get_term(index).map(|term| Position { term, index })
    }

    pub(crate) fn durable(&self) -> &Found {
        &self.durable
    }

    fn keep(&mut self, record: Record) {
        match record {
            Record::State(state) => self.durable.state = state,
            Record::Entry(at) => {
                let entries = &mut self.durable.entries;
                let before = at.index.get() - 1 - entries.prev_position().index.get();
                assert!(before <= entries.len() as u64, "an entry is missing before {at:?}");
                entries.truncate(before as usize);
                let begins = entries.last_position().term != at.term;
                entries.push(if begins { noraft::LogEntry::Term(at.term) } else { noraft::LogEntry::Command });
            }
        }
    }
}
