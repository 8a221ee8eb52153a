//! Generations of the stores that a client's servers have. A cluster that is made anew, with the
//! same name and addresses, has others: what the client has read and heard before says nothing
//! about them, and their versions may be the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Count of the times at which a server turned out to have another store than before. A link counts
/// before it sends anything to that store.
#[derive(Clone, Debug, Default)]
pub(super) struct Stores {
    replaced: Arc<AtomicU64>,
}

/// The stores of a cluster between two such times. What a request brought that was sent in this
/// generation is of these stores, if they are still the same when the answer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Generation(u64);

impl Stores {
    pub(super) fn generation(&self) -> Generation {
        Generation(self.replaced.load(Ordering::Acquire))
    }

    /// Counts a server that has another store than before.
    pub(super) fn replaced(&self) {
        self.replaced.fetch_add(1, Ordering::AcqRel);
    }
}
