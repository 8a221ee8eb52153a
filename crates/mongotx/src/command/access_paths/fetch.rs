//! Documents that a query names by `_id`: fetched as they are stored, with one command when they
//! are clean. A lock on one of them is looked into when there is one, unless both versions of the
//! document show the same.

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use protocol::{LockState, TxId, TxStatus, Version, lock::visible_version};
use sd2v::{
    Visible,
    filter::{guard_filter, has_special, is_only_id, pinned_ids},
    names::WRITER,
    stored::whole_lock_state,
    view,
};

use super::{own_view, repair_first};
use crate::{
    command::query::{
        documents::Documents,
        either_version::{lock_of, of_either_version, shows_either_version, unsafe_answer},
    },
    coordinator::{
        Core,
        finishing::finisher::ByNow,
        request::{address::Address, query::Query},
        transaction::Transaction,
    },
    document,
    error::{Error, ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// Times that a document is fetched again because its writer finished between two commands.
const FETCHES: usize = 64;
/// Limit of the documents that one command fetches by their `_id`s: they are all looked at before
/// the first is answered.
const MOST_IDS: usize = 32;

/// The filter that fetches the one document in question, locked or not; `None` when there may be
/// others, or when this transaction may have written to it.
pub(crate) async fn by_id_filter(
    core: &Core,
    tx: Option<&Transaction>,
    ns: &Namespace,
    query: &Query,
) -> Result<Option<Document>> {
    let unpinned = query.skip > 0 || query.options.staleness.is_some() || query.sees_lock_fields();
    if unpinned || has_special(&query.filter) {
        return Ok(None);
    }
    let Some(id) = query.pinned_id(core, ns).await?.filter(|id| !tx.is_some_and(|tx| tx.may_hold(ns, id))) else {
        return Ok(None);
    };
    if is_only_id(&query.filter) {
        return Ok(Some(query.filter.clone()));
    }
    let mut filter = Address::named(id, &query.filter, &query.options, &core.catalog.shard_key(ns).await?).filter();
    filter.insert("$or", [guard_filter(&query.filter), doc! {WRITER: {"$exists": true}}]);
    Ok(Some(filter))
}

/// A document that this transaction has written. Its own lock says that it still stands; `None`:
/// not a query for this way, or that lock is not there.
pub(crate) async fn own_by_id(
    core: &Core,
    tx: &Transaction,
    ns: &Namespace,
    query: &Query,
) -> Result<Option<Documents>> {
    let plain = is_only_id(&query.filter) && query.projection.is_none() && query.options.is_plain();
    if !plain || query.skip > 0 || query.options.staleness.is_some() || query.options.hint.is_some() {
        return Ok(None);
    }
    let held = query.pinned_id(core, ns).await?.filter(|id| tx.may_hold(ns, id));
    let (Some(_), Some(me)) = (held, tx.id()) else { return Ok(None) };
    let found = core.server.find_first_raw(ns, query.to_find(ns, query.filter.clone())).await?;
    let Some(found) = found else { return Ok(None) };
    let lock = whole_lock_state(&document::locks(&found)?)?;
    if lock.writer != Some(me) {
        return Ok(None);
    }
    Ok(Some(match lock.remove {
        true => Documents::default(),
        false => Documents::at_hand(document::unsafe_version(&found)),
    }))
}

/// A document of which this transaction has written nothing.
pub(crate) async fn by_id(
    core: &Core,
    ns: &Namespace,
    query: &Query,
    filter: Document,
    me: Option<TxId>,
) -> Result<Documents> {
    let either = is_only_id(&query.filter) && shows_either_version(query);
    let fetch = if either { of_either_version(query, ns, filter) } else { query.to_find(ns, filter) };
    let one = ById { core, ns, query, me, either };
    // Holders that were committed before the document was fetched the last time.
    let mut committed = None;
    for _ in 0..FETCHES {
        let by_now = core.finisher.by_now();
        let found = match core.server.find_first_raw(ns, fetch.clone()).await {
            // An expression may have failed on a version that is not the latest.
            Err(refused) if refused.kind() == ErrorKind::Invalid => {
                return Box::pin(repair_first::find(core, ns, query, me)).await;
            }
            found => found?,
        };
        let Some(found) = found else { return Ok(Documents::default()) };
        if let Some(answer) = one.answer(found, by_now, &mut committed).await? {
            return Ok(answer);
        }
    }
    let message = format!("a document of {ns} was finished {FETCHES} times while it was read");
    Err(Error::new(ErrorKind::Unavailable, message))
}

/// A query of one document by its `_id`, as all its attempts have it.
struct ById<'a> {
    core: &'a Core,
    ns: &'a Namespace,
    query: &'a Query,
    me: Option<TxId>,
    /// Both versions of the document are fetched.
    either: bool,
}

impl ById<'_> {
    /// The answer to the query, from the document as it was fetched at the moment `by_now`. `None`:
    /// it has to be fetched again.
    async fn answer(
        &self,
        found: RawDocumentBuf,
        by_now: ByNow,
        committed: &mut Option<TxId>,
    ) -> Result<Option<Documents>> {
        let Self { core, ns, query, me, either } = *self;
        let stored = document::locks(&found)?;
        let lock = lock_of(query, &stored)?;
        let Some(writer) = lock.writer else { return Ok(Some(Documents::at_hand([found]))) };
        if Some(writer) == me {
            // Held by this transaction after all: the `_id` is an equal number of another type.
            return Box::pin(own_view::find(core, me.map(Visible::from).as_ref(), ns, query)).await.map(Some);
        }
        if either && let Some(shown) = answer_of_both(query, &found, &lock)? {
            return Ok(Some(Documents::at_hand([shown])));
        }
        core.server.at(Step::BeforeStatus).await;
        let status = status_of_holder(core, ns, writer, by_now, committed).await?;
        match visible_version(&lock, me, |_| status) {
            // It may have written to the document again, or inserted it again, before it committed.
            Some(Version::Unsafe | Version::Absent)
                if status == TxStatus::Committed && committed.replace(writer) != Some(writer) =>
            {
                Ok(None)
            }
            Some(Version::Absent) => Ok(Some(Documents::default())),
            Some(Version::Safe) => safe_answer(core, ns, query, found).await.map(Some),
            Some(Version::Unsafe) if either => Ok(Some(Documents::at_hand(unsafe_answer(query, &found)?))),
            Some(Version::Unsafe) => self.finished(&stored, &lock).await,
            None => {
                if let Some(id) = query.pinned_id(core, ns).await? {
                    clear_locks(core, ns, query, id, &lock, me).await?;
                }
                Ok(None)
            }
        }
    }

    /// Finishes what a committed transaction has left in the document, so that it can be fetched
    /// again. Where that is refused, the answer is that of another way.
    async fn finished(&self, stored: &Document, lock: &LockState) -> Result<Option<Documents>> {
        let Self { core, ns, query, me, .. } = *self;
        let id = stored.get("_id").cloned().unwrap_or(Bson::Null);
        let id = query.pinned_id(core, ns).await?.unwrap_or(id);
        match clear_locks(core, ns, query, id, lock, me).await {
            Err(refused) if refused.is_unfinishable() => {
                Box::pin(repair_first::find(core, ns, query, me)).await.map(Some)
            }
            cleared => cleared.map(|()| None),
        }
    }
}

