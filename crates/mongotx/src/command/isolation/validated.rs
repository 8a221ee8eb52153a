//! Reads of transactions that are validated at their commit: answered as at read committed, and
//! noted.
//!
//! | read | what is noted |
//! | --- | --- |
//! | of one whole document by its `_id` | the document's digest |
//! | of collections to which the transaction has written nothing | the command, and a digest of its answer; where it has found a document for each key of a unique index that it allows, their `_id`s |
//! | a list of documents with their `_id`s, of a collection that it has written to | the command, and a digest of the documents in the answer that are not its own |
//! | any other of such collections, or one that answers by chance | in place of the command, the documents of others that matter to it ([`super::bracket`]) |
//! | of some fields of a few documents by their `_id`s | the command, a digest, and the documents: a lock that finds them as they were settles it |
//! | of a document that is its own, or that the statement itself locks | nothing: the lock keeps it |
//!
//! [`super::validation`] reads all of it again. Reads of statements that write are in
//! [`super::reads_of_writes`].

use bson::{Bson, Document, doc};

use super::{
    bracket::{Bracket, at_hand, id_of, matters_to, matters_to_shown},
    committed,
};
use crate::{
    command::{access_paths::plan::Plan, query::documents::Documents},
    coordinator::{
        Core,
        queries::nondeterminism,
        read_set::{
            Entry, Point, Read, changed,
            witness::{Digest, Witness},
        },
        request::{
            address::Address, own_key::OwnKey, pipeline::AggregateCommand, query::Query, query_options::QueryOptions,
        },
        transaction::Transaction,
    },
    error::Result,
    options::Namespace,
};

/// `find` at snapshot and serializable.
pub(crate) async fn find(core: &Core, tx: &mut Transaction, ns: &Namespace, query: &Query) -> Result<Documents> {
    core.quiet.give_quiet(tx).await;
    let query = &bound(core, query).await?;
    if !nondeterminism::is_in_query(query)
        && let Some(id) = query.pinned_id(core, ns).await?
    {
        return find_pinned(core, tx, ns, query, id).await;
    }
    let written = tx.has_written(ns);
    if written
        && !nondeterminism::is_in_query(query)
        && let Some(found) = Box::pin(find_first_of_others(core, tx, ns, query)).await?
    {
        return Ok(found);
    }
    if nondeterminism::is_in_query(query) || (written && !query.lists_documents()) {
        return Box::pin(find_in_bracket(core, tx, ns, query)).await;
    }
    let found = committed::find(core, Some(tx), ns, query).await?;
    let read = Read::Find(query.clone());
    if let Some(before) = tx.reads.same(ns, &read, tx.own_mark(ns)) {
        return repeated(core, ns, found, before).await;
    }
    if !written {
        let witness = Witness::of_keys(keys_allowed(core, ns, query).await?).with_copy(tx.reads.answer_copy(query));
        tx.reads.note(Entry::of(ns, read, 0, witness.clone()), core.options.max_documents)?;
        return Ok(found.witnessed(witness));
    }
    let found = at_hand(core, found).await?;
    let others = found.iter().filter(|document| !id_of(document).is_some_and(|id| tx.is_own(ns, &id)));
    let witness = Witness::of(Digest::of(others.map(AsRef::as_ref)));
    let own = tx.own_mark(ns);
    tx.reads.note(Entry::of(ns, read, own, witness), core.options.max_documents)?;
    Ok(Documents::at_hand(found))
}

/// Number of documents that are the whole answer of the query if it finds that many: one for each
/// key of a unique index that it allows. 0: any number may be.
async fn keys_allowed(core: &Core, ns: &Namespace, query: &Query) -> Result<usize> {
    if query.skip > 0 || !query.options.is_plain() || !query.shows_ids() {
        return Ok(0);
    }
    Ok(core.catalog.look_up(ns).await?.keys_allowed(&query.filter).unwrap_or(0))
}

