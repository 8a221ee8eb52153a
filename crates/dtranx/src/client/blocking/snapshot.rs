//! One snapshot of the blocking client, which waits for the asynchronous one's calls.

use bytes::Bytes;
use pollster::block_on;

use crate::client::{AsyncSnapshot, Result, Scanned};
use crate::core::{Epoch, KeyRange};

/// The whole cluster as it was at one moment: see [`AsyncSnapshot`].
#[derive(Clone)]
pub struct Snapshot {
    pub(super) inner: AsyncSnapshot,
}

impl Snapshot {
    /// Number of the snapshot: a later one has the same or a larger number.
    pub const fn epoch(&self) -> Epoch {
        self.inner.epoch()
    }

    /// Reads the value that a key held at the snapshot's moment.
    ///
    /// # Errors
    /// The key is too long; its server does not answer, or keeps this snapshot no longer.
    pub fn get(&self, key: impl Into<Bytes>) -> Result<Option<Bytes>> {
        block_on(self.inner.get(key))
    }

    /// Reads the values that several keys held, in the order of the keys, with one request to each
    /// server, all at the same time.
    ///
    /// # Errors
    /// As for [`Snapshot::get`].
    pub fn multi_get<K: Into<Bytes>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Bytes>>> {
        block_on(self.inner.multi_get(keys))
    }

    /// The keys of a range, in order, at most `limit`: any number, as many as there is room for.
    ///
    /// # Errors
    /// `limit` is 0, or as for [`Snapshot::get`].
    pub fn scan(&self, range: &KeyRange, limit: usize) -> Result<Scanned> {
        block_on(self.inner.scan(range, limit))
    }
}
