//! A query answered in one way to the server and back when nothing is pending, and in two when
//! nothing of what is pending is decided. If it meets what this client has committed itself and not
//! finished, that is finished, with everything else that waits in the collection, and the query
//! sent again; the next ones have it finished before. A query by nothing but the `_id` sees it
//! where it is.
//!
//! One pipeline looks for pending documents that the query could have to see, in every collection
//! that it reads, and only then (`$unionWith` runs its pipeline after what stands before it is
//! exhausted) for the answer itself. Where the answer is that of a `find`, two of these in one
//! write do the same, for less (decision 0058). What is made of the answer to that is in
//! [`super::probed`].
//!
//! A client that is alone sends the answer's command by itself ([`super::unprobed`],
//! [`super::beside_own_changes`]). Where many
//! documents are pending, some queries look for the writers of all of them first
//! ([`super::wide_probe`]).

use bson::{Document, doc};
use protocol::TxId;
use sd2v::{projection, view};

use super::{
    beside_own_changes,
    probed::{Command, ProbedAnswer, ask_with_probe, command, unless_marked, who_has_pending},
    unprobed,
    wide_probe::{is_for_everything_in_crowd, wants_all_writers, who_has_anything, wide_probe},
};
use crate::{
    command::query::{
        documents::Documents,
        query_stages::{own_stages, skip_and_limit},
        reads_in_order::as_find,
    },
    coordinator::{Core, request::query::Query},
    error::{ErrorKind, Result},
    options::Namespace,
};

/// Limit of transactions that this client has committed, and not finished, whose versions one
/// command shows.
const MAX_SHOWN: usize = 40;
/// Times that a query is sent which shows these.
const SHOWN_AGAIN: usize = 3;

/// `None`: something decided is pending, or the query has parts that an aggregation cannot take
/// over.
pub(crate) async fn find(core: &Core, ns: &Namespace, query: &Query, me: Option<TxId>) -> Result<Option<Documents>> {
    let may_be_unprobed = unprobed::may(core, ns, query);
    if may_be_unprobed && let Some(answer) = beside_own_changes::find(core, ns, query).await? {
        return Ok(Some(answer));
    }
    if may_be_unprobed
        && let Some(tail) = tail_of(query)?
        && is_answered_by_aggregation(core, ns, query).await?
        && let Some(answer) = unprobed::aggregate_unprobed(core, ns, query, &tail).await?
    {
        return Ok(Some(answer));
    }
    match find_shown(core, ns, query, me).await? {
        Some(ProbedAnswer::Answered(answer)) => return Ok(Some(*answer)),
        Some(ProbedAnswer::MarkedByOthers) => return Ok(None),
        Some(ProbedAnswer::MarkedByOwn(_)) | None => {}
    }
    match find_command(core, ns, query, me).await? {
        Some(command) => ask_with_probe(core, ns, command, me).await,
        None => Ok(None),
    }
}

/// The same by nothing but the `_id`, while something waits to be finished: what this client has
/// committed is shown where it is. What is committed while the query is under way is shown by the
/// next one. `None`: not a query for this way.
async fn find_shown(core: &Core, ns: &Namespace, query: &Query, me: Option<TxId>) -> Result<Option<ProbedAnswer>> {
    if !query.is_by_id_alone() || !core.finisher.has_left(ns) || !is_answered_by_aggregation(core, ns, query).await? {
        return Ok(None);
    }
    let Some(shape) = shape_of(query)? else { return Ok(None) };
    let mut met = None;
    for _ in 0..SHOWN_AGAIN {
        let Some(shown) = core.finisher.committed_in(ns, MAX_SHOWN) else { return Ok(None) };
        let mut answer = vec![doc! {"$match": view::visible_by_id(&query.filter, &shown)}];
        answer.extend(order_of(query));
        answer.extend(view::map(&shown));
        answer.extend(shape.iter().cloned());
        let sees: Vec<TxId> = shown.into_iter().chain(me).collect();
        let Some(command) = after_probe(core, ns, query, me, answer).await? else { return Ok(None) };
        match unless_marked(core, ns, &command, &sees).await {
            Ok(ProbedAnswer::MarkedByOwn(writers)) => met = Some(ProbedAnswer::MarkedByOwn(writers)),
            Ok(answer) => return Ok(Some(answer)),
            Err(refused) if refused.kind() == ErrorKind::Invalid => return Ok(Some(ProbedAnswer::MarkedByOthers)),
            Err(error) => return Err(error),
        }
    }
    Ok(met)
}

