//! A query answered in one way to the server and back when nothing is pending, and in two when
//! nothing of what is pending is decided. If it meets what this client has committed itself and not
//! finished, that is finished, with everything else that waits in the collection, and the query
//! sent again; the next ones have it finished before. A query by nothing but the `_id` sees it
//! where it is.
//!
//! One pipeline looks for pending documents that the query could have to see, in every collection
//! that it reads, and only then (`$unionWith` runs its pipeline after what stands before it is
//! exhausted) for the answer itself. Where the answer is that of a `find`, two of these in one
//! write do the same, for less (decision 0058). A transaction with such documents puts a mark
//! before the answer. Without a mark, nothing relevant was pending when the answer began, so the
//! safe versions are the latest. With marks, the statuses of these transactions are read *after*
//! the answer: if all are active still, the safe versions were the latest then. Otherwise the
//! answer is thrown away and the query goes the long way.
//!
//! Where many documents are pending, some queries look for the writers of all of them first, and
//! for what matters only if one of them is decided (decision 0065).

use std::sync::Arc;

use bson::{Document, RawBsonRef, RawDocument, doc};
use protocol::{TxId, TxStatus};
use sd2v::{
    names::{UNSAFE, WRITER, tx_id_from_bson},
    projection, view,
};

use super::{
    asking::as_find,
    documents::Documents,
    query_stages::{own_stages, skip_and_limit},
    unprobed,
};
use crate::coordinator::{catalog::WideProbes, query::Query, terms::Terms};
use crate::{
    coordinator::Core,
    document,
    error::{ErrorKind, Result},
    options::Namespace,
};

/// Transactions with pending documents of which one command tells.
pub(crate) const MAX_WRITERS: usize = 90;
/// Transactions that this client has committed, and not finished, whose versions one command shows.
const MAX_SHOWN: usize = 40;
/// Times that a query is sent which shows these.
const SHOWN_AGAIN: usize = 3;

/// `None`: something decided is pending, or the query has parts that an aggregation cannot take
/// over.
pub(crate) async fn find(core: &Core, ns: &Namespace, query: &Query, me: Option<TxId>) -> Result<Option<Documents>> {
    if unprobed::may(core, ns, query)
        && let Some(tail) = tail_of(query)?
        && is_answered_by_aggregation(core, ns, query).await?
        && let Some(answer) = unprobed::run(core, ns, query, &tail).await?
    {
        return Ok(Some(answer));
    }
    match find_shown(core, ns, query, me).await? {
        Some(Marked::No(answer)) => return Ok(Some(*answer)),
        Some(Marked::ByOthers) => return Ok(None),
        Some(Marked::ByOwn(_)) | None => {}
    }
    match find_command(core, ns, query, me).await? {
        Some(command) => ask(core, ns, command, me).await,
        None => Ok(None),
    }
}

/// The same by nothing but the `_id`, while something waits to be finished: what this client has
/// committed is shown where it is. What is committed while the query is under way is shown by the
/// next one. `None`: not a query for this way.
async fn find_shown(core: &Core, ns: &Namespace, query: &Query, me: Option<TxId>) -> Result<Option<Marked>> {
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
            Ok(Marked::ByOwn(writers)) => met = Some(Marked::ByOwn(writers)),
            Ok(answer) => return Ok(Some(answer)),
            Err(refused) if refused.kind() == ErrorKind::Invalid => return Ok(Some(Marked::ByOthers)),
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
    if !core.catalog.ensure_pending_index(&core.server, ns).await? {
        return Ok(None);
    }
    let stages = own_stages(me, ns, query)?;
    match behind_probe(core, ns, query, Some(me), stages).await? {
        Some(command) => ask(core, ns, command, Some(me)).await,
        None => Ok(None),
    }
}

