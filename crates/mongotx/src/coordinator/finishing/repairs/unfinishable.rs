//! Committed documents that the server refuses to finish: while they were locked, another tool made
//! an index that cannot hold what they are to become (a text index and a `language` that is no
//! string, a compound index and two arrays, …).
//!
//! - Readers see the unsafe version: it is the latest that is committed
//!   ([`crate::coordinator::queries::pending::Settled::visible`]).
//! - Writers, and readers that have to lock the document, fail with an error that names document
//!   and index.
//! - Finishers and sweeps go on with the other documents. The record of the transaction stays:
//!   without it the document would be taken for an orphan.
//! - When the index is gone, any client that meets the document finishes it.

use bson::{Bson, Document, doc};
use protocol::TxId;
use sd2v::{names::WRITER, stored::lock_state, view, visible::Visible};

use super::Repairs;
use crate::{
    coordinator::{request::address::Address, stored::lock_fields::locks_only},
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Number of MongoDB's error code `CannotIndexParallelArrays`.
const PARALLEL_ARRAYS: i32 = 171;

/// Returns true if the server has looked at the document, and refused.
pub(crate) fn is_refused(error: &Error) -> bool {
    error.kind() == ErrorKind::Invalid
}

impl Repairs {
    /// The error that names the document and the index that stands in the way.
    pub(super) async fn unfinishable(&self, ns: &Namespace, id: &Bson, writer: TxId, refused: &Error) -> Error {
        let list = doc! {"listIndexes": &ns.coll, "cursor": {}};
        let indexes = self.server.collect(&ns.db, list, 1_000).await.unwrap_or_default();
        let names = suspects(&indexes, refused);
        let which = if names.is_empty() { "an index".to_owned() } else { format!("index {}", names.join(" or ")) };
        Error::not_finishable(
            format!(
                "{ns}, document {{_id: {id}}}, was changed by transaction {writer}, which is committed, and cannot be \
                 finished: {which} of the collection refuses what was committed ({refused}). It can be read and not \
                 written until that index is dropped"
            ),
            refused,
        )
    }

    /// Refuses a write that means one of the documents that these transactions cannot finish.
    ///
    /// # Errors
    /// The one of [`Repairs::unfinishable`], for the first of them.
    pub(crate) async fn refuse_unfinished(&self, ns: &Namespace, filter: &Document, writers: &[TxId]) -> Result<()> {
        let Some(unfinished) = Visible::of(writers.iter().copied()) else { return Ok(()) };
        let held = doc! {WRITER: unfinished.holds()};
        let key = self.catalog.shard_key(ns).await?;
        let matching = doc! {"$and": [held, view::pending_filter(filter, None, false)?]};
        let find = doc! {"find": &ns.coll, "filter": matching, "projection": locks_only(&key)};
        match self.server.find_first(ns, find).await? {
            Some(stored) => {
                self.clear_locks(ns, &Address::of(&stored, &key)?, &lock_state(&stored)?, None).await.map(drop)
            }
            None => Ok(()),
        }
    }
}

/// The names of the indexes that can have refused.
fn suspects(indexes: &[Document], refused: &Error) -> Vec<String> {
    let message = refused.to_string();
    let theirs = |name: &String| name != "_id_" && !name.starts_with("_mongotx_");
    let name = |index: &Document| index.get_str("name").unwrap_or_default().to_owned();
    let fields = |index: &Document| index.get_document("key").map(Document::len).unwrap_or_default();
    let of_kind = |kinds: &[&str]| -> Vec<String> {
        let has = |index: &&Document| {
            let values = index.get_document("key").ok().into_iter().flat_map(Document::values);
            values.filter_map(Bson::as_str).any(|kind| kinds.contains(&kind))
        };
        indexes.iter().filter(has).map(name).collect()
    };
    let named: Vec<String> =
        indexes.iter().map(name).filter(|name| message.contains(&format!("index: {name} "))).collect();
    let by_kind = match refused.code() {
        _ if !named.is_empty() => named,
        Some(PARALLEL_ARRAYS) => indexes.iter().filter(|index| fields(index) > 1).map(name).filter(theirs).collect(),
        _ if message.contains("language") => of_kind(&["text"]),
        _ if message.contains("geo") => of_kind(&["2d", "2dsphere"]),
        _ => Vec::new(),
    };
    if by_kind.is_empty() { indexes.iter().map(name).filter(theirs).collect() } else { by_kind }
}