/// Like [`find`], in the view of a transaction that has written to the collection: its own unsafe
/// versions are visible to it, and no other transaction changes those.
pub(crate) async fn find_own(core: &Core, ns: &Namespace, query: &Query, me: TxId) -> Result<Option<Documents>> {
    let find_only = query.projection.as_ref().is_some_and(projection::is_find_only);
    if find_only || query.sees_lock_fields() || sd2v::filter::has_special(&query.filter) {
        return Ok(None);
    }
    if !core.catalog.ensure_pending_index(ns).await? {
        return Ok(None);
    }
    let stages = own_stages(me, ns, query)?;
    match behind_probe(core, ns, query, Some(me), stages).await? {
        Some(command) => ask_with_probe(core, ns, command, Some(me)).await,
        None => Ok(None),
    }
}

/// The same for a transaction that has only removed documents of the collection: it sees what all
/// clients see but for those documents, so that indexes answer order and limit.
pub(crate) async fn find_unremoved(core: &Core, ns: &Namespace, query: &Query, me: TxId) -> Result<Option<Documents>> {
    let Some(tail) = tail_of(query)? else { return Ok(None) };
    if !is_answered_by_aggregation(core, ns, query).await? {
        return Ok(None);
    }
    let others = view::safe_filter_beside(&query.filter, me, core.catalog.shards.none());
    let answer = [doc! {"$match": others}].into_iter().chain(tail).collect();
    match behind_probe(core, ns, query, Some(me), answer).await? {
        Some(command) => ask_with_probe(core, ns, command, Some(me)).await,
        None => Ok(None),
    }
}

/// The command of a `find`; `None` when an aggregation cannot take it over.
pub(crate) async fn find_command(
    core: &Core,
    ns: &Namespace,
    query: &Query,
    me: Option<TxId>,
) -> Result<Option<Command>> {
    match tail_of(query)? {
        Some(tail) => of_query(core, ns, query, me, tail).await,
        None => Ok(None),
    }
}

/// The stages that answer a query if nothing is pending, for a pipeline of several queries.
pub(crate) async fn answer_stages(core: &Core, ns: &Namespace, query: &Query) -> Result<Option<Vec<Document>>> {
    let Some(tail) = tail_of(query)? else { return Ok(None) };
    if !is_answered_by_aggregation(core, ns, query).await? {
        return Ok(None);
    }
    core.finisher.clear_before_query(ns).await;
    Ok(Some(answer_of(core, query, tail)))
}

/// Order, bounds and projection; `None`: only a `find` knows the projection.
fn tail_of(query: &Query) -> Result<Option<Vec<Document>>> {
    let Some(shape) = shape_of(query)? else { return Ok(None) };
    let mut tail = order_of(query);
    tail.extend(shape);
    Ok(Some(tail))
}

fn order_of(query: &Query) -> Vec<Document> {
    let sort = query.sort.as_ref().filter(|sort| !sort.is_empty());
    sort.map(|sort| doc! {"$sort": sort.clone()}).into_iter().chain(skip_and_limit(query)).collect()
}

/// The projection; `None`: only a `find` knows it.
fn shape_of(query: &Query) -> Result<Option<Vec<Document>>> {
    match query.projection.as_ref().filter(|projection| !projection.is_empty()) {
        None => Ok(Some(Vec::new())),
        Some(projection) if projection::is_find_only(projection) => Ok(None),
        Some(projection) => Ok(Some(projection::as_stages(projection)?)),
    }
}

