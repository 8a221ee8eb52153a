//! Keys, values and versions, and the limits of these and of transactions.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::id::TranxId;

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 4 << 10;

/// The longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 20;

/// The most reads, writes, scans and keys found by scans in one transaction, together.
pub const MAX_TRANSACTION_ITEMS: usize = 1_000;

/// The most bytes of keys and values in one transaction.
pub const MAX_TRANSACTION_BYTES: usize = 8 << 20;

/// The most parts into which the scans of one transaction are cut where ranges have moved.
pub const MAX_PARTS: usize = 8192;

/// The most bytes of a transaction whose scans are cut into parts, with the keys that bound these.
/// What a server logs of it, or is sent, fits into a record of the log and into a frame.
pub const MAX_CUT_BYTES: usize = 12 << 20;

/// The key under which a server keeps its map of keys to servers, which no client may use.
const MAP_KEY: &[u8] = b"\xff\xffdtranx.map";

/// A key: any bytes, ordered by them, at most [`MAX_KEY_BYTES`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Bytes", into = "Bytes")]
pub struct Key(Bytes);

/// A value: any bytes, at most [`MAX_VALUE_BYTES`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Bytes", into = "Bytes")]
pub struct Value(Bytes);

/// Item stored under a key: the value, and the transaction that wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Item {
    /// Value that is stored under the key.
    pub value: Value,
    /// The transaction that wrote it. An absent key has no version.
    pub version: TranxId,
}

/// Current item of a key, sent along with a refusal for the client's cache (section 4.1 of the
/// paper).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Current {
    /// Key that the current item, or its absence, belongs to.
    pub key: Key,
    /// Item under the key; `None` if the key is absent.
    pub item: Option<Item>,
}

/// A transaction, key or value that is too large, or a transaction that contradicts itself. It can
/// never be committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LimitError {
    /// A key is longer than [`MAX_KEY_BYTES`].
    #[error("the key has {bytes} bytes; the limit is {MAX_KEY_BYTES}")]
    KeyTooLong {
        /// The length of the key.
        bytes: usize,
    },
    /// A value is longer than [`MAX_VALUE_BYTES`].
    #[error("the value has {bytes} bytes; the limit is {MAX_VALUE_BYTES}")]
    ValueTooLong {
        /// The length of the value.
        bytes: usize,
    },
    /// The transaction has more items than [`MAX_TRANSACTION_ITEMS`], or more parts of scans than
    /// [`MAX_PARTS`].
    #[error(
        "the transaction has {items} reads, writes, scans and scanned keys, or parts of scans; the limits are \
         {MAX_TRANSACTION_ITEMS} and {MAX_PARTS}"
    )]
    TooManyItems {
        /// Number of reads, writes, scans and scanned keys, or of parts of scans.
        items: usize,
    },
    /// The transaction is larger than [`MAX_TRANSACTION_BYTES`], or its parts than
    /// [`MAX_CUT_BYTES`].
    #[error(
        "the keys and values of the transaction have {bytes} bytes; the limit is {MAX_TRANSACTION_BYTES}, and \
         {MAX_CUT_BYTES} with the keys at which its scans are cut into parts"
    )]
    TooManyBytes {
        /// Size of the transaction, in bytes.
        bytes: usize,
    },
    /// A key is read or written twice.
    #[error("the transaction names the key {key:?} twice among its {list}")]
    KeyTwice {
        /// Key that stands there twice.
        key: Key,
        /// Name of the list: `reads` or `writes`.
        list: String,
    },
    /// A scan found a key outside of its range, or keys out of order.
    #[error("the scan did not find the key {key:?} in order and within its range")]
    ScanOutOfOrder {
        /// Key that another server holds.
        key: Key,
    },
    /// A key that the servers use themselves.
    #[error("the key {key:?} is reserved for the servers' maps")]
    Reserved {
        /// Reserved key that the transaction reads or writes.
        key: Key,
    },
    /// A move of a range that is none.
    #[error("not a move: {why}")]
    Move {
        /// Reason why it is none.
        why: String,
    },
    /// A map with too many ranges, or too many bytes of keys.
    #[error("the map would have {ranges} ranges; the limits are 4096 ranges and 1 MiB")]
    Map {
        /// Number of the map's ranges.
        ranges: usize,
    },
}

impl Key {
    /// A key of these bytes.
    ///
    /// # Errors
    /// [`LimitError::KeyTooLong`].
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, LimitError> {
        let bytes = bytes.into();
        if bytes.len() > MAX_KEY_BYTES { Err(LimitError::KeyTooLong { bytes: bytes.len() }) } else { Ok(Self(bytes)) }
    }

    /// The smallest key: no bytes.
    pub const fn smallest() -> Self {
        Self(Bytes::new())
    }

    /// The key under which a server keeps its map of keys to servers.
    pub const fn of_map() -> Self {
        Self(Bytes::from_static(MAP_KEY))
    }

    /// The key as bytes, in the order by which keys compare.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The smallest key after it, if there is one.
    pub fn successor(&self) -> Option<Self> {
        let mut bytes = self.0.to_vec();
        if bytes.len() < MAX_KEY_BYTES {
            bytes.push(0);
            return Some(Self(bytes.into()));
        }
        // None is longer, so that it is another one of the same length or shorter.
        while bytes.last() == Some(&u8::MAX) {
            bytes.pop();
        }
        *bytes.last_mut()? += 1;
        Some(Self(bytes.into()))
    }
}

impl Value {
    /// A value of these bytes.
    ///
    /// # Errors
    /// [`LimitError::ValueTooLong`].
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, LimitError> {
        let bytes = bytes.into();
        let len = bytes.len();
        if len > MAX_VALUE_BYTES { Err(LimitError::ValueTooLong { bytes: len }) } else { Ok(Self(bytes)) }
    }

    /// The value as the bytes that the application has written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<Bytes> for Key {
    type Error = LimitError;

    fn try_from(bytes: Bytes) -> Result<Self, LimitError> {
        Self::new(bytes)
    }
}

impl TryFrom<Bytes> for Value {
    type Error = LimitError;

    fn try_from(bytes: Bytes) -> Result<Self, LimitError> {
        Self::new(bytes)
    }
}

impl From<Key> for Bytes {
    fn from(key: Key) -> Self {
        key.0
    }
}

impl From<Value> for Bytes {
    fn from(value: Value) -> Self {
        value.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn successor_is_the_smallest_key_after() {
        let key = |bytes: &[u8]| Key::new(bytes.to_vec()).unwrap();
        assert_eq!(key(b"a").successor(), Some(key(b"a\0")));
        let mut longest = vec![b'a'; MAX_KEY_BYTES];
        let mut next = longest.clone();
        next[MAX_KEY_BYTES - 1] = b'b';
        assert_eq!(key(&longest).successor(), Some(key(&next)));
        longest[1..].fill(u8::MAX);
        assert_eq!(key(&longest).successor(), Some(key(b"b")));
        assert_eq!(key(&[u8::MAX; MAX_KEY_BYTES]).successor(), None);
    }
}