/// The result of a query that was sent before, and read to its end, when the transaction had not
/// yet written to the collection: with another answer than then the transaction could not be
/// committed.
async fn repeated(core: &Core, ns: &Namespace, found: Documents, before: Digest) -> Result<Documents> {
    let found = at_hand(core, found).await?;
    match Digest::of(found.iter().map(AsRef::as_ref)) == before {
        true => Ok(Documents::at_hand(found)),
        false => Err(changed(ns, None)),
    }
}

async fn find_pinned(core: &Core, tx: &mut Transaction, ns: &Namespace, query: &Query, id: Bson) -> Result<Documents> {
    let found = committed::find(core, Some(tx), ns, query).await?;
    if tx.is_own(ns, &id) {
        return Ok(found);
    }
    let found = at_hand(core, found).await?;
    if found.iter().any(|document| id_of(document).is_some_and(|id| tx.is_own(ns, &id))) {
        // By an equal `_id` of another type.
        return Ok(Documents::at_hand(found));
    }
    let limit = core.options.max_documents;
    if query.is_whole_document() && OwnKey::of_simple(&id).is_some() {
        let digest = Digest::of(found.iter().map(AsRef::as_ref));
        tx.reads.note_point(ns, Point { id, digest }, limit)?;
    } else {
        let witness = Witness::default().with_copy(tx.reads.answer_copy(query));
        found.iter().for_each(|document| witness.saw(document));
        witness.ended();
        let entry = Entry::of(ns, Read::Find(query.clone()), 0, witness);
        tx.reads.note(Entry { pinned: Some(id), ..entry }, limit)?;
    }
    Ok(Documents::at_hand(found))
}

/// The first few documents, if none of them is the transaction's own: then they are the first of
/// the others, too, which can be read again. `None`: another kind of query, or of answer.
async fn find_first_of_others(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    query: &Query,
) -> Result<Option<Documents>> {
    let unlimited = Query { limit: 0, ..query.clone() };
    if query.limit == 0 || !unlimited.lists_documents() {
        return Ok(None);
    }
    let of_others = Query { projection: query.projection.clone(), ..matters_to_shown(core, tx, ns, query).await? };
    if of_others.limit != query.limit {
        return Ok(None);
    }
    let found = at_hand(core, committed::find(core, Some(tx), ns, query).await?).await?;
    if found.iter().any(|document| id_of(document).is_none_or(|id| tx.is_own(ns, &id))) {
        return Ok(None);
    }
    let witness = Witness::of(Digest::of(found.iter().map(AsRef::as_ref)));
    tx.reads.note(Entry::of(ns, Read::Find(of_others), 0, witness), core.options.max_documents)?;
    Ok(Some(Documents::at_hand(found)))
}

async fn find_in_bracket(core: &Core, tx: &mut Transaction, ns: &Namespace, query: &Query) -> Result<Documents> {
    let mut bracket = Bracket::of(core, tx, vec![(ns.clone(), matters_to_shown(core, tx, ns, query).await?)]);
    loop {
        bracket.open(tx).await?;
        let found = at_hand(core, committed::find(core, Some(tx), ns, query).await?).await?;
        if bracket.close(tx).await? {
            return Ok(Documents::at_hand(found));
        }
    }
}

/// Addresses of the documents that a query finds: as [`committed::addresses`].
pub(crate) async fn addresses(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    query: &Query,
    limit: usize,
) -> Result<Vec<Address>> {
    if !tx.validates() {
        return committed::addresses(core, Some(tx), ns, query, limit).await;
    }
    let key = core.catalog.shard_key(ns).await?;
    let found = find(core, tx, ns, &committed::of_addresses(query, &key)).await?;
    committed::parse_addresses(found, &key, limit).await
}

