//! Queries that fetch both versions of a document, and show either.

use bson::{Document, RawDocument, RawDocumentBuf};
use protocol::LockState;
use sd2v::{
    projection,
    stored::{lock_state, whole_lock_state},
};

use super::plain_projection::{is_picked, is_plain_projection};
use crate::{coordinator::request::query::Query, document, error::Result, options::Namespace};

/// The locks of a document that was fetched for the query: as a whole, or by its projection.
pub(crate) fn lock_of(query: &Query, locks: &Document) -> Result<LockState> {
    Ok(if query.projection.is_none() { whole_lock_state(locks)? } else { lock_state(locks)? })
}

/// Returns true if the query shows whole documents, or fields that can be picked from any version
/// without the server.
pub(crate) fn shows_either_version(query: &Query) -> bool {
    !query.is_for_locks && query.projection.as_ref().is_none_or(is_plain_projection)
}

/// The `find` of a query that shows either version, which brings both.
pub(crate) fn of_either_version(query: &Query, ns: &Namespace, filter: Document) -> Document {
    let mut find = query.to_find(ns, filter);
    if let Some(shown) = &query.projection {
        find.insert("projection", projection::with_both_versions(shown));
    }
    find
}

/// Returns what such a query shows of the unsafe version of a document, if it has one.
pub(crate) fn unsafe_answer(query: &Query, stored: &RawDocument) -> Result<Option<RawDocumentBuf>> {
    let Some(changed) = document::unsafe_version(stored) else { return Ok(None) };
    match query.projection.as_ref().filter(|projection| !projection.is_empty()) {
        None => Ok(Some(changed)),
        Some(projection) => document::picked(&changed, is_picked(projection)).map(Some),
    }
}
