//! Reads at read committed, on which those of the other levels build. A query reads the versions
//! that its transaction may see:
//!
//! | query | way | commands |
//! | --- | --- | --- |
//! | of one `_id` and nothing else, written by this transaction | fetch it: the lock on it is the transaction's own | 1 |
//! | of one `_id`, not written by this transaction | fetch it ([`fetch`]), with both versions where whole documents or fields at the top are shown; a lock is looked into when there is one and the two versions show different things | 1 when clean, shown the same by both versions, or committed by this client |
//! | of a few `_id`s, nothing own pending in the collection | fetch them ([`fetch`]), likewise; the next way when one is locked by a transaction that is not committed | 1 when clean, or committed by this client |
//! | by a key of a unique index, of plain values | fetch what has the key in any version ([`fetch_key`]); locks are looked into when there are some; that there is none is left to the next way. A query for one document fetches the one that the client knows by the key, before (decision 0083) | 1 when it is there and clean, one more when another document has the key by now |
//! | nothing own pending in the collection, by a client that is alone | the user's query ([`unprobed`]) | 1 |
//! | of a few documents, by a client that is alone, beside what its transactions have left of other fields | the user's query, which brings both versions ([`crate::command::access_paths::beside_own_changes`]) | 1 |
//! | nothing own pending in the collection | the writers of what is pending, and the answer, by two `find`s in one write, or in one pipeline ([`one_command`]) | 2 in one write (1 as a pipeline) when nothing is pending |
//! | with something pending, or (unless the client is alone) with a hint, `let`, `$near`, `$text` or a projection that only `find` knows | settle what is pending, then the user's `find` | 2 when nothing is pending |
//! | with bounds of an index, or that shows its keys or where documents are stored | settle what is pending, then the user's `find`; with own writes: refused | 2 when nothing is pending |
//! | that may be a little old | settle the whole collection if that was too long ago; safe versions | 1 as a rule ([`crate::coordinator::queries::pending`]) |
//! | by nothing but the `_id`, of up to 984 documents, with own writes in the collection that are not removals alone, by a client that is alone | the user's query, which brings both versions ([`crate::command::access_paths::beside_own_changes`]) | 2, with the look at the own record that vouches for the answer |
//! | with own writes in the collection | pending documents and the view of the transaction in one pipeline; else settle, then map each document to its visible version, then the rest of the query ([`own_view`]) | 2 when nothing is pending, with the look at the own record that vouches for the answer ([`crate::coordinator::lifecycle::standing`]) |
//! | where the own writes are removals | the same, without the documents that the transaction holds ([`one_command::find_unremoved`]) | 2 when nothing is pending |
//! | with own writes, by a key of a unique index, which shows a document of another transaction | the same; its own writes, which have changed no key, are of no consequence | 1 when nothing is pending |

use std::collections::HashSet;

use bson::{Bson, RawDocument, doc};
use protocol::TxId;
use sd2v::{filter::sees_lock_fields, shard::ShardKey, view};

use crate::{
    command::{
        access_paths::{beside_own_changes, fetch, fetch_key, one_command, own_view, repair_first, unprobed},
        query::{
            documents::Documents,
            groups::{TOO_BIG, count_all, number, unwind_and_group, values_of},
            query_stages::{aggregation, skip_and_limit},
        },
    },
    coordinator::{
        Core,
        queries::one_process::OneProcessAttempts,
        request::{
            address::Address,
            query::Query,
            query_options::{FindOnly, QueryOptions},
        },
        transaction::Transaction,
    },
    error::{Error, Result},
    options::Namespace,
    steps::Step,
};

