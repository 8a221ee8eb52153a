//! `count`: documents that a transaction sees, exactly or by the collection's metadata.

use bson::{Bson, Document, doc};
use sd2v::names::{INSERT, REMOVE, WRITER, tx_id_to_bson};

use super::aggregate;
use crate::{
    command::{
        access_paths::plan::Plan,
        isolation::{committed, repeatable, validated},
        query::{
            groups::{count_all, number},
            query_stages::as_aggregate,
            views,
        },
    },
    coordinator::{
        Core,
        request::{pipeline::AggregateCommand, query::Query, query_options::QueryOptions},
        transaction::Transaction,
    },
    error::{Error, Result},
    numbers::as_i64,
    options::Namespace,
};

/// Times that a number is taken again because pending documents have changed meanwhile.
const LOOKS: usize = 4;

/// Number of documents that match the query, exactly.
pub(crate) async fn documents(core: &Core, tx: Option<&mut Transaction>, ns: &Namespace, query: &Query) -> Result<u64> {
    query.check()?;
    if sd2v::filter::parts(&query.filter)?.near.is_some() {
        let message = "$geoNear, $near, and $nearSphere are not allowed in this context";
        return Err(Error::invalid(5_626_500, message));
    }
    let query = &*query.resolved(core, ns).await?;
    if views::is_view(core, ns).await? {
        let mut command = as_aggregate(query)?;
        command.pipeline.push(count_all());
        return Ok(number(aggregate::read(core, tx, ns, &command).await?.all(1).await?.first()));
    }
    if let Some(tx) = tx {
        if tx.is_repeatable() {
            return Ok(repeatable::lock_all(core, tx, ns, query).await?.len() as u64);
        }
        tx.check_alive()?;
        if tx.validates() {
            return validated::count(core, tx, ns, query).await;
        }
        return committed::count(core, Some(tx), ns, query).await;
    }
    committed::count(core, None, ns, query).await
}

/// Number of documents by the collection's metadata, corrected by the pending ones.
pub(crate) async fn estimated(core: &Core, tx: Option<&mut Transaction>, ns: &Namespace) -> Result<u64> {
    if tx.as_ref().is_some_and(|tx| tx.validates()) {
        // Metadata is of no moment that could be validated.
        return documents(core, tx, ns, &Query::default()).await;
    }
    let tx = tx.as_deref();
    let me = tx.and_then(Transaction::id);
    if views::is_view(core, ns).await? {
        let all = AggregateCommand::of(vec![count_all()], QueryOptions::default());
        return Ok(number(Plan::of(core, tx, ns, &all).await?.run(core).await?.all(1).await?.first()));
    }
    if !core.catalog.ensure_pending_index(ns).await? {
        return stored(core, ns).await;
    }
    // First: what is finished now, such as a removal, is in the metadata then.
    let options = QueryOptions::default();
    let settled = core.pending.settle_pending(ns, &Document::new(), &options, me).await?;
    if !settled.was_pending && !tx.is_some_and(|tx| tx.has_written(ns)) {
        return stored(core, ns).await;
    }
    if let Some(tx) = tx.filter(|tx| tx.has_written(ns)) {
        tx.note_own_view();
    }
    let visible = settled.unfinished.iter().copied().chain(me).map(tx_id_to_bson);
    let is_visible = doc! {"$in": [format!("${WRITER}"), {"$literal": visible.collect::<Vec<Bson>>()}]};
    // A rival's insert is not there yet; what this transaction removed is not there any more.
    let hidden = doc! {"$cond": [is_visible, format!("${REMOVE}"), format!("${INSERT}")]};
    let pipeline = vec![
        doc! {"$match": {WRITER: {"$exists": true}}},
        doc! {"$group": {"_id": 1, "n": {"$sum": {"$cond": [hidden, 1, 0]}}}},
    ];
    let aggregate = doc! {"aggregate": &ns.coll, "pipeline": pipeline, "cursor": {}};
    let mut hidden = number(core.server.collect(&ns.db, aggregate.clone(), 1).await?.first());
    for _ in 0..LOOKS {
        let total = stored(core, ns).await?;
        let again = number(core.server.collect(&ns.db, aggregate.clone(), 1).await?.first());
        if std::mem::replace(&mut hidden, again) == again {
            return Ok(total.saturating_sub(again));
        }
    }
    // It is an estimate.
    Ok(stored(core, ns).await?.saturating_sub(hidden))
}

/// The number in the collection's metadata: of all stored documents, pending ones among them.
async fn stored(core: &Core, ns: &Namespace) -> Result<u64> {
    let answer = core.server.run_command(&ns.db, doc! {"count": &ns.coll}).await?;
    Ok(answer.get("n").map_or(0, as_i64) as u64)
}
