//! `distinct`: the values of a field over the documents that a transaction sees.

use bson::{Bson, Document, doc};
use sd2v::{stored::check_path, view};

use super::{aggregate, own_view, query_stages::as_aggregate, repeatable, validated, views};
use crate::coordinator::query::{Query, exactly};
use crate::{
    coordinator::{Core, transaction::Transaction},
    error::{Error, Result},
    options::Namespace,
};

/// Values that one answer may hold.
const MAX_VALUES: usize = 1_000_000;

#[tracing::instrument(name = "mongotx.distinct", level = "debug", skip_all, fields(%ns))]
pub(crate) async fn run(
    core: &Core,
    tx: Option<&mut Transaction>,
    ns: &Namespace,
    field: &str,
    query: &Query,
) -> Result<Vec<Bson>> {
    query.check()?;
    check_path(field)?;
    let query = &*query.resolved(core, ns).await?;
    if views::is_view(core, ns).await? {
        let mut command = as_aggregate(query)?;
        command.pipeline.extend(unwind_and_group(field)?);
        return Ok(values_of(aggregate::read(core, tx, ns, &command).await?.all(MAX_VALUES).await?));
    }
    let Some(tx) = tx else { return values(core, None, ns, field, query).await };
    if tx.is_repeatable() {
        let ids = repeatable::lock_all(core, tx, ns, query).await?;
        let locked =
            Query { filter: doc! {"$and": [query.filter.clone(), exactly(&ids, &query.terms)]}, ..query.clone() };
        return values(core, Some(tx), ns, field, &locked).await;
    }
    tx.check_alive()?;
    if tx.validates() {
        return validated::distinct(core, tx, ns, field, query).await;
    }
    values(core, Some(tx), ns, field, query).await
}

/// The values at read committed.
pub(crate) async fn values(
    core: &Core,
    tx: Option<&Transaction>,
    ns: &Namespace,
    field: &str,
    query: &Query,
) -> Result<Vec<Bson>> {
    let me = tx.filter(|tx| tx.has_written(ns)).and_then(Transaction::id);
    if let Some(tx) = tx.filter(|_| me.is_some()) {
        tx.note_own_view();
    }
    let own = core.settle_pending(ns, &query.filter, &query.terms, me).await?.visible(me);
    if own.is_some() || sd2v::filter::sees_lock_fields(&query.filter) {
        let groups =
            own_view::run(core, own.as_ref(), ns, query, unwind_and_group(field)?).await?.all(MAX_VALUES).await?;
        return Ok(values_of(groups));
    }
    let mut distinct = doc! {"distinct": &ns.coll, "key": field, "query": view::safe_filter(&query.filter, core.catalog.shards.none())};
    if let Some(collation) = &query.terms.collation {
        distinct.insert("collation", collation.clone());
    }
    let mut answer = core.server.run_command(&ns.db, distinct).await?;
    match answer.remove("values") {
        Some(Bson::Array(values)) => Ok(values),
        _ => Ok(Vec::new()),
    }
}

fn values_of(groups: Vec<Document>) -> Vec<Bson> {
    groups.into_iter().filter_map(|mut group| group.remove("_id")).collect()
}

/// Arrays on the way and at its end are taken apart, once each; documents without the field have no
/// value.
fn unwind_and_group(field: &str) -> Result<Vec<Document>> {
    let mut stages = Vec::new();
    let mut path = String::new();
    for component in field.split('.') {
        if component.is_empty() || component.bytes().all(|b| b.is_ascii_digit()) {
            let message = format!(
                "distinct on {field:?} is not supported of a view, and in a transaction that has written to the collection: {component:?} may be a place in an array"
            );
            return Err(Error::unsupported(message));
        }
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(component);
        stages.push(doc! {"$unwind": {"path": format!("${path}"), "preserveNullAndEmptyArrays": true}});
    }
    stages.push(doc! {"$match": {field: {"$exists": true}}});
    stages.push(doc! {"$group": {"_id": format!("${field}")}});
    Ok(stages)
}
