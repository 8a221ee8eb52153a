//! Places of entries in a log, and what a member of a group must not forget beside them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Place of an entry: a block with records. The indices of a log are counted from 1 on, without a
/// gap. Terms are those of a group's leaders, from 1 on; the entries of a server that runs alone
/// have term 0, and are committed by its own sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// Term of the leader that has made the entry.
    pub term: u64,
    /// Number of the entry in the log.
    pub index: u64,
}

impl Position {
    /// Of two places, the one with the lower index.
    pub(super) fn lower(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        one.into_iter().chain(other).min_by_key(|place| place.index)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {} of term {}", self.index, self.term)
    }
}

/// State of a member of a group, which is a block of its own in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The last term that the member knows.
    pub term: u64,
    /// The member that this one has voted for in that term.
    pub vote: Option<u64>,
    /// Greatest index that the member knew to be committed.
    pub committed: u64,
}

impl State {
    /// The state that counts after this one and another that was written later, or elsewhere: the
    /// later term; of one term the one with a vote; and the larger committed index (G15).
    #[must_use]
    pub fn followed_by(self, later: Self) -> Self {
        let rank = |state: Self| (state.term, state.vote.is_some());
        let newest = if rank(later) >= rank(self) { later } else { self };
        Self { committed: self.committed.max(later.committed), ..newest }
    }
}

/// A configuration of a group, and the place of its entry in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Configured {
    /// Place of the entry.
    pub at: Position,
    /// Configuration, as the caller spells it.
    pub bytes: Vec<u8>,
}

/// Places of all entries of a log that are not void.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Place before the first entry.
    pub before: Position,
    /// First entry of each run of entries of one term; a run that goes on with the term of `before`
    /// is not among them.
    pub runs: Vec<Position>,
    /// The last entry, or the place before the first.
    pub last: Position,
    /// Greatest index that is known to be committed.
    pub committed: u64,
    /// Configurations, in the order of their indices. The first may be the one that was in force
    /// before the first entry.
    pub configurations: Vec<Configured>,
}
