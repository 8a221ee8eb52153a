//! A transfer of a leader's items to a member that lacks entries which the leader has removed: what
//! the member does with its folders (decision 0075, *A follower that is too far behind*).
//!
//! 1. `taking`: the pieces are written into folders beside those that count, each one synced before
//!    it is acknowledged. A piece under another name first empties them (G16).
//! 2. `install`: the log is begun there, behind the entries that the leader has removed, with the
//!    member's own term and vote (G15). Then one write of `identity.toml` says that these folders
//!    count.
//! 3. The next start removes the old ones, as it does with what an interrupted transfer has left.
//!
//! A crash before the write in 2 leaves the store as it was, with all that it has acknowledged; one
//! behind it leaves the new one, whole.

mod install;
mod taking;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
pub(super) mod tests;

pub(super) use install::install;
pub(super) use taking::{Taking, Target};

use crate::log::{Configured, Position, State};

/// Name of a transfer (G16). Pieces of one name belong together whenever they were read: what has
/// changed in between is in the log behind `before`, which the leader keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TransferName {
    /// Term of the leader.
    pub(super) term: u64,
    /// Place before the first entry of the log that the leader keeps for it.
    pub(super) before: Position,
}

/// A transfer whose items are whole, and all that the new log has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) before: Position,
    /// The configuration that was in force there on the leader, if one was in its log.
    pub(super) configured: Option<Configured>,
    /// Payload of the leader's GC log.
    pub(super) gc_payload: Vec<u8>,
    /// The member's own state: it has sent no later one to another member.
    pub(super) state: State,
}
