//! Storage of a server: ordered keys, each with a value and the version that it was written with
//! (section 4.3).
//!
//! [`Lsm`] keeps it on a disk, behind a write-through cache (section 4.1); [`InMemory`] keeps it in
//! memory. [`History`] keeps what was replaced, for snapshots. A version is the id of the
//! transaction that wrote the item; the paper counts versions up, which would make a deleted and
//! rewritten key look unchanged.
//!
//! Nothing here locks: the protocol's locks ensure that no transaction writes what another one
//! checks.

mod cache;
mod history;
mod lsm;
mod memory;
pub(crate) mod remains;
#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::core::{CheckAnswer, Current, Item, Key, KeyRange, Read, ScanRead, StoreId, TranxId, Write};

pub use history::{FoundAt, History, HistoryLimits, TooOld};
pub use lsm::{Lsm, LsmOptions};
pub(crate) use lsm::{OwnerMismatch, belongs, stored_item, stored_key};
pub use memory::InMemory;

/// Bytes of items that a check has in memory at once, about: more than any one item.
const CHECK_PAGE_BYTES: usize = 4 << 20;
/// The most bytes of values that a refused check sends along for the client's cache.
const PIGGYBACK_LIMIT_BYTES: usize = 256 << 10;

/// Error of a storage. After a failed write the server ends: its log has what the storage has not.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The engine reported an error; a full disk among others.
    #[error("the storage in {folder} cannot {action}: {message}")]
    Engine {
        /// Folder in which the storage is.
        folder: String,
        /// Action that failed, as a verb.
        action: &'static str,
        /// Message of the storage engine, for people.
        message: String,
    },
    /// The bytes that are stored under a key are no item.
    #[error("the stored item of key {key:?} is damaged: {what}")]
    Damaged {
        /// Key under which the damaged bytes are stored.
        key: Vec<u8>,
        /// Kind of the damage, for people.
        what: String,
    },
    /// The folder was written by another server, or in another format.
    #[error("the storage in {folder} has {field} {found}, not {expected}")]
    Foreign {
        /// Folder in which the storage is.
        folder: String,
        /// Name of the field: `format version` or `server`.
        field: &'static str,
        /// Value that the storage has in this field.
        found: u16,
        /// Value that it should have.
        expected: u16,
    },
    /// The folder belongs to another store of the same server.
    #[error("the storage in {folder} belongs to the store {found}, not to the store {expected}")]
    OtherStore {
        /// Folder in which the storage is.
        folder: String,
        /// The store that it has.
        found: StoreId,
        /// The store that it should have.
        expected: StoreId,
    },
    /// The storage of a store that was in use is not there.
    #[error("the items are gone: there is no storage in {folder}, although the store was in use")]
    Lost {
        /// Folder in which the storage was looked for.
        folder: String,
    },
}

/// Result of the functions of this module.
pub type Result<T, E = StorageError> = std::result::Result<T, E>;

/// Items that a scan has found in a storage, and whether it was read to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The items, in the order of their keys.
    pub items: Vec<(Key, Item)>,
    /// True if the whole range was read. If not, it was read up to and with the last key.
    pub complete: bool,
}

/// Limits at which one scan stops before the end of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanLimit {
    /// Greatest number of items that the scan returns.
    pub items: usize,
    /// Bytes of keys and values from which on no further item is added.
    pub bytes: usize,
}

/// A storage. All methods may be called from several threads at once.
pub trait Storage: Send + Sync {
    /// Item of a key.
    ///
    /// # Errors
    /// The engine fails, or what it holds is damaged.
    fn get(&self, key: &Key) -> Result<Option<Item>>;

    /// Item of a key, if it is known without waiting for a disk.
    fn cached(&self, key: &Key) -> Option<Option<Item>>;

    /// Items of a range, in the order of the keys, up to a limit.
    ///
    /// # Errors
    /// As for [`Storage::get`].
    fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<Found>;

