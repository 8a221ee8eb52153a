//! Names of members, and of places in their logs.

use std::fmt;

pub(crate) use noraft::{LogEntries as Entries, LogIndex as Index, LogPosition as Position, Term};

/// Id of a member, which is its store: 64 random bits that are drawn when the store is made. A
/// folder that was lost is a member that never comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MemberId(pub(crate) u64);

/// Number of a write to the own log, counted from 1 since the start. All writes are one sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WriteId(pub(crate) u64);

/// Name that the caller gives to an answer which waits for a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AnswerId(pub(crate) u64);

impl WriteId {
    pub(super) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<MemberId> for noraft::NodeId {
    fn from(member: MemberId) -> Self {
        Self::new(member.0)
    }
}

impl From<noraft::NodeId> for MemberId {
    fn from(node: noraft::NodeId) -> Self {
        Self(node.get())
    }
}
