//! Aggregation stages that turn stored documents into the versions that a transaction may see.
//!
//! The caller names the transactions whose unsafe versions are visible: its own and, optionally,
//! committed ones that are not finished yet. All other documents show their safe versions. The
//! stages come in this order: [`select`] (which the server can answer from indexes), [`map`], then
//! the user's own filter, sort and so on, unchanged, because after the map the documents look
//! exactly as the application wrote them.

use bson::{Bson, Document, doc};
use protocol::TxId;

use crate::{
    error::Error,
    filter::{demands_a_field, easily_asked, guard_filter, rewrite_filter, weakened},
    names::{INSERT, REMOVE, RESERVED, UNSAFE, WRITER, tx_id_to_bson},
};

/// The condition that a document has no safe version: it only waits to be inserted. It must never
/// surface, be counted, sorted or used for skip and limit.
pub fn without_pending_inserts(filter: &Document) -> Document {
    let no_insert = doc! {INSERT: {"$exists": false}};
    if filter.is_empty() {
        no_insert
    } else {
        doc! {"$and": [guard_filter(filter), no_insert]}
    }
}

/// The filter for safe versions, as plain as it can be. `bare_inserts`: a document that waits to be
/// inserted has no field but its `_id`, so a filter that demands one leaves it out already, and the
/// server can answer from the index alone.
pub fn safe_filter(filter: &Document, bare_inserts: bool) -> Document {
    if bare_inserts && demands_a_field(filter) { guard_filter(filter) } else { without_pending_inserts(filter) }
}

/// Stored documents whose safe or unsafe version could match and which hold a write lock that is
/// not `mine`. Conditions that cannot be evaluated on both (an order by distance, `$text`, what
/// reads the document as a whole) are left out.
///
/// `two_indexes`: each of the two versions has a condition of its own, which pays where a mirrored
/// index answers for the unsafe one and much is pending; otherwise the index on pending documents
/// answers.
///
/// # Errors
/// As [`rewrite_filter`].
pub fn pending_filter(filter: &Document, mine: Option<TxId>, two_indexes: bool) -> Result<Document, Error> {
    let mut locked = doc! {"$exists": true};
    if let Some(mine) = mine {
        locked.insert("$ne", tx_id_to_bson(mine));
    }
    let locked = doc! {WRITER: locked};
    let filter = easily_asked(&weakened(filter));
    let rewritten = rewrite_filter(&filter)?;
    // On uncommitted versions, an expression could fail that does not fail on committed ones.
    if filter.is_empty() || guard_filter(&filter) != filter {
        return Ok(locked);
    }
    if !two_indexes {
        let mut pending = locked;
        pending.insert("$or", vec![filter, rewritten]);
        return Ok(pending);
    }
    let changed = doc! {UNSAFE: {"$exists": true}};
    Ok(doc! {"$or": [{"$and": [filter, locked.clone()]}, {"$and": [rewritten, locked, changed]}]})
}

/// The stages that find the transactions with pending documents, from a [`pending_filter`]: each
/// transaction once, under `_id`. Where any pending document will do, `mine` may be among them.
pub fn writers(pending: Document) -> Vec<Document> {
    let writer = format!("${WRITER}");
    if pending.len() == 1 && pending.contains_key(WRITER) {
        // The index alone answers, one step for each transaction.
        return vec![doc! {"$match": {WRITER: {"$gte": {}}}}, doc! {"$group": {"_id": writer}}];
    }
    // A stage in between keeps the server from planning match and group as one, anew for every
    // query.
    vec![doc! {"$match": pending}, doc! {"$replaceWith": {"writer": writer}}, doc! {"$group": {"_id": "$writer"}}]
}

/// The condition that a document has a visible version.
fn is_there(visible: &[Bson]) -> Document {
    doc! {"$nor": [
        {INSERT: true, WRITER: {"$nin": visible.to_vec()}},
        {REMOVE: true, WRITER: {"$in": visible.to_vec()}},
    ]}
}

/// The filter for documents of which the visible version matches, where it has no condition but on
/// the `_id`: that is the same in both versions, so that the index on it answers. [`map`] has to
/// follow.
pub fn visible_by_id(filter: &Document, visible: &[TxId]) -> Document {
    let visible: Vec<Bson> = visible.iter().copied().map(tx_id_to_bson).collect();
    doc! {"$and": [filter.clone(), is_there(&visible)]}
}

/// The first stage: every stored document of which the visible version could match the filter.
pub fn select(filter: &Document, visible: &[TxId]) -> Document {
    let visible: Vec<Bson> = visible.iter().copied().map(tx_id_to_bson).collect();
    let mut conditions = vec![is_there(&visible)];
    // An expression that reads the document as a whole would see the locks, too: it is left to the
    // stage after the map.
    let filter = easily_asked(filter);
    if !filter.is_empty() {
        conditions.push(doc! {"$or": [guard_filter(&filter), {WRITER: {"$in": visible}}]});
    }
    doc! {"$match": {"$and": conditions}}
}

/// The filter for safe versions of documents that are not `writer`'s.
pub fn safe_filter_beside(filter: &Document, writer: TxId, bare_inserts: bool) -> Document {
    let of_others = doc! {WRITER: {"$ne": tx_id_to_bson(writer)}};
    doc! {"$and": [safe_filter(filter, bare_inserts), of_others]}
}

/// The stages that replace each stored document by its visible version, `_id` first.
///
/// ```
/// use bson::doc;
/// use protocol::{ClientId, TxId};
/// use sd2v::view::{map, select};
///
/// // A transaction's own view: its unsafe versions, and the safe ones of all others.
/// let me = TxId { client: ClientId([1; 12]), seq: 7 };
/// let mut pipeline = vec![select(&doc! {"balance": {"$lt": 0}}, &[me])];
/// pipeline.extend(map(&[me]));
/// pipeline.push(doc! {"$match": {"balance": {"$lt": 0}}}); // the application's filter, unchanged
/// let stages: Vec<_> = pipeline.iter().flat_map(|stage| stage.keys()).collect();
/// assert_eq!(stages, ["$match", "$replaceWith", "$unset", "$match"]);
/// ```
pub fn map(visible: &[TxId]) -> Vec<Document> {
    let visible: Vec<Bson> = visible.iter().copied().map(tx_id_to_bson).collect();
    let is_visible = doc! {"$in": [format!("${WRITER}"), {"$literal": visible}]};
    let unsafe_version = doc! {"$mergeObjects": [{"_id": "$_id"}, format!("${UNSAFE}")]};
    vec![doc! {"$replaceWith": {"$cond": [is_visible, unsafe_version, "$$ROOT"]}}, doc! {"$unset": RESERVED.to_vec()}]
}