    /// As [`Storage::scan`], without the server's map ([`Key::of_map`]), which is no client's
    /// item.
    ///
    /// # Errors
    /// As for [`Storage::get`].
    fn scan_items(&self, range: &KeyRange, limit: ScanLimit) -> Result<Found> {
        let map = Key::of_map();
        if !range.contains(&map) {
            return self.scan(range, limit);
        }
        let mut found = self.scan(range, ScanLimit { items: limit.items.saturating_add(1), ..limit })?;
        found.items.retain(|(key, _)| *key != map);
        if found.items.len() > limit.items {
            found.items.truncate(limit.items);
            found.complete = false;
        }
        Ok(found)
    }

    /// Does the writes of some transactions, whose ids are their versions, in this order: all, even
    /// after a crash, or none. Not durable before [`Storage::persist`]. May be repeated.
    ///
    /// # Errors
    /// The engine fails; whether the writes were done is then not known.
    fn apply(&self, commits: &[(TranxId, Vec<Write>)]) -> Result<()>;

    /// Makes everything that was applied durable.
    ///
    /// # Errors
    /// The engine fails.
    fn persist(&self) -> Result<()>;

    /// Checks that the keys have the versions that were read, and that the scans find the keys and
    /// versions that they found.
    ///
    /// # Errors
    /// As for [`Storage::get`].
    fn check(&self, reads: &[Read], scans: &[ScanRead]) -> Result<CheckAnswer> {
        let mut comparison = Comparison::default();
        for read in reads {
            comparison.compare(read, self.get(&read.key)?);
        }
        let mut answer = comparison.answer;
        for scan in scans {
            answer.stale_scans |= !self.finds_the_same(scan)?;
        }
        Ok(answer)
    }

    /// Returns true if a scan finds the keys and versions that it found, which are compared page by
    /// page: all values at once may be as large as the storage.
    ///
    /// # Errors
    /// As for [`Storage::get`].
    fn finds_the_same(&self, scan: &ScanRead) -> Result<bool> {
        let (mut rest, mut expected) = (scan.range.clone(), scan.found.iter());
        loop {
            // One more than there should be, to see what has come in between.
            let limit = ScanLimit { items: expected.len() + 1, bytes: CHECK_PAGE_BYTES };
            let page = self.scan_items(&rest, limit)?;
            let is_expected = |(key, item): &(Key, Item)| {
                expected.next().is_some_and(|(expected, version)| key == expected && item.version == *version)
            };
            if !page.items.iter().all(is_expected) {
                return Ok(false);
            }
            let behind = page.items.last().and_then(|(last, _)| last.successor());
            let Some(start) = behind.filter(|_| !page.complete) else { return Ok(expected.len() == 0) };
            rest.start = start;
        }
    }

    /// The same check without scans, if it can be done without waiting for a disk.
    fn check_cached(&self, reads: &[Read]) -> Option<CheckAnswer> {
        let mut comparison = Comparison::default();
        for read in reads {
            comparison.compare(read, self.cached(&read.key)?);
        }
        Some(comparison.answer)
    }
}

/// A check under way: gathers what has changed.
#[derive(Default)]
struct Comparison {
    answer: CheckAnswer,
    bytes: usize,
}

impl Comparison {
    fn compare(&mut self, read: &Read, item: Option<Item>) {
        if item.as_ref().map(|item| item.version) == read.version {
            return;
        }
        self.bytes += item.as_ref().map_or(0, |item| item.value.as_bytes().len());
        // The first is always in the answer: without it the check would seem to have passed.
        if self.answer.stale.is_empty() || self.bytes <= PIGGYBACK_LIMIT_BYTES {
            self.answer.stale.push(Current { key: read.key.clone(), item });
        }
    }
}

/// A scan under way: stops at its limit, and knows whether it did.
struct Gather {
    limit: ScanLimit,
    bytes: usize,
    items: Vec<(Key, Item)>,
}

impl Gather {
    const fn new(limit: ScanLimit) -> Self {
        Self { limit, bytes: 0, items: Vec::new() }
    }

    /// Takes an item; `false` when the limit had been reached before.
    fn push(&mut self, key: Key, item: Item) -> bool {
        if self.items.len() >= self.limit.items || self.bytes >= self.limit.bytes {
            return false;
        }
        self.bytes += key.as_bytes().len() + item.value.as_bytes().len();
        self.items.push((key, item));
        true
    }

    fn cut_off(self) -> Found {
        Found { items: self.items, complete: false }
    }

    fn complete(self) -> Found {
        Found { items: self.items, complete: true }
    }
}
