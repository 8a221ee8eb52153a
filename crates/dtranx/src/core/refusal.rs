//! Reasons why a transaction is not committed, and the client's next step (the retry rules of
//! section 3.2).

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    id::{ServerId, TranxId},
    item::{Current, Key, LimitError},
    range::KeyRange,
};

/// Place of a range, as a server that does not hold it knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Moved {
    /// Range that another server holds.
    pub range: KeyRange,
    /// Server that holds it, unless it has moved on since.
    pub to: ServerId,
    /// Number of moves that have brought it there.
    pub moves: u64,
}

/// Reason why a transaction is not committed. It is known not to be: nothing of it is or will be
/// visible.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Refusal {
    /// A key that it read is exclusively locked: another transaction is changing it.
    #[error("the key {key:?}, which the transaction read, is being changed")]
    ReadLocked {
        /// A key that was read, or one within a range that was scanned.
        key: Key,
    },
    /// A key or range that it read has changed since.
    #[error("what the transaction read has changed since")]
    Stale {
        /// Current items of the keys that failed the check. A range that failed is not listed.
        current: Vec<Current>,
        /// The transaction's own id, if its locks are kept for an attempt that names it.
        kept: Option<TranxId>,
    },
    /// A key that it writes is exclusively locked.
    #[error("the key {key:?}, which the transaction writes, is being changed")]
    WriteLocked {
        /// Key that another transaction is changing.
        key: Key,
    },
    /// A key or range was not free before the wait for locks was over.
    #[error("the keys that the transaction reads or writes were not free in time")]
    LockWaitExpired,
    /// A server did not vote in time.
    #[error("server {server} did not answer in time")]
    NoVote {
        /// Server that did not vote in time.
        server: ServerId,
    },
    /// The server has reached a limit of its load.
    #[error("the server is at its limit: {limit}")]
    Overloaded {
        /// The name of the limit.
        limit: String,
    },
    /// A server does not hold a key that is expected there: the key's range has moved.
    #[error("server {server} does not hold the key {key:?}{}", holder(moved))]
    NotHere {
        /// Server that does not hold the key.
        server: ServerId,
        /// Key that the server does not hold.
        key: Key,
        /// Place of the range around the key, then of ranges around others that the transaction
        /// wants there and that the server does not hold: as many as one refusal carries.
        moved: Vec<Moved>,
    },
    /// The transaction exceeds a limit: it can never be committed.
    #[error("{0}")]
    Invalid(LimitError),
    /// There is no snapshot, because a server did not learn in time the outcome of a transaction
    /// that may belong to it.
    #[error("no snapshot: server {server} does not know what became of transaction {tranx}")]
    SnapshotInDoubt {
        /// Server that does not know the outcome.
        server: ServerId,
        /// Transaction whose outcome it does not know.
        tranx: TranxId,
    },
    /// There is no snapshot, because in every attempt commits were answered before every server
    /// knew of the new epoch.
    #[error("no snapshot: {attempts} times commits were answered while servers did not yet know of it")]
    SnapshotDisturbed {
        /// Number of attempts that were disturbed.
        attempts: u32,
    },
    /// A server does not keep the items of a snapshot any more.
    #[error("snapshot too old: server {server} {why}")]
    SnapshotTooOld {
        /// Server that cannot be read as of the snapshot.
        server: ServerId,
        /// Reason why the server no longer keeps it: the limit's name, or a restart.
        why: String,
    },
    /// The life of the server that the request was sent to is over, and has not committed it.
    #[error("server {server} has begun a new life, and has not committed the transaction before")]
    Restarted {
        /// Server that was restarted, or whose group has another leader.
        server: ServerId,
    },
    /// A server that is to take a range holds some of it.
    #[error("server {server} holds some of the range already, from the key {key:?} on")]
    Here {
        /// Server that was to take the range.
        server: ServerId,
        /// First key of the range that the server holds.
        key: Key,
    },
    /// The range of a key that it reads or writes is moving to another server.
    #[error("the range of the key {key:?} is moving to another server")]
    IsMoving {
        /// A key of the range.
        key: Key,
    },
    /// A server is new, and takes part once all others know it.
    #[error("server {server} is new, and takes no part before all other servers know it")]
    Joining {
        /// Id of the new server, which does not take part yet.
        server: ServerId,
    },
}

/// Action of a client whose transaction is refused (section 3.2 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Advice {
    /// Commit the same transaction again after a while that doubles each time: no server has found
    /// its reads stale.
    RetryLater,
    /// Begin it again at once and read anew: committing it again would fail again.
    Restart,
    /// Give the transaction up: it can never be committed.
    GiveUp,
}

/// The rest of a sentence that says which server holds a key, if that is known.
fn holder(moved: &[Moved]) -> String {
    moved.first().map_or_else(String::new, |moved| format!(": server {} does", moved.to))
}

impl Refusal {
    /// Action that the client should take.
    pub const fn advice(&self) -> Advice {
        match self {
            Self::ReadLocked { .. } | Self::Stale { .. } | Self::SnapshotTooOld { .. } | Self::NotHere { .. } => {
                Advice::Restart
            }
            Self::WriteLocked { .. }
            | Self::Here { .. }
            | Self::IsMoving { .. }
            | Self::Joining { .. }
            | Self::LockWaitExpired
            | Self::NoVote { .. }
            | Self::Overloaded { .. }
            | Self::SnapshotInDoubt { .. }
            | Self::SnapshotDisturbed { .. }
            | Self::Restarted { .. } => Advice::RetryLater,
            Self::Invalid(_) => Advice::GiveUp,
        }
    }
}
