//! What a transaction wants locked.

use std::collections::BTreeSet;

use crate::core::{
    item::Key,
    range::KeyRange,
    transaction::{Transaction, Write},
};

/// What a transaction wants locked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Locks {
    /// Keys that it read and does not write.
    pub(crate) shared: Vec<Key>,
    /// Ranges that it scanned.
    pub(crate) ranges: Vec<KeyRange>,
    /// Keys that it writes.
    pub(crate) exclusive: Vec<Key>,
}

impl Locks {
    /// What a part of a transaction needs locked.
    pub(crate) fn of(part: &Transaction) -> Self {
        let exclusive = exclusive(&part.writes);
        let written: BTreeSet<&Key> = exclusive.iter().collect();
        let shared = part.reads.iter().map(|read| &read.key).filter(|key| !written.contains(key)).cloned().collect();
        let ranges = part.scans.iter().map(|scan| scan.range.clone()).collect();
        Self { shared, ranges, exclusive }
    }
}

/// The keys of writes.
pub(crate) fn exclusive(writes: &[Write]) -> Vec<Key> {
    writes.iter().map(|write| write.key.clone()).collect()
}
