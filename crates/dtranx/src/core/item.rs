//! Keys, values and versions.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{id::TranxId, transaction::LimitError};

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 4 << 10;

/// The longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 20;

/// A key: any bytes, ordered by them, at most [`MAX_KEY_BYTES`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Bytes", into = "Bytes")]
pub struct Key(Bytes);

/// A value: any bytes, at most [`MAX_VALUE_BYTES`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Bytes", into = "Bytes")]
pub struct Value(Bytes);

/// What is stored under a key: the value, and the transaction that wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Item {
    /// The value.
    pub value: Value,
    /// The transaction that wrote it. An absent key has no version.
    pub version: TranxId,
}

/// What a key holds now, sent along with a refusal for the client's cache (section 4.1 of the paper).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Current {
    /// The key.
    pub key: Key,
    /// What it holds; `None` if it is absent.
    pub item: Option<Item>,
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

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
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

    /// Its bytes.
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
