//! A document that is found by any of its fields and locked by one statement: the fields of it that
//! are requested, and what is found.

use bson::{Document, doc};
use sd2v::names::WRITER;

use super::shown::Shown;
use crate::coordinator::asked::address::Address;

/// A document that was found, locked and changed.
pub(crate) struct Found {
    pub(crate) at: Address,
    /// The document as it was and as it is, if the caller needs it.
    pub(crate) shown: Option<Shown>,
    /// True if it is the first, in the query's order, of the documents that others see: the caller
    /// notes that as a read.
    pub(crate) is_first: bool,
}

/// Content of the answer that the caller needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked<'a> {
    /// The document is to be shown.
    pub(crate) is_shown: bool,
    /// No more than these fields of the stored document, the `_id` and the lock among them; `None`:
    /// all of it.
    pub(crate) fields: Option<&'a Document>,
    /// True if the caller can note that the document is the first that others see, and check it
    /// again at the commit.
    pub(crate) can_note_first: bool,
}

impl Asked<'_> {
    /// Fields of the stored document to ask the server for; `None`: the whole document.
    pub(super) fn stored_fields(&self) -> Option<Document> {
        if self.is_shown { self.fields.cloned() } else { Some(doc! {"_id": 1, WRITER: 1}) }
    }
}
