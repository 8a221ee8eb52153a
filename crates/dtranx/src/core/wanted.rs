//! Items that a transaction wants locked.

use std::collections::BTreeSet;

use crate::core::{
    id::WorkId,
    item::Key,
    range::{KeyRange, Ranges},
    transaction::{Transaction, Write},
};

/// Items that a transaction wants locked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Locks {
    /// Keys that it read and does not write.
    pub(crate) shared: Vec<Key>,
    /// Ranges that it scanned.
    pub(crate) ranges: Ranges,
    /// Keys that it writes.
    pub(crate) exclusive: Vec<Key>,
    /// Range that it gives to another server: no other transaction may hold or ask for anything
    /// in it.
    pub(crate) fence: Option<KeyRange>,
}

/// Options of a part's lock request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    /// Time of the first attempt, as in [`Standing::since_ms`](crate::core::Standing::since_ms).
    pub(crate) since_ms: u64,
    /// True if the transaction has locked nothing on other servers.
    pub(crate) is_alone: bool,
    /// True if its locks will be kept for the next attempt.
    pub(crate) keeps: bool,
    /// True if it waits for keys that it only read. Otherwise it is refused at once: the
    /// transaction that is changing them makes it stale.
    pub(crate) waits_to_read: bool,
    /// The attempt whose locks were kept for this one.
    pub(crate) kept: Option<WorkId>,
    /// True if the request comes from another server.
    pub(crate) is_of_peer: bool,
    /// A flaw: it takes the locks of that attempt although they were not kept.
    pub(crate) takes_any: bool,
}

impl Locks {
    /// Items that a part of a transaction needs locked.
    pub(crate) fn of(part: &Transaction) -> Self {
        let exclusive = exclusive(&part.writes);
        let written: BTreeSet<&Key> = exclusive.iter().collect();
        let shared = part.reads.iter().map(|read| &read.key).filter(|key| !written.contains(key)).cloned().collect();
        let ranges = part.scans.iter().map(|scan| scan.range.clone()).collect();
        Self { shared, ranges, exclusive, fence: None }
    }

    /// A key of these locks, or the start of one of their ranges, that is in `range` or meets it.
    pub(crate) fn within(&self, range: &KeyRange) -> Option<Key> {
        let meeting = self.ranges.iter().chain(&self.fence).find(|mine| mine.meets(range)).map(|mine| &mine.start);
        let mut keys = self.shared.iter().chain(&self.exclusive);
        keys.find(|key| range.contains(key)).or(meeting).cloned()
    }
}

/// The keys of writes.
pub(crate) fn exclusive(writes: &[Write]) -> Vec<Key> {
    writes.iter().map(|write| write.key.clone()).collect()
}
