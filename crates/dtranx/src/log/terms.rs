//! Terms of the entries that count, by their indices: an entry makes all earlier ones of its index
//! and above void. Which entries may follow is decided here, for who reads a log and who writes it.

use std::fmt;

use super::LogError;
use super::configured::Configurations;
use super::entry::{Configured, Outline, Position};

/// The entries of a log that are not void.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// Place before the first entry; what was up to it is removed, and was committed.
    before: Position,
    /// The first entry of each run of entries of one term; a run of the term of `before` that
    /// follows it at once is not among them.
    runs: Vec<Position>,
    last: u64,
    committed: u64,
    configurations: Configurations,
}

/// Reason why an entry cannot follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It would make `ours` void, which is committed.
    Cut { ours: Position, theirs: Position },
    /// Entries between `last` and this one are missing.
    Gap { last: Position, found: Position },
    /// Its term is lower than that of the entry before it.
    Back { before: Position, found: Position },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { ours, theirs } => write!(f, "{theirs} would make {ours} void, which is committed"),
            Self::Gap { last, found } => write!(f, "{found} follows {last}: entries between them are missing"),
            Self::Back { before, found } => write!(f, "{found} follows {before}, which has a later term"),
        }
    }
}

impl From<Refused> for LogError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Cut { ours, theirs } => Self::Cut { ours, theirs },
            Refused::Gap { last: before, found } | Refused::Back { before, found } => {
                Self::OutOfOrder { before, found }
            }
        }
    }
}

impl Terms {
    /// No entry yet, behind `before`.
    pub(super) fn new(before: Position) -> Self {
        Self::configured(before, None)
    }

    /// No entry yet, behind `before`, where this configuration was in force.
    pub(super) fn configured(before: Position, configured: Option<Configured>) -> Self {
        let configurations = Configurations::before(configured);
        Self { before, runs: Vec::new(), last: before.index, committed: before.index, configurations }
    }

    /// The entries, by their runs.
    pub(super) fn outline(&self) -> Outline {
        let (committed, configurations) = (self.committed.min(self.last), self.configurations.all());
        Outline { before: self.before, runs: self.runs.clone(), last: self.last(), committed, configurations }
    }

    /// Place before the first entry.
    pub(super) const fn before(&self) -> Position {
        self.before
    }

    /// The last entry, or the place before the first.
    pub(super) fn last(&self) -> Position {
        self.at(self.last).unwrap_or(self.before)
    }

    /// Greatest index that is known to be committed.
    pub(super) const fn committed(&self) -> u64 {
        self.committed
    }

    /// Notes that entries up to this index are committed.
    pub(super) fn commit(&mut self, through: u64) {
        self.committed = self.committed.max(through);
    }

    /// Returns the place before an entry that may follow.
    pub(super) fn check(&self, entry: Position) -> Result<Position, Refused> {
        if entry.index > self.last.saturating_add(1) {
            return Err(Refused::Gap { last: self.last(), found: entry });
        }
        if entry.index <= self.committed.min(self.last) {
            return Err(Refused::Cut { ours: self.at(entry.index).unwrap_or(self.before), theirs: entry });
        }
        let before = self.at(entry.index - 1).unwrap_or(self.before);
        if entry.term < before.term {
            return Err(Refused::Back { before, found: entry });
        }
        Ok(before)
    }

    /// Takes an entry, which makes all of its index and above void. Returns the place before it.
    pub(super) fn push(&mut self, entry: Position) -> Result<Position, Refused> {
        let before = self.check(entry)?;
        while self.runs.last().is_some_and(|run| run.index >= entry.index) {
            self.runs.pop();
        }
        if before.term != entry.term {
            self.runs.push(entry);
        }
        self.last = entry.index;
        self.configurations.written(entry, None);
        // A server that runs alone commits by its own sync, and nothing that it has is ever void.
        if entry.term == 0 {
            self.commit(entry.index);
        }
        Ok(before)
    }

    /// Notes whether the entry that was taken last is a configuration.
    pub(super) fn holds(&mut self, entry: Position, configuration: Option<&[u8]>) {
        self.configurations.written(entry, configuration);
    }

    /// The place of this index, from the one before the first entry on.
    fn at(&self, index: u64) -> Option<Position> {
        if index < self.before.index || index > self.last {
            return None;
        }
        let run = self.runs.partition_point(|run| run.index <= index).checked_sub(1);
        Some(Position { term: run.map_or(self.before.term, |run| self.runs[run].term), index })
    }
}
