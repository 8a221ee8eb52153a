//! Properties and abilities of targets: for the report, and for the checks before a run.

use std::fmt;

use super::{Durability, Isolation};
use crate::error::BenchError;

/// Something that a workload may need and a target may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// Work of any kind. A target without it is for moving amounts between documents: transfers and
    /// the bank.
    General,
    /// A unique index on another field than `_id`.
    UniqueIndex,
    /// Inserting and deleting documents in a transaction.
    Insert,
    /// Reads of a range of `_id`s, in their order, with a limit.
    Range,
    /// Reads and updates by other fields than `_id`, with sort, limit and projection.
    Query,
    /// Aggregation pipelines, run by [`Session::aggregate`](super::Session::aggregate).
    Aggregate,
    /// `$near` on a `2dsphere` index.
    Near,
    /// Reads that change with the transaction's own writes.
    OwnWrites,
}

impl Feature {
    /// Features of a target that passes everything on to a server.
    pub(super) const ALL: &'static [Self] = &[
        Self::General,
        Self::UniqueIndex,
        Self::Insert,
        Self::Range,
        Self::Query,
        Self::Aggregate,
        Self::Near,
        Self::OwnWrites,
    ];
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::General => "do other work than moving amounts between documents",
            Self::UniqueIndex => "keep a unique index",
            Self::Insert => "insert documents in a transaction",
            Self::Range => "read ranges of _id in their order",
            Self::Query => "query by other fields than _id",
            Self::Aggregate => "aggregate",
            Self::Near => "search by distance",
            Self::OwnWrites => "read its own writes",
        })
    }
}

/// Properties of a target, for the report and for the checks before a run.
#[derive(Clone, Debug)]
pub struct Traits {
    /// Name of the target in `--targets`.
    pub name: &'static str,
    /// Description of the target, in one line.
    pub about: &'static str,
    /// True if several operations happen all or not at all, and rivals see nothing of them before.
    pub transactional: bool,
    /// True if the target needs a replica set.
    pub needs_replica_set: bool,
    /// True if it runs on DTranx, and not on a server of MongoDB.
    pub on_dtranx: bool,
    /// The levels that its transactions can have; none where transactions are not isolated.
    pub isolations: &'static [Isolation],
    /// True if a write can wait for a rival's lock
    /// ([`Connection::lock_wait_ms`](super::Connection::lock_wait_ms)); with others it is a
    /// conflict at once, or there are no locks.
    pub waits: bool,
    /// True if it is the commit that waits until all is durable; if not, every single write does.
    pub commit_waits: bool,
    /// True if an answer can come before a write is in the journal.
    pub unjournaled: bool,
    /// Features that the target has.
    pub features: &'static [Feature],
}

impl Traits {
    /// Checks that a transaction can have this level. A target without transactions has no levels,
    /// and ignores it.
    ///
    /// # Errors
    /// [`BenchError::Refused`], with the possible levels.
    pub fn check_isolation(&self, level: Isolation) -> Result<(), BenchError> {
        if self.isolations.is_empty() || self.isolations.contains(&level) {
            return Ok(());
        }
        let possible: Vec<String> = self.isolations.iter().map(Isolation::to_string).collect();
        Err(BenchError::Refused(format!(
            "{}: {level} cannot be had (--isolation, --tx-isolation, or what the workload asks for), {} can",
            self.name,
            possible.join(", ")
        )))
    }

    /// Checks that answers can be as durable as this, on a server with nodes enough.
    ///
    /// # Errors
    /// [`BenchError::Refused`], with the possible durability.
    pub fn check_durability(&self, durability: Durability) -> Result<(), BenchError> {
        if durability.journaled || self.unjournaled {
            return Ok(());
        }
        let possible = Durability { journaled: true, ..durability };
        Err(BenchError::Refused(format!(
            "{}: {durability} cannot be had, for a commit is always in the journal; {possible} can (--journal true, or a \
             --tx-write-concern without /unjournaled)",
            self.name
        )))
    }
}