/// The status of the transaction that holds a fetched document. Sets `committed` to it if it was
/// committed before the document was fetched.
async fn status_of_holder(
    core: &Core,
    ns: &Namespace,
    writer: TxId,
    by_now: ByNow,
    committed: &mut Option<TxId>,
) -> Result<TxStatus> {
    let holder = core.holders.of([writer], by_now).await?.remove(&writer);
    let status = holder.map_or(TxStatus::RolledBack, |holder| holder.status);
    if holder.is_some_and(|holder| holder.had_committed) {
        *committed = Some(writer);
    } else if status == TxStatus::Committed {
        core.pending.saw_unfinished(ns);
    }
    Ok(status)
}

/// The answer to a query that sees the safe version of the document that was found.
async fn safe_answer(core: &Core, ns: &Namespace, query: &Query, found: RawDocumentBuf) -> Result<Documents> {
    // A projection shows fields of the safe version, and the lock.
    if is_only_id(&query.filter) {
        return Ok(Documents::at_hand([found]));
    }
    let find = query.to_find(ns, view::without_pending_inserts(&query.filter));
    Ok(Documents::streaming(core.server.cursor(&ns.db, find).await?))
}

/// Finishes or undoes what decided transactions have left in the document with this `_id`.
async fn clear_locks(
    core: &Core,
    ns: &Namespace,
    query: &Query,
    id: Bson,
    lock: &LockState,
    me: Option<TxId>,
) -> Result<()> {
    let at = core.locator.locate(None, ns, id, &query.filter, &query.options).await?;
    core.repairs.clear_locks(ns, &at, lock, me).await.map(drop)
}

