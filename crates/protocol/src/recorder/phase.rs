//! The owner's knowledge of each of its numbers, from its beginning until it leaves the record. The
//! record itself, as all clients see it, is in `crate::status`.

use super::{Concern, Since};
use crate::id::Seq;

/// The life of a number from `low` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Open,
    Committed,
    CommittedClean(Clean),
    RolledBack,
    RolledBackClean,
}

/// The evidence that finished documents were not lost (step 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Clean {
    /// The connection before the first document was finished.
    pub(super) since: Since,
    pub(super) evidence: Option<u64>,
    pub(super) proven: bool,
}

impl Phase {
    pub(super) fn is_committed(&self) -> bool {
        matches!(self, Self::Committed | Self::CommittedClean(_))
    }

    pub(super) fn is_rolled_back(&self) -> bool {
        matches!(self, Self::RolledBack | Self::RolledBackClean)
    }

    /// No document carries its locks, as far as is known.
    pub(super) fn is_clean(&self) -> bool {
        matches!(self, Self::CommittedClean(_) | Self::RolledBackClean)
    }

    /// Returns true if `low` may rise above it, by a write that is sent over this connection or not
    /// at all.
    pub(super) fn may_leave(&self, connection: Option<u64>) -> bool {
        match self {
            Self::RolledBackClean => true,
            Self::CommittedClean(clean) => {
                clean.proven || connection.is_some_and(|connection| clean.since.is_proven_over(connection))
            }
            _ => false,
        }
    }
}

/// A transaction that has requested its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiting {
    pub(super) seq: Seq,
    pub(super) concern: Concern,
    /// The connection before its first prepared write.
    pub(super) since: Since,
    /// The stamp of the write that will be, or is, its evidence (step 2).
    pub(super) evidence: Option<u64>,
    pub(super) proven: bool,
}
