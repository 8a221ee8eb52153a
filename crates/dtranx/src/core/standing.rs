//! A client's facts about a transaction that is tried again, and its age: the age decides which
//! transaction waits for locks and which gives way.
//!
//! Correctness does not depend on these facts: a client with false ones is only served earlier than
//! others.

use serde::{Deserialize, Serialize};

use super::id::{TranxId, WorkId};

/// Longest time that a client may give, in milliseconds.
pub const MAX_WAITED_MS: u32 = 120_000;

/// A client's facts about the attempts before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Again {
    /// Milliseconds since the first attempt began.
    pub waited_ms: u32,
    /// True if the locks are kept for one more attempt if a read is stale.
    pub keeps: bool,
    /// The attempt whose locks were kept for this one.
    pub kept: Option<TranxId>,
}

/// Standing of a transaction among others that want the same locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Standing {
    /// Time at which its first attempt was begun, in milliseconds since 1970 by the coordinator's
    /// clock.
    pub since_ms: u64,
    /// True if it has locked nothing on other servers as long as this one has not voted. Then no
    /// other transaction waits for it while it waits here.
    pub is_alone: bool,
    /// True if its locks are kept if a read is stale, as in [`Again::keeps`].
    pub keeps: bool,
    /// The attempt whose kept locks it takes over, as in [`Again::kept`].
    pub kept: Option<TranxId>,
}

impl Standing {
    /// Standing of a transaction for which a client gives these facts at `at_ms`.
    pub(crate) fn of(again: Again, at_ms: u64) -> Self {
        let waited_ms = u64::from(again.waited_ms.min(MAX_WAITED_MS));
        let since_ms = at_ms.saturating_sub(waited_ms);
        Self { since_ms, is_alone: false, keeps: again.keeps, kept: again.kept }
    }
}

/// A place in a server's queues for locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) since_ms: u64,
    pub(crate) work: WorkId,
}
