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
        request::{pipeline::AggregateCommand, query::Query},
        transaction::Transaction,
    },
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
        let all = AggregateCommand::of(
            vec![count_all()],
            crate::coordinator::request::query_options::QueryOptions::default(),
        );
        return Ok(number(Plan::of(core, tx, ns, &all).await?.run(core).await?.all(1).await?.first()));
    }
    let answer = core.server.run_command(&ns.db, doc! {"count": &ns.coll}).await?;
    let total = answer.get("n").map_or(0, as_i64);
    if !core.catalog.ensure_pending_index(ns).await? {
        return Ok(total as u64);
    }
    let settled = core
        .pending
        .settle_pending(ns, &Document::new(), &crate::coordinator::request::query_options::QueryOptions::default(), me)
        .await?;
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
