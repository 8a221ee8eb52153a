//! A stand-in for a member's log, for tests: a crash keeps any prefix of what was not synced.

use std::collections::VecDeque;

use noraft::LogEntry;

use super::{
    configuration::Configuration,
    event::{Found, State},
    id::{Entries, Index, MemberId, Position, WriteId},
};

/// The records that a disk has for certain, and those that it may lose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Disk {
    durable: Found,
    unsynced: VecDeque<(WriteId, Record)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Record {
    State(State),
    Entry(Position, LogEntry),
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
        let entries = entries.iter().flat_map(Entries::iter_with_positions).map(|(at, kind)| Record::Entry(at, kind));
        let records: Vec<Record> = state.map(Record::State).into_iter().chain(entries).collect();
        self.unsynced.extend(records.into_iter().map(|record| (write, record)));
    }

    /// Number of records that a crash may lose.
    pub(crate) fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    /// Makes all durable up to this write.
    pub(crate) fn sync(&mut self, through: WriteId) {
        let is_synced = |(write, _): &(WriteId, Record)| *write <= through;
        while self.unsynced.front().is_some_and(is_synced)
            && let Some((_, record)) = self.unsynced.pop_front()
        {
            self.keep(record);
        }
    }

    /// A crash that keeps the first `kept` records which were not synced. Returns what is found.
    pub(crate) fn crash(&mut self, kept: usize) -> Found {
        for (_, record) in std::mem::take(&mut self.unsynced).into_iter().take(kept) {
            self.keep(record);
        }
        self.durable.clone()
    }

    /// Puts another store in the place of this one, in all configurations (0081, R1).
    pub(crate) fn rename(&mut self, old: MemberId, new: MemberId) {
        self.durable.entries = renamed_in(&self.durable.entries, old, new);
        for (_, record) in &mut self.unsynced {
            if let Record::Entry(_, kind) = record {
                *kind = renamed(kind.clone(), old, new);
            }
        }
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
            Record::Entry(at, kind) => {
                let entries = &mut self.durable.entries;
                let before = at.index.get() - 1 - entries.prev_position().index.get();
                assert!(before <= entries.len() as u64, "an entry is missing before {at:?}");
                entries.truncate(before as usize);
                let begins = entries.last_position().term != at.term;
                entries.push(if begins { LogEntry::Term(at.term) } else { kind });
            }
        }
    }
}

/// Entries with another store in the place of this one.
pub(crate) fn renamed_in(entries: &Entries, old: MemberId, new: MemberId) -> Entries {
    Entries::from_iter(entries.prev_position(), entries.iter().map(|entry| renamed(entry, old, new)))
}

fn renamed(entry: LogEntry, old: MemberId, new: MemberId) -> LogEntry {
    match entry {
        LogEntry::ClusterConfig(config) => {
            let mut configuration = Configuration::from(&config);
            configuration.rename(old, new);
            LogEntry::ClusterConfig((&configuration).into())
        }
        entry => entry,
    }
}
