//! `find`: which way a query takes to the versions that its transaction may see.
//!
//! | query | way | commands |
//! | --- | --- | --- |
//! | of one `_id`, not written by this transaction | fetch it; a lock is looked into when there is one | 1 when clean |
//! | nothing own pending in the collection | pending documents and answer in one pipeline ([`one_command`]) | 1 when nothing is pending |
//! | the same, with something pending, or with a hint, `let`, `$near`, `$text` or a projection that only `find` knows | settle what is pending, then the user's `find` | 2 when nothing is pending |
//! | that may be a little old | settle the whole collection if that was too long ago; safe versions | 1 as a rule ([`crate::coordinator::freshness`]) |
//! | with own writes in the collection | settle, then map each document to its visible version and go on as asked ([`own_view`]) | 2 when no rival is pending |

use bson::{Bson, Document, doc};
use protocol::{TxId, TxStatus, Version, lock::visible_version};
use sd2v::{
    filter::{guard_filter, has_special, is_only_id},
    names::WRITER,
    pipeline::{Sources, map_pipeline},
    projection,
    stored::{self, extract, lock_state},
    view,
};

use super::{
    aggregate::{self, AggregateCommand},
    one_command, own_view,
    query::{Documents, Query},
    repeatable, views,
};
use crate::{
    coordinator::{Core, address::Address, transaction::Transaction},
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Times that a document is fetched again because its writer finished between two commands.
const FETCHES: usize = 64;

#[tracing::instrument(name = "mongotx.find", level = "debug", skip_all, fields(%ns))]
pub(crate) async fn run(core: &Core, tx: Option<&mut Transaction>, ns: &Namespace, query: &Query) -> Result<Documents> {
    query.check()?;
    let query = &*query.resolved(core, ns).await?;
    if views::is_view(core, ns).await? {
        return aggregate::read(core, tx, ns, &as_aggregate(query)?).await;
    }
    match tx {
        Some(tx) if tx.is_repeatable() => repeatable::find(core, tx, ns, query).await,
        tx => committed(core, tx.as_deref(), ns, query).await,
    }
}

/// At read committed.
pub(crate) async fn committed(
    core: &Core,
    tx: Option<&Transaction>,
    ns: &Namespace,
    query: &Query,
) -> Result<Documents> {
    if let Some(tx) = tx {
        tx.check_alive()?;
    }
    let me = tx.and_then(Transaction::id);
    let own_writes = tx.is_some_and(|tx| tx.has_written(ns));
    let mapped = query.sees_lock_fields();
    let latest = query.terms.staleness.is_none();
    if let Some(filter) = by_id_filter(core, tx, ns, query).await? {
        return by_id(core, ns, query, filter, me).await;
    }
    let at_once = match me.filter(|_| own_writes) {
        _ if !latest || mapped => None,
        Some(me) => one_command::find_own(core, ns, query, me).await?,
        None => one_command::find(core, ns, query, me).await?,
    };
    if let Some(answer) = at_once {
        return Ok(answer);
    }
    if own_writes || mapped {
        core.settle_pending(ns, &query.filter, &query.terms, me).await?;
        return own_view::find(core, me.filter(|_| own_writes), ns, query).await;
    }
    settled(core, ns, query, me).await
}

/// The safe versions, once those are the latest.
async fn settled(core: &Core, ns: &Namespace, query: &Query, me: Option<TxId>) -> Result<Documents> {
    core.settle_pending(ns, &query.filter, &query.terms, me).await?;
    let find = query.to_find(ns, view::safe_filter(&query.filter, core.catalog.shards.none()));
    Ok(Documents::streaming(core.server.cursor(&ns.db, find).await?))
}

/// The filter that fetches the one document in question, locked or not; `None` when there may be others, or when this
/// transaction may have written to it.
pub(crate) async fn by_id_filter(
    core: &Core,
    tx: Option<&Transaction>,
    ns: &Namespace,
    query: &Query,
) -> Result<Option<Document>> {
    let unpinned = query.skip > 0 || query.terms.staleness.is_some() || query.sees_lock_fields();
    if unpinned || has_special(&query.filter) {
        return Ok(None);
    }
    let Some(id) = query.pinned_id(core, ns).await?.filter(|id| !tx.is_some_and(|tx| tx.may_hold(ns, id))) else {
        return Ok(None);
    };
    if is_only_id(&query.filter) {
        return Ok(Some(query.filter.clone()));
    }
    let mut filter = Address::named(id, &query.filter, &query.terms, &core.shard_key(ns).await?).filter();
    filter.insert("$or", [guard_filter(&query.filter), doc! {WRITER: {"$exists": true}}]);
    Ok(Some(filter))
}

/// A document of which this transaction has written nothing.
async fn by_id(core: &Core, ns: &Namespace, query: &Query, filter: Document, me: Option<TxId>) -> Result<Documents> {
    let plain = is_only_id(&query.filter) && query.projection.is_none();
    for _ in 0..FETCHES {
        let found = match core.server.find_first(ns, query.to_find(ns, filter.clone())).await {
            // An expression may have failed on a version that is not the latest.
            Err(refused) if refused.kind() == ErrorKind::Invalid => return settled(core, ns, query, me).await,
            found => found?,
        };
        let Some(mut stored) = found else { return Ok(Documents::default()) };
        let lock = lock_state(&stored)?;
        let Some(writer) = lock.writer else {
            stored::strip(&mut stored);
            return Ok(Documents::at_hand([stored]));
        };
        if Some(writer) == me {
            // Held by this transaction after all: the `_id` is an equal number of another type.
            return own_view::find(core, me, ns, query).await;
        }
        let status = core.log.statuses(&[writer]).await?.first().copied().unwrap_or(TxStatus::RolledBack);
        match visible_version(&lock, me, |_| status) {
            Some(Version::Absent) => return Ok(Documents::default()),
            Some(version) if plain => return Ok(Documents::at_hand(extract(stored, version))),
            Some(Version::Safe) => {
                let find = query.to_find(ns, view::without_pending_inserts(&query.filter));
                return Ok(Documents::streaming(core.server.cursor(&ns.db, find).await?));
            }
            Some(Version::Unsafe) => {
                let id = stored.get("_id").cloned().unwrap_or(Bson::Null);
                let id = query.pinned_id(core, ns).await?.unwrap_or(id);
                let at = core.locate(None, ns, id, &query.filter, &query.terms).await?;
                core.clear_locks(ns, &at, &lock, me).await?;
            }
            None => {
                let Some(id) = query.pinned_id(core, ns).await? else { continue };
                let at = core.locate(None, ns, id, &query.filter, &query.terms).await?;
                core.clear_locks(ns, &at, &lock, me).await?;
            }
        }
    }
    let message = format!("a document of {ns} was finished {FETCHES} times while it was read");
    Err(Error::new(ErrorKind::Unavailable, message))
}

/// The command in the view of a transaction with writes of its own: mapped first, then everything as asked.
pub(crate) fn own_command(me: Option<TxId>, ns: &Namespace, query: &Query) -> Result<Document> {
    let command = as_aggregate(query)?;
    let stages = mapped_stages(me, ns, &command)?;
    Ok(command.to_command(ns, stages))
}

/// The stages of [`own_command`].
pub(crate) fn own_stages(me: TxId, ns: &Namespace, query: &Query) -> Result<Vec<Document>> {
    mapped_stages(Some(me), ns, &as_aggregate(query)?)
}

fn mapped_stages(me: Option<TxId>, ns: &Namespace, command: &AggregateCommand) -> Result<Vec<Document>> {
    let written = me.map(|_| ns.coll.clone()).into_iter().collect();
    let sources = Sources { me, written, ..Sources::default() };
    Ok(map_pipeline(Some(&ns.coll), &command.pipeline, &sources, true)?.stages)
}

/// The same as a pipeline.
pub(crate) fn as_aggregate(query: &Query) -> Result<AggregateCommand> {
    let mut pipeline = Vec::new();
    if !query.filter.is_empty() {
        pipeline.push(doc! {"$match": query.filter.clone()});
    }
    if let Some(sort) = query.sort.as_ref().filter(|sort| !query.is_fetch() && !sort.is_empty()) {
        pipeline.push(doc! {"$sort": sort.clone()});
    }
    pipeline.extend(one_command::skip_and_limit(query));
    if let Some(projection) = &query.projection {
        pipeline.extend(projection::as_stages(projection)?);
    }
    let batch_size = query.batch_size;
    Ok(AggregateCommand { batch_size, ..AggregateCommand::of(pipeline, query.terms.clone()) })
}

/// The stages after which the documents are those that `me` sees and that match, exactly as the application wrote them.
pub(crate) fn visible_pipeline(me: Option<TxId>, filter: &Document) -> Vec<Document> {
    let visible: Vec<TxId> = me.into_iter().collect();
    let mut pipeline = vec![view::select(filter, &visible)];
    pipeline.extend(view::map(&visible));
    if !filter.is_empty() {
        pipeline.push(doc! {"$match": filter.clone()});
    }
    pipeline
}

pub(crate) fn aggregation(ns: &Namespace, pipeline: Vec<Document>, query: &Query) -> Document {
    let mut command = doc! {"aggregate": &ns.coll, "pipeline": pipeline, "cursor": {}, "allowDiskUse": true};
    query.terms.add_to(&mut command);
    query.terms.add_hint(&mut command);
    command
}

/// Where the documents are that a query finds, in its order, and at most `limit`.
pub(crate) async fn addresses(
    core: &Core,
    tx: Option<&Transaction>,
    ns: &Namespace,
    query: &Query,
    limit: usize,
) -> Result<Vec<Address>> {
    let key = core.shard_key(ns).await?;
    let mut projection = doc! {"_id": 1};
    key.show_in(&mut projection);
    let addresses_only = Query { projection: Some(projection), ..query.clone() };
    let found = committed(core, tx, ns, &addresses_only).await?.all(limit.saturating_add(1)).await?;
    if found.len() > limit {
        return Err(Error::invalid(
            290,
            format!("the query matches more than {limit} documents, the most that one transaction may hold"),
        ));
    }
    found.iter().map(|document| Address::of(document, &key)).collect()
}

#[cfg(test)]
mod tests {
    use sd2v::names::READERS;

    use super::*;

    #[test]
    fn visible_pipeline_without_filter_has_no_second_match() {
        let pipeline = visible_pipeline(None, &Document::new());
        assert_eq!(pipeline.iter().filter(|stage| stage.contains_key("$match")).count(), 1);
        assert!(pipeline.iter().any(|stage| format!("{stage}").contains(READERS)));
    }
}
