//! Details of an error besides its kind and its message: the rival of a conflict, the key of a
//! duplicate, the refused writes of a bulk, and what was done before an error.

use bson::{Bson, Document};
use protocol::TxId;
use sd2v::index::shown_key;

use super::Error;
use crate::namespace::Namespace;

/// The document and the other transaction of an [`crate::ErrorKind::Conflict`].
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// Namespace of the document that both transactions want.
    pub namespace: Namespace,
    /// `_id` of the document that both want.
    pub id: Bson,
    /// Transaction that holds the document.
    pub rival: TxId,
}

/// The key of a duplicate-key error: another document has it already.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DuplicateKey {
    /// Key pattern of the unique index.
    pub pattern: Document,
    /// Values of the key, by field.
    pub value: Document,
    /// True if the mirrored index found the key in another document's unsafe version.
    pub(crate) pending: bool,
}

impl DuplicateKey {
    #[cfg(test)]
    pub(crate) fn of_value(value: Document) -> Self {
        Self { value, ..Self::default() }
    }

    /// Reads the key from `keyPattern` and `keyValue` of the server's error.
    pub(crate) fn read(error: &Document) -> Option<Self> {
        let (pattern, pending) = shown_key(error.get_document("keyPattern").ok()?);
        let (value, _) = error.get_document("keyValue").map(shown_key).unwrap_or_default();
        Some(Self { pattern, value, pending })
    }
}

/// One refused document of a write of several, as in MongoDB's `writeErrors`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WriteError {
    /// Position of the document or write in the request, from 0.
    pub index: usize,
    /// Error code of the server, 0 if there is none.
    pub code: i32,
    /// Message that says why the write was refused.
    pub message: String,
    /// The error itself, with its kind.
    pub error: Error,
}

impl WriteError {
    pub(crate) fn new(index: usize, error: Error) -> Self {
        Self { index, code: error.code().unwrap_or(0), message: error.to_string(), error }
    }
}

/// A write that a server has done and may lose again, because too few members of its replica set
/// have it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Unreplicated {
    /// The server's document `writeConcernError`, which says why the write concern is not met.
    pub concern_error: Document,
    /// The server's whole answer, with the counts of what it has done.
    pub answer: Document,
}

/// Counts of what a write of several documents had done when it stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of documents that were inserted.
    pub inserted: u64,
    /// Number of documents that matched.
    pub matched: u64,
    /// Number of documents that were modified.
    pub modified: u64,
    /// Number of documents that were deleted.
    pub deleted: u64,
    /// Number of documents inserted by upserts.
    pub upserted: u64,
}