/// The query's filter and these stages after it, in one command.
pub(crate) async fn aggregate_in_one_command(
    core: &Core,
    ns: &Namespace,
    query: &Query,
    me: Option<TxId>,
    tail: Vec<Document>,
) -> Result<Option<Documents>> {
    if unprobed::may(core, ns, query)
        && is_answered_by_aggregation(core, ns, query).await?
        && let Some(answer) = unprobed::aggregate_unprobed(core, ns, query, &tail).await?
    {
        return Ok(Some(answer));
    }
    match of_query(core, ns, query, me, tail).await? {
        Some(command) => ask_with_probe(core, ns, command, me).await,
        None => Ok(None),
    }
}

async fn of_query(
    core: &Core,
    ns: &Namespace,
    query: &Query,
    me: Option<TxId>,
    tail: Vec<Document>,
) -> Result<Option<Command>> {
    match is_answered_by_aggregation(core, ns, query).await? {
        true => behind_probe(core, ns, query, me, answer_of(core, query, tail)).await,
        false => Ok(None),
    }
}

/// A filter on whole documents would see their locks; what only an index answers has places of its
/// own.
async fn is_answered_by_aggregation(core: &Core, ns: &Namespace, query: &Query) -> Result<bool> {
    if query.sees_lock_fields() || sd2v::filter::has_special(&query.filter) || query.options.find_only.is_some() {
        return Ok(false);
    }
    core.catalog.ensure_pending_index(ns).await
}

/// The stages that answer when nothing is pending.
fn answer_of(core: &Core, query: &Query, tail: Vec<Document>) -> Vec<Document> {
    let mut answer = vec![doc! {"$match": view::safe_filter(&query.filter, core.catalog.shards.none())}];
    answer.extend(tail);
    answer
}

/// These stages, behind the probe for what the query could have to see.
async fn behind_probe(
    core: &Core,
    ns: &Namespace,
    query: &Query,
    me: Option<TxId>,
    answer: Vec<Document>,
) -> Result<Option<Command>> {
    core.finisher.clear_before_query(ns).await;
    after_probe(core, ns, query, me, answer).await
}

/// The command behind a probe, without finishing any documents before.
async fn after_probe(
    core: &Core,
    ns: &Namespace,
    query: &Query,
    me: Option<TxId>,
    answer: Vec<Document>,
) -> Result<Option<Command>> {
    let pending = core.pending.pending_filter(ns, &query.filter, me).await?;
    let wide = match wants_all_writers(query, &answer) {
        true => wide_probe(core, ns, &query.filter, me, query.batch_size, &query.options).await?,
        false => None,
    };
    let behind_all = wide.and_then(|(all, looks)| {
        let command = behind(ns, query, who_has_anything(ns, &all), all, answer.clone())?;
        Some((Box::new(command), looks))
    });
    let first = match is_for_everything_in_crowd(core, ns, &pending, me, &query.options).await? {
        true => who_has_anything(ns, &pending),
        false => who_has_pending(ns, &pending),
    };
    Ok(behind(ns, query, first, pending, answer).map(|command| Command { behind_all, ..command }))
}

/// The answer behind a probe: the `find` or aggregation `first`, or its condition in one pipeline.
fn behind(ns: &Namespace, query: &Query, first: Document, pending: Document, answer: Vec<Document>) -> Option<Command> {
    let mut apart = as_find(&ns.coll, &answer).map(|answer| [first, answer]);
    let mut piped = command(&ns.coll, &[(ns.coll.as_str(), pending)], answer, &query.options)?;
    if let Some(size) = query.batch_size {
        piped.insert("cursor", doc! {"batchSize": i64::from(size)});
    }
    if let Some([probe, answer]) = &mut apart {
        query.options.add_to(probe);
        query.options.add_to(answer);
        answer.insert("allowDiskUse", true);
        answer.extend(query.batch_size.map(|size| ("batchSize".to_owned(), i64::from(size).into())));
    }
    Some(Command { piped, apart, behind_all: None })
}
