//! The documents of a side's collection: all sides have the same, so that their operations cost the
//! server the same.

use bson::{Document, doc};

/// Number of documents in a side's collection.
pub(crate) const DOCUMENTS: i32 = 10_000;
/// Number of documents in a group, which one query finds.
pub(crate) const GROUP: i32 = 100;
/// Size of the greatest part of each document, in bytes.
pub(crate) const NOTE_BYTES: usize = 200;
/// The collection of batches, which is emptied after each turn.
pub(crate) const BATCHES: &str = "batches";

/// The documents of a side's collection.
pub(crate) fn documents() -> impl Iterator<Item = Document> {
    (0..DOCUMENTS).map(|id| doc! {"_id": id, "group": id / GROUP, "n": 0, "note": note()})
}

/// The greatest part of a document.
pub(super) fn note() -> String {
    "x".repeat(NOTE_BYTES)
}
