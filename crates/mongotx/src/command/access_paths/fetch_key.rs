//! A document that a query names by a key of a unique index: fetched as it is stored, together with
//! every document that has that key in its other version. One `find`, where nothing is locked; a
//! lock is looked into when there is one.
//!
//! Where the client knows the `_id` that the key had (decision 0083), a query that wants one
//! document fetches that one alone. If its visible version has what the query demands, it is the
//! answer, whatever other documents there are. If not, nothing is said, and the query goes on as
//! without.
//!
//! 1. Read the documents whose safe version has the key, and the pending ones whose unsafe version
//!    has it.
//! 2. None of them is locked: they are the answer. None is found: the longer way, which looks for
//!    pending documents before it looks for the rest.
//! 3. Otherwise read the statuses of those that hold locks, *after* the documents were fetched. The
//!    answer is, of each document, the version that they make visible, if it has the key.
//!
//! A transaction that was committed when its status was read, and not known to be when the
//! documents were fetched, may have written more in between; one that was finished may have moved
//! the key: in both cases the query reads again.

use std::collections::HashSet;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use protocol::{LockState, TxId, TxStatus, Version, lock::visible_version};
use sd2v::{
    names::{UNSAFE, WRITER},
    stored::whole_lock_state,
};

use crate::{
    command::query::{
        documents::Documents,
        plain_projection::{is_picked, is_plain_projection},
    },
    coordinator::{
        Core,
        catalog::KnownDocument,
        finishing::holders::Holder,
        request::{own_key::OwnKey, query::Query},
    },
    document,
    error::{ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// Times that the documents are fetched.
const FETCHES: usize = 4;
/// Documents that have the key in some version, of which more are not looked into.
const MOST: usize = 16;

/// `None`: not a query for this way, or what it met is for a longer one.
pub(crate) async fn by_key(core: &Core, ns: &Namespace, query: &Query, me: Option<TxId>) -> Result<Option<Documents>> {
    let Some(key) = key_for_this_way(core, ns, query).await? else { return Ok(None) };
    if !core.catalog.ensure_pending_index(ns).await? {
        return Ok(None);
    }
    let known = core.catalog.known_keys.get(ns, &key).filter(|_| query.limit == 1);
    if let Some(KnownDocument { id, .. }) = known {
        let find = doc! {"find": &ns.coll, "filter": {"_id": id.clone()}, "limit": 1, "singleBatch": true};
        if let Some(found) = fetch(core, ns, query, find, me).await? {
            return Ok(Some(Documents::at_hand([found.shown])));
        }
        core.catalog.known_keys.forget(ns, &key, &id);
    }
    let find = doc! {"find": &ns.coll, "filter": in_any_version(&query.filter), "limit": MOST as i64};
    let Some(found) = fetch(core, ns, query, find, me).await? else { return Ok(None) };
    if let Some(id) = &found.id {
        core.catalog.known_keys.saw(ns, &key, id);
    }
    Ok(Some(Documents::at_hand([found.shown])))
}

/// The one visible version that has the key, of the documents that this `find` fetches. `None`:
/// there is none, or it takes a longer way to find out.
async fn fetch(
    core: &Core,
    ns: &Namespace,
    query: &Query,
    find: Document,
    me: Option<TxId>,
) -> Result<Option<FoundByKey>> {
    let mut committed = HashSet::new();
    for _ in 0..FETCHES {
        let by_now = core.finisher.by_now();
        let found = match core.server.collect_raw(&ns.db, find.clone(), MOST).await {
            Err(refused) if refused.kind() == ErrorKind::Invalid => return Ok(None),
            found => found?,
        };
        if found.len() >= MOST {
            return Ok(None);
        }
        let found = found.into_iter().map(Stored::read).collect::<Result<Vec<Stored>>>()?;
        let writers = found.iter().filter_map(|stored| stored.lock.writer).filter(|writer| Some(*writer) != me);
        core.server.at(Step::BeforeStatus).await;
        let holders = core.holders.of(writers, by_now).await?;
        let is_news = |(writer, holder): (&TxId, &Holder)| match holder.status {
            TxStatus::Committed => !holder.had_committed && committed.insert(*writer),
            TxStatus::Finished => true,
            TxStatus::Active | TxStatus::RolledBack => false,
        };
        // All are looked at: none may be news the next time.
        if holders.iter().map(is_news).fold(false, |any, news| any | news) {
            continue;
        }
        if holders.values().any(Holder::is_news) {
            core.pending.saw_unfinished(ns);
        }
        let status = |id: TxId| holders.get(&id).map_or(TxStatus::RolledBack, |holder| holder.status);
        let visible = found.into_iter().filter_map(|stored| stored.visible(me, status));
        return answer(query, visible);
    }
    Ok(None)
}

/// The document that has the key.
struct FoundByKey {
    id: Option<Bson>,
    /// The document as the query shows it.
    shown: RawDocumentBuf,
}

/// A document as it is stored.
struct Stored {
    document: RawDocumentBuf,
    lock: LockState,
}

impl Stored {
    fn read(document: RawDocumentBuf) -> Result<Self> {
        let lock = match document.get(WRITER) {
            Ok(None) => LockState::default(),
            _ => whole_lock_state(&document::locks(&document)?)?,
        };
        Ok(Self { document, lock })
    }

    /// The version that `me` sees, if it sees one.
    fn visible(self, me: Option<TxId>, status: impl FnOnce(TxId) -> TxStatus) -> Option<RawDocumentBuf> {
        match visible_version(&self.lock, me, status)? {
            Version::Safe => Some(self.document),
            Version::Unsafe => document::unsafe_version(&self.document),
            Version::Absent => None,
        }
    }
}

/// The one visible version that has the key, as the query shows it.
fn answer(query: &Query, visible: impl Iterator<Item = RawDocumentBuf>) -> Result<Option<FoundByKey>> {
    let mut found = Vec::new();
    for document in visible {
        let id = document.get("_id")?.and_then(|id| Bson::try_from(id).ok());
        match answered(query, document)? {
            Some(Some(shown)) => found.push(FoundByKey { id, shown }),
            Some(None) => {}
            None => return Ok(None),
        }
    }
    // Several documents did not have the key at one moment. That none has it takes two reads: a
    // document that moves from one version to the other between them may be missed in both.
    Ok(if found.len() == 1 { found.pop() } else { None })
}

/// A version that is visible, as it is shown if it has the key. `None`: only the server knows
/// whether it has.
pub(crate) fn answered(query: &Query, visible: RawDocumentBuf) -> Result<Option<Option<RawDocumentBuf>>> {
    match has_values(&visible, &query.filter)? {
        Some(true) => {}
        Some(false) => return Ok(Some(None)),
        None => return Ok(None),
    }
    let visible = document::stripped(visible)?;
    Ok(Some(Some(match query.projection.as_ref().filter(|projection| !projection.is_empty()) {
        None => visible,
        Some(projection) => document::picked(&visible, is_picked(projection))?,
    })))
}

/// Returns true if the query can go this way.
pub(crate) async fn is_for_this_way(core: &Core, ns: &Namespace, query: &Query) -> Result<bool> {
    Ok(key_for_this_way(core, ns, query).await?.is_some())
}

/// The key that the query demands, if it can go this way.
async fn key_for_this_way(core: &Core, ns: &Namespace, query: &Query) -> Result<Option<Document>> {
    match is_answered_here(query) && core.catalog.shard_key(ns).await?.is_empty() {
        true => Ok(core.catalog.look_up(ns).await?.pinned_key(&query.filter)),
        false => Ok(None),
    }
}

/// Returns true if a whole document is enough to answer the query without the server
/// ([`answered`]).
pub(crate) fn is_answered_here(query: &Query) -> bool {
    let options = &query.options;
    let plain = query.skip == 0 && options.is_plain() && options.hint.is_none() && options.staleness.is_none();
    let shown = query.projection.as_ref().is_none_or(is_plain_projection);
    // Whatever the server might refuse, it has to see.
    let sorted = query.sort.as_ref().is_none_or(Document::is_empty);
    let compared = query.filter.values().all(|value| OwnKey::of_simple(value).is_some());
    let is_clear = plain && shown && sorted && compared;
    is_clear && !query.is_for_locks && !query.sees_lock_fields() && is_values(&query.filter)
}

/// The documents that have these values in their safe version, or pending in the unsafe one.
pub(crate) fn in_any_version(filter: &Document) -> Document {
    // The index that mirrors the unique one has documents with an unsafe version only.
    let mut pending = doc! {WRITER: {"$exists": true}, UNSAFE: {"$exists": true}};
    pending.extend(filter.iter().map(|(field, value)| (format!("{UNSAFE}.{field}"), value.clone())));
    doc! {"$or": [filter.clone(), pending]}
}

/// Returns true if the document has the values that the filter demands.
pub(crate) fn has_all_values(document: &Document, filter: &Document) -> bool {
    filter
        .iter()
        .all(|(field, wanted)| document.get(field).is_some_and(|value| OwnKey::of(value) == OwnKey::of(wanted)))
}

/// Returns true if the filter demands plain values of fields at the top, and nothing else.
pub(crate) fn is_values(filter: &Document) -> bool {
    filter.iter().all(|(field, value)| {
        let is_plain = !matches!(
            value,
            Bson::Document(_)
                | Bson::Array(_)
                | Bson::RegularExpression(_)
                | Bson::JavaScriptCodeWithScope(_)
                | Bson::Null
        );
        is_plain && !field.starts_with('$') && !field.contains('.')
    })
}

/// Returns true if the document has these values. `None`: only the server knows whether they are
/// equal, or a field has several.
fn has_values(document: &RawDocument, filter: &Document) -> Result<Option<bool>> {
    for (field, wanted) in filter {
        let Some(value) = document.get(field)?.map(Bson::try_from).transpose()? else { return Ok(Some(false)) };
        match OwnKey::of_simple(&value).zip(OwnKey::of_simple(wanted)) {
            Some((value, wanted)) if value == wanted => {}
            Some(_) => return Ok(Some(false)),
            None => return Ok(None),
        }
    }
    Ok(Some(true))
}