/// Returns what such a query shows of a document that a transaction holds, if it shows the same of
/// both versions: then the outcome of the holder does not matter. (What the holder writes later, it
/// writes after the document was fetched.)
fn answer_of_both(query: &Query, stored: &RawDocument, lock: &LockState) -> Result<Option<RawDocumentBuf>> {
    if lock.insert || lock.remove {
        return Ok(None);
    }
    let safe = document::stripped(stored.to_owned())?;
    Ok(unsafe_answer(query, stored)?.filter(|changed| *changed == safe))
}

/// The filter that fetches a few documents, locked or not; `None`: not a query for this way.
pub(crate) async fn by_ids_filter(core: &Core, ns: &Namespace, query: &Query) -> Result<Option<Document>> {
    let bounded =
        query.skip > 0 || query.limit > 0 || query.options.staleness.is_some() || query.options.hint.is_some();
    if bounded || !query.options.is_plain() || query.sees_lock_fields() || has_special(&query.filter) {
        return Ok(None);
    }
    let few = pinned_ids(&query.filter).filter(|ids| (2..=MOST_IDS).contains(&ids.len()));
    let (Some(ids), true) = (few, core.catalog.shard_key(ns).await?.is_empty()) else { return Ok(None) };
    Ok(Some(match is_only_id(&query.filter) {
        true => query.filter.clone(),
        false => doc! {"_id": {"$in": ids}, "$or": [guard_filter(&query.filter), {WRITER: {"$exists": true}}]},
    }))
}

/// Several documents, in a collection to which the transaction has written nothing. `None`: not a
/// query for this way, or one of the documents is locked.
pub(crate) async fn by_ids(core: &Core, ns: &Namespace, query: &Query) -> Result<Option<Documents>> {
    let Some(filter) = by_ids_filter(core, ns, query).await? else { return Ok(None) };
    let (by_now, stays) = (core.finisher.by_now(), stays_in_place(query));
    let find = if stays { of_either_version(query, ns, filter) } else { query.to_find(ns, filter) };
    let found = match core.server.collect_raw(&ns.db, find, MOST_IDS).await {
        // An expression may have failed on a version that is not the latest.
        Err(refused) if refused.kind() == ErrorKind::Invalid => return Ok(None),
        found => found?,
    };
    let mut shown = Vec::with_capacity(found.len());
    for stored in found {
        if matches!(stored.get(WRITER), Ok(None)) {
            shown.push(stored);
            continue;
        }
        if !stays {
            return Ok(None);
        }
        let lock = lock_of(query, &document::locks(&stored)?)?;
        match lock.writer {
            Some(writer) if core.finisher.was_committed(writer, by_now) && lock.remove => {}
            Some(writer) if core.finisher.was_committed(writer, by_now) => {
                shown.extend(unsafe_answer(query, &stored)?);
            }
            _ => match answer_of_both(query, &stored, &lock)? {
                Some(answer) => shown.push(answer),
                None => return Ok(None),
            },
        }
    }
    Ok(Some(Documents::at_hand(shown)))
}

/// Returns true if the answers can be picked from any version, and another version would stand at
/// the same place.
fn stays_in_place(query: &Query) -> bool {
    let by_id = query.sort.as_ref().is_none_or(|sort| sort.keys().all(|field| field == "_id"));
    by_id && shows_either_version(query) && is_only_id(&query.filter)
}
