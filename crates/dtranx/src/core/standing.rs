//! A client's facts about a transaction that is tried again, and its age: the age decides which
//! transaction waits for locks and which gives way.
//!
//! Nothing that is said here has to be true for transactions to be serializable: a client that lies
//! is only served earlier than others.

use serde::{Deserialize, Serialize};

use super::id::{TranxId, WorkId};

/// The longest time that a client may say to have tried.
pub const MAX_WAITED_MS: u32 = 120_000;

/// A client's facts about the attempts before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Again {
    /// Milliseconds since the first attempt began.
    pub waited_ms: u32,
    /// Are the locks to be kept for one more attempt if something that was read is stale?
    pub keeps: bool,
    /// The attempt whose locks were kept for this one.
    pub kept: Option<TranxId>,
}

/// How a transaction stands among others that want the same locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Standing {
    /// When its first attempt was begun, in milliseconds since 1970 by the coordinator's clock.
    pub since_ms: u64,
    /// Has it nothing on other servers as long as this one has not voted? Then no other waits for
    /// it while it waits here.
    pub is_alone: bool,
    /// Whether its locks are kept if a read is stale, as in [`Again::keeps`].
    pub keeps: bool,
    /// The attempt whose kept locks it takes over, as in [`Again::kept`].
    pub kept: Option<TranxId>,
}

impl Standing {
    /// That of a transaction of which the client says this at `at_ms`.
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