/// `count` at snapshot and serializable, exactly.
pub(crate) async fn count(core: &Core, tx: &mut Transaction, ns: &Namespace, query: &Query) -> Result<u64> {
    core.quiet.give_quiet(tx).await;
    let query = &bound(core, query).await?;
    if !tx.has_written(ns) && !nondeterminism::is_in_query(query) {
        let counted = committed::count(core, Some(tx), ns, query).await?;
        let witness = Witness::of(Digest::of_count(counted));
        tx.reads.note(Entry::of(ns, Read::Count(query.clone()), 0, witness), core.options.max_documents)?;
        return Ok(counted);
    }
    let matter = matters_to(core, tx, ns, query).await?;
    // With chance in the filter, which documents match may depend on all that is in them.
    let shown = if nondeterminism::is_in_query(query) { None } else { Some(doc! {"_id": 1}) };
    let mut bracket = Bracket::of(core, tx, vec![(ns.clone(), Query { projection: shown, ..matter })]);
    loop {
        bracket.open(tx).await?;
        let counted = committed::count(core, Some(tx), ns, query).await?;
        if bracket.close(tx).await? {
            return Ok(counted);
        }
    }
}

/// `distinct` at snapshot and serializable.
pub(crate) async fn distinct(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    field: &str,
    query: &Query,
) -> Result<Vec<Bson>> {
    core.quiet.give_quiet(tx).await;
    let query = &bound(core, query).await?;
    if !tx.has_written(ns) && !nondeterminism::is_in_query(query) {
        let values = committed::distinct(core, Some(tx), ns, field, query).await?;
        let witness = Witness::of(Digest::of_values(&values)?);
        let read = Read::Distinct(field.to_owned(), query.clone());
        tx.reads.note(Entry::of(ns, read, 0, witness), core.options.max_documents)?;
        return Ok(values);
    }
    let mut bracket = Bracket::of(core, tx, vec![(ns.clone(), matters_to(core, tx, ns, query).await?)]);
    loop {
        bracket.open(tx).await?;
        let values = committed::distinct(core, Some(tx), ns, field, query).await?;
        if bracket.close(tx).await? {
            return Ok(values);
        }
    }
}

/// `aggregate`, of a pipeline that writes nothing.
pub(crate) async fn aggregate(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    command: &AggregateCommand,
) -> Result<Documents> {
    core.quiet.give_quiet(tx).await;
    let mut command = nondeterminism::bind_time_in_pipeline(core, command).await?.into_owned();
    command.options.staleness = None;
    let command = &command;
    let plan = Plan::of(core, Some(tx), ns, command).await?;
    let reads = plan.reads();
    if reads.is_empty() {
        return plan.run(core).await;
    }
    if !plan.sees_own() && !nondeterminism::is_in_pipeline(&command.pipeline) {
        let witness = Witness::default();
        let collections = reads.into_iter().map(|(ns, _)| ns).collect();
        let entry = Entry::of(ns, Read::Aggregate(command.clone()), 0, witness.clone());
        tx.reads.note(Entry { collections, ..entry }, core.options.max_documents)?;
        return Ok(plan.run(core).await?.witnessed(witness));
    }
    let mut matter = Vec::new();
    for (ns, condition) in reads {
        let condition = if nondeterminism::is_in(&condition) { Document::new() } else { condition };
        let options = QueryOptions { hint: None, staleness: None, ..command.options.clone() };
        let of_others = matters_to(core, tx, &ns, &Query::of(condition, options)).await?;
        matter.push((ns, of_others));
    }
    let mut bracket = Bracket::of(core, tx, matter);
    loop {
        bracket.open(tx).await?;
        let plan = Plan::of(core, Some(tx), ns, command).await?;
        let found = at_hand(core, plan.run(core).await?).await?;
        if bracket.close(tx).await? {
            return Ok(Documents::at_hand(found));
        }
    }
}

/// The query with the time in place of `$$NOW`. Its answer is the latest, also where it could be a
/// little old: one that is older than the first look would not be of the moment that is validated.
async fn bound(core: &Core, query: &Query) -> Result<Query> {
    let mut bound = query.clone();
    bound.options.staleness = None;
    if let Some(filter) = nondeterminism::bind_time(core, &query.filter).await? {
        bound.filter = filter;
    }
    if let Some(projection) = &query.projection
        && let Some(projection) = nondeterminism::bind_time(core, projection).await?
    {
        bound.projection = Some(projection);
    }
    Ok(bound)
}