/// The same for a transaction that has only removed documents of the collection: it sees what
/// everybody sees but for those, so that order and limit are the indexes' business.
pub(crate) async fn find_unremoved(core: &Core, ns: &Namespace, query: &Query, me: TxId) -> Result<Option<Documents>> {
    let Some(tail) = tail_of(query)? else { return Ok(None) };
    if !is_answered_by_aggregation(core, ns, query).await? {
        return Ok(None);
    }
    let others = view::safe_filter_beside(&query.filter, me, core.catalog.shards.none());
    let answer = [doc! {"$match": others}].into_iter().chain(tail).collect();
    match behind_probe(core, ns, query, Some(me), answer).await? {
        Some(command) => ask(core, ns, command, Some(me)).await,
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
pub(crate) async fn run(
    core: &Core,
    ns: &Namespace,
    query: &Query,
    me: Option<TxId>,
    tail: Vec<Document>,
) -> Result<Option<Documents>> {
    if unprobed::may(core, ns, query)
        && is_answered_by_aggregation(core, ns, query).await?
        && let Some(answer) = unprobed::run(core, ns, query, &tail).await?
    {
        return Ok(Some(answer));
    }
    match of_query(core, ns, query, me, tail).await? {
        Some(command) => ask(core, ns, command, me).await,
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
    if query.sees_lock_fields() || sd2v::filter::has_special(&query.filter) || query.terms.find_only.is_some() {
        return Ok(false);
    }
    core.catalog.ensure_pending_index(&core.server, ns).await
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

/// The same without having anything finished before.
async fn after_probe(
    core: &Core,
    ns: &Namespace,
    query: &Query,
    me: Option<TxId>,
    answer: Vec<Document>,
) -> Result<Option<Command>> {
    let pending = core.pending_filter(ns, &query.filter, me).await?;
    let wide = match wants_all_writers(query, &answer) {
        true => wide_probe(core, ns, &query.filter, me, query.batch_size, &query.terms).await?,
        false => None,
    };
    let behind_all = wide.and_then(|(all, looks)| {
        let command = behind(ns, query, who_has_anything(ns, &all), all, answer.clone())?;
        Some((Box::new(command), looks))
    });
    let first = match is_for_everything_in_crowd(core, ns, &pending, me, &query.terms).await? {
        true => who_has_anything(ns, &pending),
        false => who_has_pending(ns, &pending),
    };
    Ok(behind(ns, query, first, pending, answer).map(|command| Command { behind_all, ..command }))
}

/// The answer behind a probe: the `find` or aggregation `first`, or its condition in one pipeline.
fn behind(ns: &Namespace, query: &Query, first: Document, pending: Document, answer: Vec<Document>) -> Option<Command> {
    let mut apart = as_find(&ns.coll, &answer).map(|answer| [first, answer]);
    let mut piped = command(&ns.coll, &[(ns.coll.as_str(), pending)], answer, &query.terms)?;
    if let Some(size) = query.batch_size {
        piped.insert("cursor", doc! {"batchSize": i64::from(size)});
    }
    if let Some([probe, answer]) = &mut apart {
        query.terms.add_to(probe);
        query.terms.add_to(answer);
        answer.insert("allowDiskUse", true);
        answer.extend(query.batch_size.map(|size| ("batchSize".to_owned(), i64::from(size).into())));
    }
    Some(Command { piped, apart, behind_all: None })
}

/// Is it the first few of an order, or a count? Which pending documents matter to it has to be
/// found out document by document, among many that match: that takes far longer than the answer.
fn wants_all_writers(query: &Query, answer: &[Document]) -> bool {
    let is_first_few = query.limit > 0 && query.sort.as_ref().is_some_and(|sort| !sort.is_empty());
    is_first_few || is_counted(answer)
}

/// Does the pipeline end with a sum?
pub(crate) fn is_counted(answer: &[Document]) -> bool {
    answer.last().is_some_and(|stage| stage.contains_key("$group") || stage.contains_key("$count"))
}

/// Is this the condition for everything that is pending in a crowded collection? Then its documents
/// are those of a few writers, probably, of which each is found in one step.
async fn is_for_everything_in_crowd(
    core: &Core,
    ns: &Namespace,
    pending: &Document,
    me: Option<TxId>,
    terms: &Terms,
) -> Result<bool> {
    if terms.collation.is_some() {
        return Ok(false);
    }
    let is_crowded = core.catalog.look_up(&core.server, ns).await?.wide_probes().is_some();
    Ok(is_crowded && core.pending_filter(ns, &Document::new(), me).await? == *pending)
}

/// The condition for everything that is pending, if its writers are to be looked for, and whoever
/// counts what came of it (decision 0065). The index on pending documents tells of each in one
/// step.
pub(crate) async fn wide_probe(
    core: &Core,
    ns: &Namespace,
    filter: &Document,
    me: Option<TxId>,
    batch_size: Option<u32>,
    terms: &Terms,
) -> Result<Option<(Document, Arc<WideProbes>)>> {
    let is_special = terms.collation.is_some() || batch_size.is_some_and(|size| size as usize <= MAX_WRITERS);
    // What this client has left is decided: it is looked for where it matters.
    if is_special || core.finisher.has_left(ns) {
        return Ok(None);
    }
    let collection = core.catalog.look_up(&core.server, ns).await?;
    // Few documents match: they are looked at.
    let (false, Some(looks)) =
        (filter.contains_key("_id") || collection.is_pinned_by(filter), collection.wide_probes())
    else {
        return Ok(None);
    };
    let all = core.pending_filter(ns, &Document::new(), me).await?;
    let is_wider = core.pending_filter(ns, filter, me).await? != all;
    Ok((is_wider && looks.is_next_wide()).then_some((all, looks)))
}

/// The `find` that answers the writers of pending documents, up to one more than are looked into.
fn who_has_pending(ns: &Namespace, pending: &Document) -> Document {
    let most = MAX_WRITERS as i64 + 1;
    let shown = doc! {WRITER: 1, "_id": 0};
    doc! {
        "find": &ns.coll, "filter": pending.clone(), "projection": shown, "limit": most, "batchSize": most,
        "singleBatch": true,
    }
}

/// The aggregation that answers the writers of all pending documents, one step of an index for
/// each.
fn who_has_anything(ns: &Namespace, all: &Document) -> Document {
    let batch = doc! {"batchSize": MAX_WRITERS as i64 + 1};
    doc! {"aggregate": &ns.coll, "pipeline": probe(all.clone()), "cursor": batch}
}

/// The answer's stages on `coll`, behind the probes: each a collection and the pending documents
/// that matter there. `None` when the terms cannot be carried over: a hint would bind the first
/// part only.
pub(crate) fn command(
    coll: &str,
    probes: &[(&str, Document)],
    answer: Vec<Document>,
    terms: &Terms,
) -> Option<Document> {
    if terms.hint.is_some() || terms.variables.is_some() || terms.find_only.is_some() {
        return None;
    }
    let nowhere = doc! {"_id": {"$in": []}};
    let (first, others) = match probes.split_first() {
        Some(((first, filter), others)) if *first == coll => (filter.clone(), others),
        _ => (nowhere, probes),
    };
    let mut pipeline = probe(first);
    for (other, filter) in others {
        pipeline.push(doc! {"$unionWith": {"coll": *other, "pipeline": probe(filter.clone())}});
    }
    pipeline.push(doc! {"$unionWith": {"coll": coll, "pipeline": answer}});
    let mut command = doc! {"aggregate": coll, "pipeline": pipeline, "cursor": {}, "allowDiskUse": true};
    terms.add_to(&mut command);
    Some(command)
}

fn probe(pending: Document) -> Vec<Document> {
    let mark = doc! {UNSAFE: {"$literal": true}, WRITER: "$_id"};
    let mut stages = view::writers(pending);
    stages.extend([doc! {"$limit": MAX_WRITERS as i64 + 1}, doc! {"$replaceWith": mark}]);
    stages
}

/// The answer; `None` when something is pending that is decided, or when the server refuses to give
/// one: an expression may have failed on a version that is not the latest, behind a mark that did
/// not arrive. The long way finds out.
pub(crate) async fn ask(
    core: &Core,
    ns: &Namespace,
    command: impl Into<Command>,
    me: Option<TxId>,
) -> Result<Option<Documents>> {
    let (sees, command) = (me.as_slice(), command.into());
    let answer = match unless_marked(core, ns, &command, sees).await {
        Ok(Marked::ByOwn(committed)) if core.finisher.has_left(ns) => {
            match core.finisher.finish_for_query(ns, committed).await {
                true => unless_decided(core, ns, &command, sees).await,
                false => Ok(Marked::ByOthers),
            }
        }
        answer => answer,
    };
    match answer {
        Ok(Marked::No(answer)) => Ok(Some(*answer)),
        Ok(_) => Ok(None),
        Err(refused) if refused.kind() == ErrorKind::Invalid => Ok(None),
        Err(error) => Err(error),
    }
}

/// A query behind its probes.
pub(crate) struct Command {
    /// As one pipeline.
    piped: Document,
    /// As two `find`s, which the server carries out one after the other: which transactions have
    /// something pending, and the answer.
    apart: Option<[Document; 2]>,
    /// The same behind a look for the writers of everything that is pending in the collection. It
    /// is asked first.
    behind_all: Option<(Box<Self>, Arc<WideProbes>)>,
}

impl Command {
    /// The same, but first as this pipeline, which is behind a look for all writers.
    pub(crate) fn first_behind(self, all: Document, looks: Arc<WideProbes>) -> Self {
        Self { behind_all: Some((Box::new(all.into()), looks)), ..self }
    }

    /// The pipeline, for whoever explains it.
    pub(crate) fn into_pipeline(self) -> Document {
        self.piped
    }
}

impl From<Document> for Command {
    fn from(piped: Document) -> Self {
        Self { piped, apart: None, behind_all: None }
    }
}

/// Is there anything decided before the answer?
enum Marked {
    No(Box<Documents>),
    /// These, which this client has committed.
    ByOwn(Vec<TxId>),
    ByOthers,
}

async fn unless_marked(core: &Core, ns: &Namespace, command: &Command, sees: &[TxId]) -> Result<Marked> {
    if let Some((all, looks)) = &command.behind_all {
        let answer = match if_all_are_active(core, ns, all, sees).await {
            // A writer may be to blame that does not matter.
            Err(error) if error.kind() != ErrorKind::Unavailable => Ok(None),
            answer => answer,
        };
        looks.note(matches!(answer, Ok(Some(_))));
        if let Some(answer) = answer? {
            return Ok(Marked::No(Box::new(answer)));
        }
    }
    unless_decided(core, ns, command, sees).await
}

/// The answer, if none of the writers before it is decided. (One who is need not matter.)
async fn if_all_are_active(core: &Core, ns: &Namespace, command: &Command, sees: &[TxId]) -> Result<Option<Documents>> {
    let asked = match &command.apart {
        Some(apart) => ask_apart(core, ns, apart).await?,
        None => Apart::NotSent,
    };
    let asked = match asked {
        Apart::NotSent => ask_piped(core, ns, command.piped.clone()).await?,
        Apart::TooMany => None,
        Apart::Answered(writers, answer) => Some((writers, *answer)),
    };
    let Some((mut writers, mut answer)) = asked else { return Ok(None) };
    writers.retain(|writer| !sees.contains(writer));
    if writers.is_empty() {
        return Ok(Some(answer));
    }
    answer.peek().await?;
    Ok(core.log.are_active(&writers).await?.then_some(answer))
}

async fn unless_decided(core: &Core, ns: &Namespace, command: &Command, sees: &[TxId]) -> Result<Marked> {
    let asked = match &command.apart {
        Some(apart) => ask_apart(core, ns, apart).await?,
        None => Apart::NotSent,
    };
    let (writers, mut answer) = match asked {
        Apart::Answered(writers, answer) => (writers, *answer),
        // The documents may be those of a few writers.
        Apart::TooMany | Apart::NotSent => match ask_piped(core, ns, command.piped.clone()).await? {
            Some(asked) => asked,
            None => return Ok(Marked::ByOthers),
        },
    };
    let writers: Vec<TxId> = writers.into_iter().filter(|writer| !sees.contains(writer)).collect();
    if writers.is_empty() {
        return Ok(Marked::No(Box::new(answer)));
    }
    // The first documents of the answer are there, the others come later still.
    answer.peek().await?;
    let statuses = core.log.statuses(&writers).await?;
    let decided: Vec<(TxId, TxStatus)> =
        writers.into_iter().zip(statuses).filter(|(_, status)| *status != TxStatus::Active).collect();
    // Finished since: the next answer has it.
    let is_over = |status| matches!(status, TxStatus::Committed | TxStatus::Finished);
    let is_own = |(writer, status): &(TxId, TxStatus)| is_over(*status) && core.log.owns(writer.client);
    Ok(match decided.is_empty() {
        true => Marked::No(Box::new(answer)),
        false if decided.iter().all(is_own) => Marked::ByOwn(decided.into_iter().map(|(writer, _)| writer).collect()),
        false => Marked::ByOthers,
    })
}

/// The writers of what is pending, and the answer behind it. `None`: there are more of them than
/// are looked into.
async fn ask_piped(core: &Core, ns: &Namespace, command: Document) -> Result<Option<(Vec<TxId>, Documents)>> {
    let mut answer = Documents::streaming(core.server.cursor(&ns.db, command).await?);
    let mut writers = Vec::new();
    while let Some(mark) = answer.next_if(is_mark).await? {
        match document::parse(&mark)?.get(WRITER).and_then(tx_id_from_bson) {
            Some(writer) if writers.len() < MAX_WRITERS => writers.push(writer),
            _ => return Ok(None),
        }
    }
    Ok(Some((writers, answer)))
}

/// What two commands in one write have answered.
enum Apart {
    /// The writers of what is pending, and the answer behind it.
    Answered(Vec<TxId>, Box<Documents>),
    /// The first one tells of more documents, or writers, than are looked into.
    TooMany,
    /// They cannot be sent together.
    NotSent,
}

/// The same as [`ask_piped`], by two commands.
async fn ask_apart(core: &Core, ns: &Namespace, [probe, answer]: &[Document; 2]) -> Result<Apart> {
    let both = [(ns.db.as_str(), probe), (ns.db.as_str(), answer)];
    let Some(answers) = core.server.cursors_together(&both).await? else { return Ok(Apart::NotSent) };
    let mut answers = answers.into_iter();
    let (Some(probe), Some(answer)) = (answers.next(), answers.next()) else { return Ok(Apart::NotSent) };
    let (mut probe, mut writers, mut pending) = (probe?, Vec::new(), 0);
    while let Some(document) = probe.next().await? {
        pending += 1;
        match document::parse(&document)?.get(WRITER).and_then(tx_id_from_bson) {
            Some(writer) if pending <= MAX_WRITERS => writers.push(writer),
            _ => return Ok(Apart::TooMany),
        }
    }
    writers.sort_unstable();
    writers.dedup();
    Ok(Apart::Answered(writers, Box::new(Documents::streaming(answer?))))
}

fn is_mark(document: &RawDocument) -> bool {
    matches!(document.get(UNSAFE), Ok(Some(RawBsonRef::Boolean(true))))
}
