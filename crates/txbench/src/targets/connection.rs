//! Options of a target's connection and of its transactions: level, durability, waits. They are the
//! same for all targets of a comparison.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of server that a target runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Deployment {
    /// A mongod that is no member of a replica set: it has no transactions of its own.
    Standalone,
    /// A replica set of so many nodes.
    ReplicaSet(u8),
}

/// Number of nodes that must have a write before a commit is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Acknowledged {
    /// So many nodes, the primary included.
    Nodes(u8),
    /// A majority of the nodes.
    #[default]
    Majority,
}

/// Durability that the answer to a commit waits for. The same for all targets of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Durability {
    /// Nodes that have the write.
    pub nodes: Acknowledged,
    /// True if these nodes must have the write in their journals on disk.
    pub journaled: bool,
}

impl Default for Durability {
    fn default() -> Self {
        Self { nodes: Acknowledged::Majority, journaled: true }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let journaled = self.journaled;
        match self.nodes {
            Acknowledged::Nodes(n) => write!(f, "{{w: {n}, j: {journaled}}}"),
            Acknowledged::Majority => write!(f, "{{w: \"majority\", j: {journaled}}}"),
        }
    }
}

/// The isolation that is asked of targets that have a choice.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// The level read committed.
    #[default]
    ReadCommitted,
    /// Repeatable read; snapshot where the target has no other.
    RepeatableRead,
    /// The level snapshot isolation.
    Snapshot,
    /// The level serializable.
    Serializable,
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Snapshot => "snapshot",
            Self::Serializable => "serializable",
        })
    }
}

/// Options of a target's connection. The same for all targets of a comparison but for the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Connection {
    /// Connection string of the server.
    pub uri: String,
    /// A database of the measurement's own. All collections, those of the target's too, are in it.
    pub db: String,
    /// Sessions that will be open at once: the connection pool is made for that.
    pub sessions: u32,
    /// Durability that a commit waits for.
    pub durability: Durability,
    /// One of [`Traits::isolations`](super::Traits::isolations); a target without transactions
    /// ignores it.
    pub isolation: Isolation,
    /// Time that a write waits for a rival's lock before it is a conflict in milliseconds, with
    /// targets that wait.
    pub lock_wait_ms: u64,
}

impl Connection {
    /// A connection for so many sessions, with the defaults of everything else; writes do not wait
    /// for locks.
    pub fn new(uri: impl Into<String>, db: impl Into<String>, sessions: u32) -> Self {
        let (durability, isolation) = (Durability::default(), Isolation::default());
        Self { uri: uri.into(), db: db.into(), sessions, durability, isolation, lock_wait_ms: 0 }
    }
}

/// Options of one transaction of a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct TxOptions {
    /// A document that it reads for update ([`Find::for_update`](super::Find::for_update)) by its
    /// `_id`, whole, and then updates must not be changed by a rival in between (P4), whatever the
    /// isolation.
    pub no_lost_updates: bool,
    /// Another durability than the connection's.
    pub durability: Option<Durability>,
    /// Another isolation than the connection's.
    pub isolation: Option<Isolation>,
}
