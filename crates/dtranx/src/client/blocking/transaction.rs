//! One transaction of the blocking client, which waits for the asynchronous one's calls.

use bytes::Bytes;
use pollster::block_on;

use crate::client::{AsyncTransaction, Committed, Result, Scanned};
use crate::core::KeyRange;

/// A transaction. Dropping it is the same as [`Transaction::abort`]: no server knows of it before
/// the commit.
pub struct Transaction {
    pub(super) inner: AsyncTransaction,
}

impl Transaction {
    /// Reads the value of a key, as this transaction sees it.
    ///
    /// # Errors
    /// The key is too long, or its server does not answer.
    pub fn get(&mut self, key: impl Into<Bytes>) -> Result<Option<Bytes>> {
        block_on(self.inner.get(key))
    }

    /// Reads the values of several keys, in the order of the keys, with one request to each server,
    /// all at the same time.
    ///
    /// # Errors
    /// As for [`Transaction::get`].
    pub fn multi_get<K: Into<Bytes>>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Bytes>>> {
        block_on(self.inner.multi_get(keys))
    }

    /// Lets a key hold a value from the commit on.
    ///
    /// # Errors
    /// Key or value are too long.
    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<()> {
        self.inner.put(key, value)
    }

    /// Deletes a key at the commit, whether it is there or not.
    ///
    /// # Errors
    /// The key is too long.
    pub fn delete(&mut self, key: impl Into<Bytes>) -> Result<()> {
        self.inner.delete(key)
    }

    /// The keys of a range, in order, at most `limit`, as this transaction sees them. The commit
    /// also checks that no key has come in between.
    ///
    /// # Errors
    /// `limit` is 0 or beyond what a transaction may hold, or a server does not answer.
    pub fn scan(&mut self, range: KeyRange, limit: usize) -> Result<Scanned> {
        block_on(self.inner.scan(range, limit))
    }

    /// As [`Transaction::scan`], over the keys that begin with `prefix`.
    ///
    /// # Errors
    /// The prefix is too long, and as for [`Transaction::scan`].
    pub fn scan_prefix(&mut self, prefix: impl Into<Bytes>, limit: usize) -> Result<Scanned> {
        block_on(self.inner.scan_prefix(prefix, limit))
    }

    /// Aborts the transaction: drops its reads and writes. Sends nothing.
    pub fn abort(self) {}

    /// Commits the transaction: at one instant, everything that it read still holds, and everything
    /// that it writes is there.
    ///
    /// # Errors
    /// [`crate::client::Error::Refused`]: the transaction is not committed.
    /// [`crate::client::Error::Unknown`]: it may be. Others: it is not.
    pub fn commit(self) -> Result<Committed> {
        block_on(self.inner.commit())
    }
}
