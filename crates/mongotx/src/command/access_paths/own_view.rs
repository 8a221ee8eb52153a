//! Queries in the view of a transaction with writes of its own, or of a reader that meets committed
//! documents that cannot be finished ([`crate::coordinator::finishing::repairs`]): each document is
//! mapped to its visible version first, then the rest of the query follows.
//!
//! An order by distance comes from an index, so each version is read through an index of its own,
//! and the two answers are merged. For words see [`text`].

use bson::{Document, doc};
use sd2v::{
    Visible,
    filter::{has_special, parts},
    geo::{GeoNear, Near, has_geo_index, hide_distance, sort_by_distance},
    projection,
};

use super::text;
use crate::{
    command::query::{
        documents::Documents,
        query_stages::{aggregation, own_command, skip_and_limit, visible_pipeline},
    },
    coordinator::{Core, request::query::Query},
    error::{Error, Result},
    options::Namespace,
};

/// NoQueryExecutionPlans: an order by distance without an index.
const NO_PLAN: i32 = 291;

/// The documents in the view of a transaction that sees `own` unsafe versions. (`None`: there are
/// none, but query or projection read whole documents.)
pub(crate) async fn find(core: &Core, own: Option<&Visible>, ns: &Namespace, query: &Query) -> Result<Documents> {
    query.options.check_mapped()?;
    if !has_special(&query.filter) {
        return Ok(Documents::streaming(core.server.cursor(&ns.db, own_command(own, ns, query)?).await?));
    }
    let parts = parts(&query.filter)?;
    if parts.near.is_none() {
        return text::find(core, own, ns, query, &parts).await;
    }
    aggregate_own_view(core, own, ns, query, tail_of(query)?).await
}

/// The command of [`find`], to be explained.
pub(crate) fn command(own: Option<&Visible>, ns: &Namespace, query: &Query) -> Result<Document> {
    query.options.check_mapped()?;
    if !has_special(&query.filter) {
        return own_command(own, ns, query);
    }
    let parts = parts(&query.filter)?;
    let Some(near) = &parts.near else {
        let message =
            "$text has no plan in a transaction that has written to the collection: it takes several commands";
        return Err(Error::unsupported(message));
    };
    let (_, mut pipeline) = near_pipeline(own, ns, query, near, &parts.rest)?;
    pipeline.extend(tail_of(query)?);
    Ok(aggregation(ns, pipeline, query))
}

/// Stages for the query's order, place and shape.
fn tail_of(query: &Query) -> Result<Vec<Document>> {
    let mut tail = Vec::new();
    if let Some(sort) = query.sort.as_ref().filter(|sort| !query.is_fetch() && !sort.is_empty()) {
        tail.push(doc! {"$sort": sort.clone()});
    }
    tail.extend(skip_and_limit(query));
    if let Some(projection) = &query.projection {
        tail.extend(projection::as_stages(projection)?);
    }
    Ok(tail)
}

/// Runs these stages on the documents that match the query's filter in that view.
pub(crate) async fn aggregate_own_view(
    core: &Core,
    own: Option<&Visible>,
    ns: &Namespace,
    query: &Query,
    tail: Vec<Document>,
) -> Result<Documents> {
    let (mut pipeline, key) = if has_special(&query.filter) {
        let parts = parts(&query.filter)?;
        let Some(near) = &parts.near else { return text::search_text(core, own, ns, query, &parts, tail).await };
        let (stage, pipeline) = near_pipeline(own, ns, query, near, &parts.rest)?;
        (pipeline, Some(stage))
    } else {
        (visible_pipeline(own, &query.filter), None)
    };
    pipeline.extend(tail);
    let mut command = aggregation(ns, pipeline, query);
    if let Some(size) = query.batch_size {
        command.insert("cursor", doc! {"batchSize": i64::from(size)});
    }
    match (core.server.cursor(&ns.db, command).await, key) {
        (Err(error), Some(stage)) if error.code() == Some(NO_PLAN) => Err(without_plan(core, ns, &stage, error).await),
        (answer, _) => Ok(Documents::streaming(answer?)),
    }
}

/// The stages that stand for a filter with an order by distance.
fn near_pipeline(
    own: Option<&Visible>,
    ns: &Namespace,
    query: &Query,
    near: &Near,
    rest: &Document,
) -> Result<(GeoNear, Vec<Document>)> {
    let stage = GeoNear::of_filter(near, rest);
    let Some(own) = own else {
        let pipeline = stage.safe_view(None);
        return Ok((stage, pipeline));
    };
    let by_distance = query.sort.as_ref().is_none_or(Document::is_empty);
    let enough = (by_distance && query.limit > 0).then(|| query.skip.saturating_add(query.limit));
    let mut pipeline = stage.own_view(&ns.coll, own, enough)?;
    if by_distance {
        pipeline.push(sort_by_distance());
    }
    pipeline.push(hide_distance());
    Ok((stage, pipeline))
}

/// Replaces the error of the server for a missing index where only the one on unsafe versions is
/// missing.
async fn without_plan(core: &Core, ns: &Namespace, stage: &GeoNear, error: Error) -> Error {
    let list = doc! {"listIndexes": &ns.coll, "cursor": {}};
    let Ok(indexes) = core.server.collect(&ns.db, list, 1_000).await else { return error };
    match (stage.key(), stage.unsafe_key()) {
        (Some(key), Some(mirror)) if has_geo_index(&indexes, key) && !has_geo_index(&indexes, &mirror) => {
            Error::unsupported(format!(
                "an order by distance in a transaction that has written to {ns} needs a geospatial index on {mirror:?}, as there is on {key:?}"
            ))
        }
        _ => error,
    }
}
