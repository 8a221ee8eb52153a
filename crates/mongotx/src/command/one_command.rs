//! A query answered by one command when nothing is pending.
//!
//! One pipeline looks for pending documents that the query could have to see, and only then (`$unionWith` runs its
//! pipeline after the first is exhausted) for the answer itself. A pending document puts a mark before the answer; then
//! the answer is thrown away and the query goes the long way. Without the mark, nothing relevant was pending when the
//! answer began, so the safe versions are the latest.

use bson::{Bson, Document, doc};
use protocol::TxId;
use sd2v::{names::UNSAFE, projection, view};

use super::query::{Documents, Query};
use crate::{coordinator::Core, error::Result, options::Namespace};

/// `None`: something is pending, or the query has parts that an aggregation cannot take over.
pub(crate) async fn find(core: &Core, ns: &Namespace, query: &Query, me: Option<TxId>) -> Result<Option<Documents>> {
    if query.projection.as_ref().is_some_and(projection::is_find_only) {
        return Ok(None);
    }
    let mut tail = Vec::new();
    if let Some(sort) = query.sort.as_ref().filter(|sort| !sort.is_empty()) {
        tail.push(doc! {"$sort": sort.clone()});
    }
    tail.extend(skip_and_limit(query));
    if let Some(projection) = query.projection.as_ref().filter(|projection| !projection.is_empty()) {
        tail.extend(projection::as_stages(projection)?);
    }
    run(core, ns, query, me, tail).await
}

/// The stages that pass over documents and stop.
pub(crate) fn skip_and_limit(query: &Query) -> Vec<Document> {
    let skip = (query.skip > 0).then(|| doc! {"$skip": query.skip as i64});
    let limit = (query.limit > 0).then(|| doc! {"$limit": query.limit as i64});
    skip.into_iter().chain(limit).collect()
}

/// The query's filter and these stages after it, in one command.
pub(crate) async fn run(
    core: &Core,
    ns: &Namespace,
    query: &Query,
    me: Option<TxId>,
    tail: Vec<Document>,
) -> Result<Option<Documents>> {
    // A hint would bind the first part only; a filter on whole documents would see their locks.
    if query.terms.hint.is_some() || query.terms.variables.is_some() || query.sees_lock_fields() {
        return Ok(None);
    }
    if !core.catalog.ensure_pending_index(&core.server, ns).await? {
        return Ok(None);
    }
    let mut answer = vec![doc! {"$match": view::without_pending_inserts(&query.filter)}];
    answer.extend(tail);
    let pipeline = vec![
        doc! {"$match": view::pending_filter(&query.filter, me)?},
        doc! {"$limit": 1},
        doc! {"$replaceWith": {UNSAFE: {"$literal": true}}},
        doc! {"$unionWith": {"coll": &ns.coll, "pipeline": answer}},
    ];
    let mut command = doc! {"aggregate": &ns.coll, "pipeline": pipeline, "cursor": {}, "allowDiskUse": true};
    if let Some(size) = query.batch_size {
        command.insert("cursor", doc! {"batchSize": i64::from(size)});
    }
    query.terms.add_to(&mut command);
    let mut answer = Documents::streaming(core.server.cursor(&ns.db, command).await?);
    match answer.peek().await? {
        Some(first) if is_mark(first) => Ok(None),
        _ => Ok(Some(answer)),
    }
}

fn is_mark(document: &Document) -> bool {
    document.get(UNSAFE) == Some(&Bson::Boolean(true))
}