/// The documents that match the query.
pub(crate) async fn find(core: &Core, tx: Option<&Transaction>, ns: &Namespace, query: &Query) -> Result<Documents> {
    if let Some(tx) = tx {
        tx.check_alive()?;
    }
    let me = tx.and_then(Transaction::id);
    let own_writes = tx.is_some_and(|tx| tx.has_written(ns));
    if query.options.find_only.is_some() {
        if own_writes || query.sees_lock_fields() {
            query.options.check_mapped()?;
        }
        return Box::pin(repair_first::find(core, ns, query, me)).await;
    }
    if let Some(tx) = tx.filter(|_| own_writes)
        && let Some(answer) = fetch::own_by_id(core, tx, ns, query).await?
    {
        return Ok(answer);
    }
    if let Some(filter) = fetch::by_id_filter(core, tx, ns, query).await? {
        return fetch::by_id(core, ns, query, filter, me).await;
    }
    if !own_writes && let Some(answer) = fetch::by_ids(core, ns, query).await? {
        return Ok(answer);
    }
    let Some(tx) = tx.filter(|_| own_writes) else {
        return match fetch_key::by_key(core, ns, query, me).await? {
            Some(answer) => Ok(answer),
            None => Box::pin(in_view(core, ns, query, me, false)).await,
        };
    };
    if tx.has_new_keys(ns) || !is_pinned(core, ns, query).await? {
        tx.note_own_view();
        let latest = query.options.staleness.is_none();
        if let Some(me) = me.filter(|_| latest && tx.only_removed(ns))
            && let Some(answer) = one_command::find_unremoved(core, ns, query, me).await?
        {
            return Ok(answer);
        }
        return Box::pin(in_view(core, ns, query, me, true)).await;
    }
    let found = match fetch_key::by_key(core, ns, query, me).await? {
        Some(found) => found,
        None => Box::pin(in_view(core, ns, query, me, true)).await?,
    };
    let found = found.all_raw(2).await?;
    if !matches!(&found[..], [other] if is_of_others(tx, ns, other)) {
        tx.note_own_view();
    }
    Ok(Documents::at_hand(found))
}

/// Returns true if the query demands one key of a unique index, so that it finds one document at
/// most.
async fn is_pinned(core: &Core, ns: &Namespace, query: &Query) -> Result<bool> {
    let shown_id = query.projection.as_ref().and_then(|projection| projection.get("_id"));
    let is_computed = matches!(shown_id, Some(Bson::Document(_) | Bson::String(_) | Bson::Array(_)));
    let plain = query.skip == 0 && query.options.is_plain() && query.options.staleness.is_none();
    Ok(plain && !is_computed && core.catalog.look_up(ns).await?.is_pinned_by(&query.filter))
}

/// Returns true if the transaction has written nothing to the document.
fn is_of_others(tx: &Transaction, ns: &Namespace, document: &RawDocument) -> bool {
    let id = document.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok());
    id.is_some_and(|id| !tx.may_hold(ns, &id) && !tx.is_own(ns, &id))
}

/// The documents in the view of all readers, or of this transaction.
async fn in_view(core: &Core, ns: &Namespace, query: &Query, me: Option<TxId>, own_writes: bool) -> Result<Documents> {
    let (mapped, latest) = (query.sees_lock_fields(), query.options.staleness.is_none());
    let at_once = match me.filter(|_| own_writes) {
        _ if !latest || mapped => None,
        Some(me) => match beside_own_changes::find_own(core, ns, query, me).await? {
            None => one_command::find_own(core, ns, query, me).await?,
            answer => answer,
        },
        None => one_command::find(core, ns, query, me).await?,
    };
    if let Some(answer) = at_once {
        return Ok(answer);
    }
    if own_writes || mapped {
        let mut attempts = OneProcessAttempts::begin(&core.server);
        loop {
            let settled = core.pending.settle_pending(ns, &query.filter, &query.options, me).await?;
            core.server.at(Step::BeforeSettledQuery).await;
            let own = settled.visible(me.filter(|_| own_writes));
            let found = own_view::find(core, own.as_ref(), ns, query).await?;
            if attempts.is_answered_by_one(ns)? {
                return Ok(found);
            }
        }
    }
    repair_first::find(core, ns, query, me).await
}

