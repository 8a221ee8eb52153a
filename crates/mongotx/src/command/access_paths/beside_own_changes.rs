//! Queries without a probe beside what transactions of this client have left in the collection, or
//! are being decided there (decision 0077). What they have changed makes no difference to which
//! documents are found; of each document both versions are fetched, and the client shows the right
//! one.
//!
//! The answer is the state after everything that had been decided before the query was sent. One
//! document may be newer: it may show a transaction that was being decided then, or later.
//!
//! Of a query by nothing but the `_id` it makes no difference either what transactions have
//! inserted and removed: documents that wait to be inserted are fetched as well, and the client
//! leaves out what is not there. So it shows a transaction its own changes, too.
//!
//! Every function here returns `None` if the query cannot be answered in this way; its caller then
//! sends it in another one.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bson::{Bson, Document, RawDocument, RawDocumentBuf};
use protocol::{LockState, TxId, TxStatus, Version};
use sd2v::view;

use super::unprobed;
use crate::{
    command::query::{
        documents::Documents,
        either_version::{lock_of, of_either_version, shows_either_version, unsafe_answer},
    },
    coordinator::{
        Core,
        catalog::Collection,
        finishing::finisher::ByNow,
        queries::read_lease::{FoundBy, PermitBeside},
        request::{fields::Fields, id_span::IdSpan, own_key::OwnKey, query::Query},
        server::stream::Stream,
    },
    document,
    error::{ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// The greatest limit of such a query, whose documents come together. A query without a limit is
/// answered only if it fits into the server's first batch.
const MOST_DOCUMENTS: u64 = 1_000;
/// Documents that the server sends at first if it is not asked for more.
const FIRST_BATCH: u64 = 101;
/// Documents by which a query by `_id` may be longer than its limit: some may not be there.
const SPARE: u64 = 16;

/// A document of the answer, as it is stored, and its locks.
struct Stored {
    document: RawDocumentBuf,
    lock: LockState,
    /// `None`: its `_id` equals others.
    key: Option<OwnKey>,
}

/// The documents that match the query, if its client is alone and has left something in the
/// collection, or if its decisions have disturbed a query there that does not look at them.
pub(crate) async fn find(core: &Core, ns: &Namespace, query: &Query) -> Result<Option<Documents>> {
    let is_wanted = core.unprobed.has_own(ns) || !core.unprobed.may_be_permitted(ns);
    if is_wanted { find_for(core, ns, query, None).await } else { Ok(None) }
}

/// The same in the view of a transaction that has written to the collection, by nothing but the
/// `_id`: of its own documents, the query shows what the transaction has made of them.
pub(crate) async fn find_own(core: &Core, ns: &Namespace, query: &Query, me: TxId) -> Result<Option<Documents>> {
    // A query that is sent in another way is no reason to take a lease.
    let may_be_sent = finds_by_id(query) && unprobed::may(core, ns, query);
    if may_be_sent { find_for(core, ns, query, Some(me)).await } else { Ok(None) }
}

/// The answer for every reader, or for this transaction if the query finds by `_id`.
async fn find_for(core: &Core, ns: &Namespace, query: &Query, me: Option<TxId>) -> Result<Option<Documents>> {
    if core.unprobed.was_in_vain(ns) {
        return Ok(None);
    }
    let Some((found_by, known)) = found_by(core, ns, query).await? else { return Ok(None) };
    let Some(permit) = core.unprobed.permit_beside(ns, found_by).await else { return Ok(None) };
    let answer = ask(core, ns, query, me, &known, &permit).await?;
    // A transaction that has removed many documents is in vain by itself: siblings do not wait for
    // it.
    if answer.is_some() || me.is_none() {
        core.unprobed.note_beside(ns, answer.is_some());
    }
    Ok(answer.map(Documents::at_hand))
}

async fn ask(
    core: &Core,
    ns: &Namespace,
    query: &Query,
    me: Option<TxId>,
    known: &Arc<Collection>,
    permit: &PermitBeside,
) -> Result<Option<Vec<RawDocumentBuf>>> {
    let is_by_id = permit.is_by_id();
    core.server.at(Step::BeforeQueryBeside).await;
    let by_now = core.finisher.by_now();
    let answer = match core.server.cursor(&ns.db, command(core, ns, query, is_by_id)).await {
        Err(refused) if refused.kind() == ErrorKind::Invalid => return Ok(None),
        answer => answer?,
    };
    if !answer.has_come() {
        return Ok(None);
    }
    core.server.at(Step::AfterQueryBeside).await;
    let Some(stored) = stored(query, answer).await? else { return Ok(None) };
    let keys: Vec<Option<OwnKey>> = stored.iter().map(|one| one.key.clone()).collect();
    let span = span(query, known, &stored);
    // Nothing is waited for in vain.
    if !are_different(&keys) || core.unprobed.begun_beside(permit, ns, &keys, &span).is_none() {
        return Ok(None);
    }
    let writer_statuses = writer_statuses(core, &stored, me, by_now).await?;
    // The server may have scanned an index that was not known.
    let is_known = Arc::ptr_eq(known, &core.catalog.look_up(ns).await?);
    // Last: what has begun to be decided by now may be in the answer.
    let meanwhile = core.unprobed.begun_beside(permit, ns, &keys, &span).filter(|_| is_known);
    let Some(meanwhile) = meanwhile else { return Ok(None) };
    let status = |id: TxId| match writer_statuses.get(&id) {
        _ if Some(id) == me => WriterStatus::Committed,
        _ if meanwhile.has_begun_later(id) => WriterStatus::Uncommitted,
        Some(status) => *status,
        None => WriterStatus::Unknown,
    };
    if stored.iter().filter_map(|one| one.lock.writer).any(|id| status(id) == WriterStatus::NewlyCommitted) {
        // Reads that may be a little old are not to go back behind this one.
        core.pending.saw_unfinished(ns);
    }
    shown(query, stored, status, is_by_id)
}

/// The part of all `_id`s in which a query by `_id` alone has looked for documents: if it has
/// fetched as many as it may, none behind the last.
fn span(query: &Query, known: &Collection, stored: &[Stored]) -> IdSpan {
    if known.has_collation {
        return IdSpan::default();
    }
    let (span, is_full) = (IdSpan::of(query), stored.len() as u64 == query.limit + SPARE);
    let last = stored.last().filter(|_| is_full).and_then(|last| last.document.get("_id").ok().flatten());
    match last.and_then(|id| Bson::try_from(id).ok()) {
        Some(id) => span.up_to(&id, query),
        None => span,
    }
}

/// The documents as they are shown. `None`: one of them is damaged or should not be in the answer,
/// or too few are left.
fn shown(
    query: &Query,
    stored: Vec<Stored>,
    status: impl Fn(TxId) -> WriterStatus,
    is_by_id: bool,
) -> Result<Option<Vec<RawDocumentBuf>>> {
    let (fetched, mut shown) = (stored.len() as u64, Vec::with_capacity(stored.len()));
    for one in stored {
        match version(&one.lock, &status, is_by_id) {
            Some(Version::Safe) => shown.push(one.document),
            Some(Version::Unsafe) => match unsafe_answer(query, &one.document)? {
                Some(document) => shown.push(document),
                None => return Ok(None),
            },
            Some(Version::Absent) => {}
            None => return Ok(None),
        }
    }
    let is_short = is_by_id && fetched == query.limit + SPARE && (shown.len() as u64) < query.limit;
    if query.limit > 0 {
        shown.truncate(usize::try_from(query.limit).unwrap_or(usize::MAX));
    }
    Ok((!is_short).then_some(shown))
}

/// The version that is shown of a document. `None`: that is not known, or it should not be in the
/// answer.
fn version(lock: &LockState, status: &impl Fn(TxId) -> WriterStatus, is_by_id: bool) -> Option<Version> {
    let comes_or_goes = lock.insert || lock.remove;
    match lock.writer.map(status) {
        Some(WriterStatus::Unknown) => None,
        Some(WriterStatus::Committed | WriterStatus::NewlyCommitted) if comes_or_goes && !is_by_id => None,
        Some(WriterStatus::Committed | WriterStatus::NewlyCommitted) if lock.remove => Some(Version::Absent),
        Some(WriterStatus::Committed | WriterStatus::NewlyCommitted) => Some(Version::Unsafe),
        None | Some(WriterStatus::Uncommitted) if !lock.insert => Some(Version::Safe),
        Some(WriterStatus::Uncommitted) if is_by_id => Some(Version::Absent),
        None | Some(WriterStatus::Uncommitted) => None,
    }
}

/// The `find` that fetches both versions.
fn command(core: &Core, ns: &Namespace, query: &Query, is_by_id: bool) -> Document {
    let filter = match is_by_id {
        true => query.filter.clone(),
        false => view::safe_filter(&query.filter, core.catalog.shards.none()),
    };
    let mut find = of_either_version(query, ns, filter);
    // All of the answer is wanted at once, however much of it the caller takes at a time.
    find.remove("batchSize");
    if query.limit > 0 {
        let limit = query.limit + if is_by_id { SPARE } else { 0 };
        find.insert("limit", limit as i64);
        // The server leaves a cursor open that has filled its batch.
        find.insert("batchSize", limit as i64 + 1);
    }
    find
}

/// Status of a transaction that holds a document of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriterStatus {
    /// The transaction is committed; this client knew that when the query was sent, or has learnt
    /// it since. Or it is the query's own.
    Committed,
    /// The transaction is committed, and the finisher does not know it yet.
    NewlyCommitted,
    /// The transaction is not decided, or rolled back: its documents show their safe versions.
    Uncommitted,
    /// The status cannot be known.
    Unknown,
}

/// Returns true if no document is in the answer twice: an exchange of unique values moves documents
/// in an index, although they are not changed.
fn are_different(keys: &[Option<OwnKey>]) -> bool {
    let mut seen = HashSet::new();
    keys.iter().flatten().all(|key| seen.insert(key))
}

/// The fields on which it depends which documents the query finds, and how the server scans for
/// them; and what is known of the collection. `None`: all fields, or another version of a document
/// cannot be shown in its place.
async fn found_by(core: &Core, ns: &Namespace, query: &Query) -> Result<Option<(FoundBy, Arc<Collection>)>> {
    // A caller that takes few documents at a time may not take all of a long answer.
    let is_wanted_whole =
        query.limit <= FIRST_BATCH || query.batch_size.is_none_or(|size| u64::from(size) >= query.limit);
    if query.limit > MOST_DOCUMENTS || !is_wanted_whole || !query.shows_ids() || !shows_either_version(query) {
        return Ok(None);
    }
    let fields = Fields::found_by(query);
    if fields == Fields::All || !core.catalog.ensure_pending_index(ns).await? {
        return Ok(None);
    }
    let known = core.catalog.look_up(ns).await?;
    // What has expired is taken out of the server's way before a decision: it has no safe version.
    let expires = known.indexes.iter().any(|index| index.expiry().is_some());
    if known.unlockable.is_some() || expires {
        return Ok(None);
    }
    if finds_by_id(query) {
        return Ok(Some((FoundBy::Id, known)));
    }
    let fields = fields.and(&Fields::of_indexes(&known.indexes));
    Ok((fields != Fields::All).then_some((FoundBy::Fields(fields), known)))
}

/// Returns true if it makes no difference to the query what transactions insert and remove.
fn finds_by_id(query: &Query) -> bool {
    query.is_by_id_alone() && query.skip == 0 && (1..=MOST_DOCUMENTS - SPARE).contains(&query.limit)
}

/// The documents of a whole answer. `None`: one of them is damaged.
async fn stored(query: &Query, mut answer: Stream) -> Result<Option<Vec<Stored>>> {
    let mut all = Vec::new();
    while let Some(document) = answer.next().await? {
        let Some((lock, key)) = lock_and_key(query, &document) else { return Ok(None) };
        all.push(Stored { document, lock, key });
    }
    Ok(Some(all))
}

fn lock_and_key(query: &Query, stored: &RawDocument) -> Option<(LockState, Option<OwnKey>)> {
    let lock = lock_of(query, &document::locks(stored).ok()?).ok()?;
    let id = Bson::try_from(stored.get("_id").ok()??).ok()?;
    Some((lock, OwnKey::of_simple(&id)))
}

/// Statuses of the transactions but `me` that hold these documents. Those of this client that
/// are on their way are waited for; one that has to wait itself is not decided.
async fn writer_statuses(
    core: &Core,
    stored: &[Stored],
    me: Option<TxId>,
    by_now: ByNow,
) -> Result<HashMap<TxId, WriterStatus>> {
    let writers = stored.iter().filter_map(|one| one.lock.writer);
    let mut writers: Vec<TxId> = writers.filter(|writer| Some(*writer) != me).collect();
    writers.sort_unstable();
    writers.dedup();
    let is_known = |id: &TxId| core.finisher.when_committed(*id, by_now).is_some();
    let (known, unknown): (Vec<TxId>, Vec<TxId>) = writers.into_iter().partition(is_known);
    let statuses = if unknown.is_empty() { Vec::new() } else { core.log.statuses(&unknown).await? };
    let asked = unknown.into_iter().zip(statuses).map(|(id, status)| match status {
        TxStatus::Committed => (id, WriterStatus::NewlyCommitted),
        TxStatus::Active | TxStatus::RolledBack => (id, WriterStatus::Uncommitted),
        TxStatus::Finished => (id, WriterStatus::Unknown),
    });
    Ok(known.into_iter().map(|id| (id, WriterStatus::Committed)).chain(asked).collect())
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;
    use crate::coordinator::request::query_options::QueryOptions;

    /// Returns true if a query with a limit of 2 has looked behind the last of so many documents.
    fn has_looked_behind(known: &Collection, fetched: i32) -> bool {
        let sort = Some(doc! {"_id": 1});
        let query = Query { sort, limit: 2, ..Query::of(doc! {"_id": {"$gte": 0}}, QueryOptions::default()) };
        let stored = |id| Stored { document: rawdoc! {"_id": id}, lock: LockState::default(), key: None };
        let stored: Vec<Stored> = (0..fetched).map(stored).collect();
        span(&query, known, &stored).may_have(&OwnKey::of(&fetched.into()))
    }

    #[test]
    fn a_query_has_not_looked_behind_its_last_document_if_it_has_all_that_it_may_fetch() {
        let (plain, full) = (Collection::default(), 2 + SPARE as i32);
        assert!(!has_looked_behind(&plain, full));
        assert!(has_looked_behind(&plain, full - 1), "there were no others");
        let mut collated = Collection::default();
        collated.has_collation = true;
        assert!(has_looked_behind(&collated, full), "texts compare in another way");
    }
}
