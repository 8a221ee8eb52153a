//! A document that is found by any of its fields and locked by one statement: the fields of it that
//! are requested, and what is found.

use bson::{Document, doc};
use sd2v::names::WRITER;

use super::returning_write::DocumentImages;
use crate::coordinator::request::address::Address;

/// A document that was found, locked and changed.
pub(crate) struct FoundDocument {
    pub(crate) at: Address,
    /// The document as it was and as it is, if the caller needs it.
    pub(crate) shown: Option<DocumentImages>,
    pub(crate) rank: SortRank,
}

/// What is known of the rank of a document in the order of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SortRank {
    /// The rank does not matter: the query has no order, or no other document matches.
    Any,
    /// The first of the documents that others see, unless another one has become the first by a
    /// commit that is not finished. The caller makes sure of that, now or at the commit.
    SeemsFirst,
    /// The first of the documents that others see (decision 0072).
    First,
}

/// Content of the answer that the caller needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NeededAnswer<'a> {
    /// The document is to be shown.
    pub(crate) is_shown: bool,
    /// No more than these fields of the stored document, the `_id` and the lock among them; `None`:
    /// all of it.
    pub(crate) fields: Option<&'a Document>,
    /// True if the caller can make sure that the document is the first that others see.
    pub(crate) can_check_first: bool,
}

impl NeededAnswer<'_> {
    /// Fields of the stored document to ask the server for; `None`: the whole document.
    pub(super) fn stored_fields(&self) -> Option<Document> {
        if self.is_shown { self.fields.cloned() } else { Some(doc! {"_id": 1, WRITER: 1}) }
    }
}