/// The number of documents that match the query.
pub(crate) async fn count(core: &Core, tx: Option<&Transaction>, ns: &Namespace, query: &Query) -> Result<u64> {
    let me = tx.filter(|tx| tx.has_written(ns)).and_then(Transaction::id);
    if let Some(tx) = tx.filter(|_| me.is_some()) {
        tx.note_own_view();
    }
    let mut tail = skip_and_limit(query);
    tail.push(count_all());
    if me.is_none()
        && query.options.staleness.is_none()
        && let Some(counted) =
            one_command::aggregate_in_one_command(core, ns, query, tx.and_then(Transaction::id), tail.clone()).await?
    {
        return Ok(number(counted.all(1).await?.first()));
    }
    let mut attempts = OneProcessAttempts::begin(&core.server);
    loop {
        let own = core.pending.settle_pending(ns, &query.filter, &query.options, me).await?.visible(me);
        core.server.at(Step::BeforeSettledQuery).await;
        let counted = if own.is_some() || sees_lock_fields(&query.filter) {
            own_view::aggregate_own_view(core, own.as_ref(), ns, query, tail.clone()).await?.all(1).await?
        } else {
            let safe = view::safe_filter(&query.filter, core.catalog.shards.none());
            let mut pipeline = vec![doc! {"$match": safe}];
            pipeline.extend_from_slice(&tail);
            core.server.collect(&ns.db, aggregation(ns, pipeline, query), 1).await?
        };
        if attempts.is_answered_by_one(ns)? {
            return Ok(number(counted.first()));
        }
    }
}

/// The values of a field in the documents that match the query.
pub(crate) async fn distinct(
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
    let mut distinct = doc! {"distinct": &ns.coll, "key": field, "query": view::safe_filter(&query.filter, core.catalog.shards.none())};
    if let Some(collation) = &query.options.collation {
        distinct.insert("collation", collation.clone());
    }
    if me.is_none()
        && unprobed::may(core, ns, query)
        && core.catalog.ensure_pending_index(ns).await?
        && let Some(values) = unprobed::distinct(core, ns, &distinct).await?
    {
        return Ok(values);
    }
    let mut attempts = OneProcessAttempts::begin(&core.server);
    loop {
        let own = core.pending.settle_pending(ns, &query.filter, &query.options, me).await?.visible(me);
        core.server.at(Step::BeforeSettledQuery).await;
        let values = if own.is_some() || sees_lock_fields(&query.filter) {
            let groups = own_view::aggregate_own_view(core, own.as_ref(), ns, query, unwind_and_group(field)?);
            values_of(groups.await?, TOO_BIG).await?
        } else {
            match core.server.run_command(&ns.db, distinct.clone()).await?.remove("values") {
                Some(Bson::Array(values)) => values,
                _ => Vec::new(),
            }
        };
        if attempts.is_answered_by_one(ns)? {
            return Ok(values);
        }
    }
}

/// Addresses of the documents that a query finds, in its order, and at most `limit`.
pub(crate) async fn addresses(
    core: &Core,
    tx: Option<&Transaction>,
    ns: &Namespace,
    query: &Query,
    limit: usize,
) -> Result<Vec<Address>> {
    let key = core.catalog.shard_key(ns).await?;
    let found = find(core, tx, ns, &of_addresses(query, &key)).await?;
    parse_addresses(found, &key, limit).await
}

/// The query of addresses alone.
pub(crate) fn of_addresses(query: &Query, key: &ShardKey) -> Query {
    let mut projection = doc! {"_id": 1};
    key.show_in(&mut projection);
    let bounds = |only: FindOnly| FindOnly { return_key: false, show_record_id: false, ..only };
    let options = QueryOptions { find_only: query.options.find_only.clone().map(bounds), ..query.options.clone() };
    Query { projection: Some(projection), is_for_locks: true, options, ..query.clone() }
}

/// The addresses in the answer of [`of_addresses`], at most `limit`.
pub(crate) async fn parse_addresses(found: Documents, key: &ShardKey, limit: usize) -> Result<Vec<Address>> {
    let found = found.all(limit.saturating_add(1)).await?;
    if found.len() > limit {
        let message = format!("the query matches more than {limit} documents, the most that one transaction may hold");
        return Err(Error::too_large(message));
    }
    let addresses: Vec<Address> = found.iter().map(|document| Address::of(document, key)).collect::<Result<_>>()?;
    // A document that a rival moves forward in the index meanwhile is found again.
    let mut seen = HashSet::with_capacity(addresses.len());
    let is_new = |at: &Address| seen.insert(at.filter().to_vec().unwrap_or_default());
    Ok(addresses.into_iter().filter(is_new).collect())
}
