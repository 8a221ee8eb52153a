//! Reads of transactions that are validated at their commit: answered as at read committed, and
//! noted.
//!
//! | read | what is noted |
//! | --- | --- |
//! | of one whole document by its `_id` | the document's digest |
//! | of collections to which the transaction has written nothing | the command, and a digest of its answer; where it has found a document for each key of a unique index that it allows, their `_id`s |
//! | a list of documents with their `_id`s, of a collection that it has written to | the command, and a digest of the documents in the answer that are not its own |
//! | any other of such collections, or one that answers by chance | in place of the command, the documents of others that matter to it ([`Bracket`]) |
//! | of some fields of a few documents by their `_id`s | the command, a digest, and the documents: a lock that finds them as they were settles it |
//! | of a document that is its own, or that the statement itself locks | nothing: the lock keeps it |
//!
//! [`super::validation`] reads all of it again.

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};

use super::{committed, validation::Validation};
use crate::{
    command::{
        access_paths::plan::Plan,
        query::{documents::Documents, order},
    },
    coordinator::{
        Core,
        queries::nondeterminism,
        read_set::{
            Entry, Point, Read,
            as_read::AsRead,
            changed,
            witness::{Digest, Witness},
        },
        request::{address::Address, own_key::OwnKey, pipeline::AggregateCommand, query::Query, terms::Terms},
        stamps::{changes::stamps_of_reads, tag::Tags},
        transaction::Transaction,
        validating::looks::{FirstLook, begin_for},
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Times that an answer and what went into it are read because the collections changed in between.
const BRACKETS: usize = 16;
/// Number of disturbed attempts before quiet is requested.
const DISTURBED: usize = 3;
/// Own documents that one filter names.
const MAX_EXCLUDED: usize = 5_000;
/// Length of them all. They stand in several conditions of one command.
const MAX_EXCLUDED_BYTES: usize = 256 * 1_024;

fn entry(ns: &Namespace, read: Read, own: usize, witness: Witness) -> Entry {
    let collections = vec![ns.clone()];
    Entry { ns: ns.clone(), read, pinned: None, ahead: None, own, witness, is_answered: true, collections }
}

/// The `_id` of a document as it is answered.
fn id_of(document: &RawDocument) -> Option<Bson> {
    Bson::try_from(document.get("_id").ok()??).ok()
}

/// `find` at snapshot and serializable.
pub(crate) async fn find(core: &Core, tx: &mut Transaction, ns: &Namespace, query: &Query) -> Result<Documents> {
    core.quiet.give_quiet(tx).await;
    let query = &bound(core, query).await?;
    if let Some(id) = query.pinned_id(core, ns).await? {
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
    if let Some(before) = tx.reads.same(ns, &read, tx.count_own(ns)) {
        return repeated(core, ns, found, before).await;
    }
    if !written {
        let witness = Witness::of_keys(keys_allowed(core, ns, query).await?).with_copy(tx.reads.answer_copy(query));
        tx.reads.note(entry(ns, read, 0, witness.clone()), core.options.max_documents)?;
        return Ok(found.witnessed(witness));
    }
    let found = at_hand(core, found).await?;
    let others = found.iter().filter(|document| !id_of(document).is_some_and(|id| tx.is_own(ns, &id)));
    let witness = Witness::of(Digest::of(others.map(AsRef::as_ref)));
    let own = tx.count_own(ns);
    tx.reads.note(entry(ns, read, own, witness), core.options.max_documents)?;
    Ok(Documents::at_hand(found))
}

/// Number of documents that are the whole answer of the query if it finds that many: one for each
/// key of a unique index that it allows. 0: any number may be.
async fn keys_allowed(core: &Core, ns: &Namespace, query: &Query) -> Result<usize> {
    if query.skip > 0 || !query.terms.is_plain() || !query.shows_ids() {
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
        let entry = entry(ns, Read::Find(query.clone()), 0, witness);
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
    tx.reads.note(entry(ns, Read::Find(of_others), 0, witness), core.options.max_documents)?;
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

/// The query for the document that others would find first, if there is such a query that can be
/// sent again.
pub(crate) async fn first_of_others(
    core: &Core,
    tx: &Transaction,
    ns: &Namespace,
    query: &Query,
) -> Result<Option<Query>> {
    let first = Query { limit: 1, ..query.clone() };
    let of_others = Query { projection: Some(doc! {"_id": 1}), ..matters_to(core, tx, ns, &first).await? };
    Ok((of_others.limit == 1).then_some(of_others))
}

/// The read of a write that has changed the first document in an order when [`first_of_others`] was
/// called; the document looked like `before` then. It is the transaction's own: what comes behind
/// it in the order is of no consequence.
pub(crate) fn read_of_first(ns: &Namespace, first: Query, id: &Bson, before: &Document) -> Result<Entry> {
    let found = RawDocumentBuf::try_from(&doc! {"_id": id.clone()})?;
    let witness = Witness::of(Digest::of([&*found]));
    let ahead = first.sort.as_ref().and_then(|sort| order::ahead_of(before, sort));
    Ok(Entry { ahead, ..entry(ns, Read::Find(first), 0, witness) })
}

/// Notes a [`read_of_first`], which is validated at the commit. `is_certain`: no other document
/// stood before the one found; otherwise the write could not see all of them.
///
/// # Errors
/// A read set that is full, which ends the transaction.
pub(crate) fn note_first(core: &Core, tx: &mut Transaction, read: Entry, is_certain: bool) -> Result<()> {
    let read = Entry { is_answered: is_certain, ..read };
    tx.reads.note(read, core.options.max_documents).map_err(|error| ending(tx, error))
}

/// Makes certain of a [`read_of_first`] now, where nothing is validated at the commit.
///
/// # Errors
/// A conflict if another document is the first.
pub(crate) async fn check_first(core: &Core, tx: &Transaction, read: &Entry) -> Result<()> {
    // The document itself is locked: it stands where it stood.
    match is_still_first(core, tx, read).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(lost(tx, changed(&read.ns, None))),
        Err(error) => Err(lost(tx, ending(tx, error))),
    }
}

/// Returns true if no document of others stands before the one that the entry has found. Documents
/// that could come before it are looked for first: of several at the same place of the order, the
/// query may find another one.
async fn is_still_first(core: &Core, tx: &Transaction, entry: &Entry) -> Result<bool> {
    if let (Some(ahead), Read::Find(first)) = (&entry.ahead, &entry.read) {
        let filter = doc! {"$and": [first.filter.clone(), ahead.clone()]};
        let mut found = committed::find(core, None, &entry.ns, &Query { filter, sort: None, ..first.clone() }).await?;
        if found.next().await.transpose()?.is_none() {
            return Ok(true);
        }
    }
    Validation::of(core).is_as_read(tx, entry).await
}

/// Makes the error of a check one that ends the transaction: a statement has changed a document
/// before the check, and the transaction must not go on with that change.
fn ending(tx: &Transaction, error: Error) -> Error {
    if error.ends_transaction() {
        return error;
    }
    let message = format!("a document was changed, and whether it was the right one is not known: {error}");
    Error::new(ErrorKind::Conflict, message).for_transaction(tx.id())
}

/// A write of many has locked what matched when it was locked: that must be all that was selected.
pub(crate) fn check_all_matched(tx: &Transaction, ns: &Namespace, selected: usize, matched: u64) -> Result<()> {
    if !tx.validates() || matched == selected as u64 {
        return Ok(());
    }
    Err(changed(ns, None).for_transaction(tx.id()))
}

/// A write has found nothing that matches.
pub(crate) async fn note_nothing(core: &Core, tx: &mut Transaction, ns: &Namespace, query: &Query) -> Result<()> {
    if !tx.validates() {
        return Ok(());
    }
    let pinned = query.pinned_id(core, ns).await?;
    if pinned.as_ref().is_some_and(|id| tx.is_own(ns, id)) {
        return Ok(());
    }
    let own = tx.count_own(ns);
    let limit = if own == 0 { 1 } else { 0 };
    let query = Query { limit, sort: None, projection: Some(doc! {"_id": 1}), ..query.clone() };
    let nothing = entry(ns, Read::Find(query), own, Witness::of(Digest::of([])));
    tx.reads.note(Entry { pinned, ..nothing }, core.options.max_documents)
}

/// `count` at snapshot and serializable, exactly.
pub(crate) async fn count(core: &Core, tx: &mut Transaction, ns: &Namespace, query: &Query) -> Result<u64> {
    core.quiet.give_quiet(tx).await;
    let query = &bound(core, query).await?;
    if !tx.has_written(ns) && !nondeterminism::is_in_query(query) {
        let counted = committed::count(core, Some(tx), ns, query).await?;
        let witness = Witness::of(Digest::of_count(counted));
        tx.reads.note(entry(ns, Read::Count(query.clone()), 0, witness), core.options.max_documents)?;
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
        tx.reads.note(entry(ns, read, 0, witness), core.options.max_documents)?;
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
    command.terms.staleness = None;
    let command = &command;
    let plan = Plan::of(core, Some(tx), ns, command).await?;
    let reads = plan.reads();
    if reads.is_empty() {
        return plan.run(core).await;
    }
    if !plan.sees_own() && !nondeterminism::is_in_pipeline(&command.pipeline) {
        let witness = Witness::default();
        let collections = reads.into_iter().map(|(ns, _)| ns).collect();
        let entry = entry(ns, Read::Aggregate(command.clone()), 0, witness.clone());
        tx.reads.note(Entry { collections, ..entry }, core.options.max_documents)?;
        return Ok(plan.run(core).await?.witnessed(witness));
    }
    let mut matter = Vec::new();
    for (ns, condition) in reads {
        let condition = if nondeterminism::is_in(&condition) { Document::new() } else { condition };
        let terms = Terms { hint: None, staleness: None, ..command.terms.clone() };
        let of_others = matters_to(core, tx, &ns, &Query::of(condition, terms)).await?;
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

/// The same for an answer that shows documents. Which are the first few has to be certain then,
/// however the server finds them: of documents that stand at the same place of the order, the
/// answer may show others than are noted.
async fn matters_to_shown(core: &Core, tx: &Transaction, ns: &Namespace, query: &Query) -> Result<Query> {
    if query.limit == 0 || has_one_order(core, ns, query).await? {
        return matters_to(core, tx, ns, query).await;
    }
    matters_to(core, tx, ns, &Query { limit: 0, ..query.clone() }).await
}

/// Returns true if no two documents that match stand at the same place of the order: it contains
/// the `_id`, or with what the filter demands a unique key.
async fn has_one_order(core: &Core, ns: &Namespace, query: &Query) -> Result<bool> {
    let Some(sort) = &query.sort else { return Ok(false) };
    if sort.contains_key("_id") {
        return Ok(true);
    }
    let mut demanded = query.filter.clone();
    demanded.extend(sort.keys().map(|field| (field.clone(), Bson::Int32(1))));
    // A `$meta` in an order is no field.
    let is_simple = query.terms.collation.is_none() && !sort.values().any(|by| matches!(by, Bson::Document(_)));
    Ok(is_simple && core.catalog.look_up(ns).await?.is_pinned_by(&demanded))
}

/// The documents of others that the query would find if it were theirs alone.
async fn matters_to(core: &Core, tx: &Transaction, ns: &Namespace, query: &Query) -> Result<Query> {
    let terms = Terms { staleness: None, find_only: None, is_always_probed: true, ..query.terms.clone() };
    if nondeterminism::is_in(&query.filter) {
        return Ok(Query::of(Document::new(), terms));
    }
    let all = Query { sort: query.sort.clone(), ..Query::of(query.filter.clone(), terms) };
    let own = tx.own_ids(ns);
    if query.limit == 0 || are_many(&own)? || may_equal_others(core, ns, query, &own).await? {
        return Ok(all);
    }
    // As many of the others as there can be in the answer.
    let filter = match own.is_empty() {
        true => all.filter.clone(),
        false => doc! {"$and": [all.filter.clone(), {"_id": {"$nin": own}}]},
    };
    Ok(Query { filter, limit: query.skip.saturating_add(query.limit), ..all })
}

/// Returns true if these are more, or longer, than one filter may name.
fn are_many(own: &[Bson]) -> Result<bool> {
    if own.is_empty() || own.len() > MAX_EXCLUDED {
        return Ok(!own.is_empty());
    }
    Ok(RawDocumentBuf::try_from(&doc! {"ids": own.to_vec()})?.as_bytes().len() > MAX_EXCLUDED_BYTES)
}

/// Returns true if an `_id` of another document can be equal to one of these. Strings can, under a
/// collation.
async fn may_equal_others(core: &Core, ns: &Namespace, query: &Query, own: &[Bson]) -> Result<bool> {
    if own.iter().all(is_equal_by_bytes) {
        return Ok(false);
    }
    Ok(query.terms.collation.is_some() || core.catalog.look_up(ns).await?.has_collation)
}

fn is_equal_by_bytes(id: &Bson) -> bool {
    !matches!(id, Bson::String(_) | Bson::Symbol(_) | Bson::Document(_) | Bson::Array(_))
}

/// An answer that cannot be compared with the same command sent again, because it shows what the
/// transaction has written, or rests on chance. Between two looks at the change stamps that agree,
/// it and the documents that matter to it are read: these are noted in its place, and at one moment
/// they were what the answer was made of.
struct Bracket<'a> {
    core: &'a Core,
    /// Documents that matter to the answer, by collection.
    matter: Vec<(Namespace, Query)>,
    /// Number of documents of each collection that are the transaction's own.
    own: Vec<usize>,
    stamps: Tags,
    look: Option<FirstLook>,
    left: usize,
}

impl<'a> Bracket<'a> {
    fn of(core: &'a Core, tx: &Transaction, matter: Vec<(Namespace, Query)>) -> Self {
        let own = matter.iter().map(|(ns, _)| tx.count_own(ns)).collect();
        let stamps = matter.iter().flat_map(|(ns, _)| stamps_of_reads(ns, None)).collect();
        Self { core, matter, own, stamps, look: None, left: BRACKETS }
    }

    /// Call before the command is sent: takes the first look.
    async fn open(&mut self, tx: &Transaction) -> Result<()> {
        if self.look.is_none() {
            self.look = Some(self.core.looks.first_look(tx, &self.stamps).await?);
        }
        Ok(())
    }

    /// Call after it was answered. False: it has to be sent again.
    async fn close(&mut self, tx: &mut Transaction) -> Result<bool> {
        let mut entries = Vec::new();
        for ((ns, query), own) in self.matter.iter().zip(&self.own) {
            let found = at_hand(self.core, committed::find(self.core, None, ns, query).await?).await?;
            let others = found.iter().filter(|document| !id_of(document).is_some_and(|id| tx.was_own(ns, &id, *own)));
            let witness = Witness::of(Digest::of(others.map(AsRef::as_ref)));
            entries.push(entry(ns, Read::Find(query.clone()), *own, witness));
        }
        let later = self.core.looks.look_at_changes(begin_for(tx)).await?;
        let changed = self.look.as_ref().and_then(|look| look.changed_at(&later, &self.stamps));
        let unchanged = changed.is_some_and(|changed| changed.is_empty());
        self.look = Some(self.core.looks.as_first(later, tx));
        if unchanged {
            entries.into_iter().try_for_each(|entry| tx.reads.note(entry, self.core.options.max_documents))?;
            if tx.id().is_some() {
                self.core.quiet.end_quiet(tx).await;
            }
            return Ok(true);
        }
        self.left -= 1;
        if self.left == BRACKETS - DISTURBED {
            self.core.quiet.ask_for_quiet(tx, &self.stamps).await;
        }
        if self.left > 0 {
            return Ok(false);
        }
        tx.attempts.lost(self.stamps.clone(), tx.quiet.as_ref());
        let message =
            format!("collections changed {BRACKETS} times while they were read beside the transaction's own writes");
        Err(Error::new(ErrorKind::Conflict, message).for_transaction(tx.id()))
    }
}

/// Reads all documents of an answer into memory.
async fn at_hand(core: &Core, found: Documents) -> Result<Vec<RawDocumentBuf>> {
    let limit = core.options.max_documents;
    let found = found.all_raw(limit.saturating_add(1)).await?;
    if found.len() <= limit {
        return Ok(found);
    }
    let message = format!(
        "a query of what the transaction has written itself answers at most {limit} documents, so that they can be validated"
    );
    Err(Error::too_large(message))
}

/// The document was locked by a statement that shows it as it was: it must be what was read.
pub(crate) async fn settle_shown(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    id: &Bson,
    shown: &Document,
) -> Result<()> {
    let Some(point) = tx.reads.point(ns, id) else { return Ok(()) };
    // Bytes that a document has no other form for may have become others on the way: then the
    // commit compares them.
    if Digest::of([&*RawDocumentBuf::try_from(shown)?]) == point.digest {
        tx.reads.settle_point(ns, id);
        return Ok(());
    }
    match Validation::of(core).check_point(tx, ns, id).await.map_err(|error| ending(tx, error))? {
        true => Ok(()),
        false => Err(lost(tx, changed(ns, Some(id)))),
    }
}

/// Counts a check under a lock that has failed. The session's next transaction selects the first
/// document of an order before it locks it; one that validates and loses so again and again is
/// given quiet, as one that loses at its commit.
fn lost(tx: &Transaction, error: Error) -> Error {
    tx.attempts.lost(tx.stamps_of_all_reads(), tx.quiet.as_ref());
    error.for_transaction(tx.id())
}

/// The document was locked by a statement that shows it as it was, at least in the fields that were
/// read: these must be what was read.
pub(crate) async fn settle_as_read(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    as_read: &AsRead,
    shown: &Document,
) -> Result<()> {
    if as_read.is_same(&RawDocumentBuf::try_from(shown)?) {
        tx.reads.settle_as_read(as_read);
        return Ok(());
    }
    // The bytes alone may differ: so another read finds out whether the answer is still the same.
    // If it is, the commit reads once more.
    for entry in tx.reads.entries_of(as_read) {
        if !Validation::of(core).is_as_read(tx, entry).await.map_err(|error| ending(tx, error))? {
            return Err(lost(tx, changed(ns, entry.pinned.as_ref())));
        }
    }
    Ok(())
}

/// The query with the time in place of `$$NOW`. Its answer is the latest, also where it could be a
/// little old: one that is older than the first look would not be of the moment that is validated.
async fn bound(core: &Core, query: &Query) -> Result<Query> {
    let mut bound = query.clone();
    bound.terms.staleness = None;
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
