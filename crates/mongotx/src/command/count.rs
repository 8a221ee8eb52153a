//! `count`: documents that a transaction sees, exactly or by the collection's metadata.

use bson::{Bson, Document, doc};
use sd2v::{
    filter::sees_lock_fields,
    names::{INSERT, REMOVE, WRITER, tx_id_to_bson},
    view,
};

use super::{
    aggregate, one_command, own_view,
    plan::Plan,
    query_stages::{aggregation, as_aggregate, skip_and_limit},
    repeatable, validated, views,
};
use crate::coordinator::{pipeline::AggregateCommand, query::Query};
use crate::{
    coordinator::{Core, transaction::Transaction},
    error::{Error, Result},
    numbers::as_i64,
    options::Namespace,
};

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
        return committed(core, Some(tx), ns, query).await;
    }
    committed(core, None, ns, query).await
}

/// Number of documents at read committed.
pub(crate) async fn committed(core: &Core, tx: Option<&Transaction>, ns: &Namespace, query: &Query) -> Result<u64> {
    let me = tx.filter(|tx| tx.has_written(ns)).and_then(Transaction::id);
    if let Some(tx) = tx.filter(|_| me.is_some()) {
        tx.note_own_view();
    }
    let mut tail = skip_and_limit(query);
    tail.push(count_all());
    if me.is_none()
        && query.terms.staleness.is_none()
        && let Some(counted) = one_command::run(core, ns, query, tx.and_then(Transaction::id), tail.clone()).await?
    {
        return Ok(number(counted.all(1).await?.first()));
    }
    let own = core.settle_pending(ns, &query.filter, &query.terms, me).await?.visible(me);
    let counted = if own.is_some() || sees_lock_fields(&query.filter) {
        own_view::run(core, own.as_ref(), ns, query, tail).await?.all(1).await?
    } else {
        let safe = view::safe_filter(&query.filter, core.catalog.shards.none());
        let mut pipeline = vec![doc! {"$match": safe}];
        pipeline.extend(tail);
        core.server.collect(&ns.db, aggregation(ns, pipeline, query), 1).await?
    };
    Ok(number(counted.first()))
}

fn count_all() -> Document {
    doc! {"$group": {"_id": 1, "n": {"$sum": 1}}}
}

fn number(group: Option<&Document>) -> u64 {
    group.and_then(|group| group.get("n")).map_or(0, as_i64) as u64
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
        let all = AggregateCommand::of(vec![count_all()], crate::coordinator::terms::Terms::default());
        return Ok(number(Plan::of(core, tx, ns, &all).await?.run(core).await?.all(1).await?.first()));
    }
    let answer = core.server.run_command(&ns.db, doc! {"count": &ns.coll}).await?;
    let total = answer.get("n").map_or(0, as_i64);
    if !core.catalog.ensure_pending_index(&core.server, ns).await? {
        return Ok(total as u64);
    }
    let settled = core.settle_pending(ns, &Document::new(), &crate::coordinator::terms::Terms::default(), me).await?;
    if !settled.was_pending && !tx.is_some_and(|tx| tx.has_written(ns)) {
        return Ok(total as u64);
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
    let groups =
        core.server.collect(&ns.db, doc! {"aggregate": &ns.coll, "pipeline": pipeline, "cursor": {}}, 1).await?;
    Ok((total as u64).saturating_sub(number(groups.first())))
}
