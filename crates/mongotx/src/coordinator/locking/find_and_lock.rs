//! A prepared write of a document that is found by any of its fields: selected, locked, changed and
//! shown by one `findAndModify`, which answers which document it was (decision 0037).
//!
//! What is locked this way is clean, or left by a committed transaction of the same client, and
//! matches in the version that all clients see. That is an answer as good as any other, where the
//! query has no order and the transaction's own view of the collection is the same as that of
//! others; where one value is demanded of each field of a unique index, it is the only one. If
//! nothing was locked, the result is open: the document may be the transaction's own, or a rival's,
//! and the caller goes the long way.
//!
//! Where the query has an order, the statement finds the first document that others show, locked or
//! not, and locks it if it is free. Another one may have become the first by a commit that is not
//! finished. A read lease excludes that (decision 0072). Without one, transactions that are
//! validated check at their commit that it was the first; the others select it.
//!
//! A document that the client knows by its key is tried by the `_id` in place of all that
//! ([`super::known_key`]).
//!
//! Until the answer is there it is unknown which document may be locked. If it never comes, the
//! transaction is rolled back, and its documents are searched for by its id
//! ([`Transaction::hold_unknown`]).

use bson::{Bson, Document, RawDocumentBuf, raw::cstr};
use protocol::TxId;
use sd2v::{
    filter::{guard_filter, has_special, rewrite_filter, sees_lock_fields},
    names::{WRITER, tx_id_to_bson},
    statement::{self, OwnReadLock},
    update::{fuse, fuse_lock, fuse_remove},
    view,
};

use super::{
    Locking,
    change::Change,
    found_document::{FoundDocument, NeededAnswer, SortRank},
    known_key::KnownKeyResult,
    returning_write::DocumentImages,
};
use crate::{
    coordinator::{
        catalog::Collection,
        queries::{nondeterminism, read_lease::Permit},
        request::{address::Address, own_key::id_key, query::Query},
        server::live::FindAndModifyAnswer,
        transaction::{Hold, Transaction},
    },
    error::Result,
    options::Namespace,
};

/// The free document that the statement locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FreeDocument {
    /// Any free document that matches: it is the one that the transaction is to find.
    Wanted,
    /// The first in order of the documents that others see, if it is free.
    First,
}

/// A statement that finds, locks and changes a document, ready to be sent.
struct FindStatement {
    me: TxId,
    free: FreeDocument,
    /// Under which the first document that it finds is the first of all.
    permit: Option<Permit>,
    statement: RawDocumentBuf,
}

impl Locking {
    /// Locks and changes the document that the query finds first, if one statement can. `None`: it
    /// is not known whether anything matches.
    #[tracing::instrument(name = "mongotx.prepare_found", level = "debug", skip_all, fields(%ns))]
    pub(crate) async fn find_and_prepare(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        query: &Query,
        change: &Change<'_>,
        asked: NeededAnswer<'_>,
    ) -> Result<Option<FoundDocument>> {
        if !is_plain(query) || tx.has_read_locks(ns) || !self.catalog.shard_key(ns).await?.is_empty() {
            return Ok(None);
        }
        let known = self.catalog.look_up(ns).await?;
        // Asked only where the answer matters: the question may make this client take the read
        // lease.
        let is_leased = may_find_first(tx, ns, query, asked) && self.unprobed.may_be_unprobed(ns, &query.options);
        if free_one(tx, &known, ns, query, asked, is_leased).is_none() || !change.is_one_statement() {
            return Ok(None);
        }
        match self.prepare_known(tx, ns, &known, query, change, asked).await? {
            KnownKeyResult::Unknown => {}
            KnownKeyResult::Done(found) => return Ok(Some(*found)),
            KnownKeyResult::NotThis => return Ok(None),
        }
        let Some(find) = self.find_statement(tx, ns, query, change, asked, is_leased).await? else { return Ok(None) };
        let FindStatement { me, free, permit, statement } = find;
        tx.check_alive()?;
        tx.hold_unknown(&self.options, ns)?;
        let found = match self.server.send_find_and_modify(tx, ns, &statement, &change.touches()).await? {
            FindAndModifyAnswer::Found(found) => {
                Some(found).filter(|found| found.get(WRITER) == Some(&tx_id_to_bson(me)))
            }
            FindAndModifyAnswer::Nothing | FindAndModifyAnswer::Refused => None,
        };
        let rank = match free {
            FreeDocument::Wanted => SortRank::Any,
            FreeDocument::First if permit.is_some_and(|permit| self.unprobed.is_believed(permit, &[ns])) => {
                SortRank::First
            }
            FreeDocument::First => SortRank::SeemsFirst,
        };
        let found = self.note_found(tx, ns, found, change, asked.is_shown).await?;
        if let (Some(found), Some(key)) = (&found, known.pinned_key(&query.filter)) {
            self.catalog.known_keys.saw(ns, &key, &found.at.id);
        }
        Ok(found.map(|found| FoundDocument { rank, ..found }))
    }

    /// The statement for this query, with everything in place that has to be before it is sent.
    /// `None`: one statement cannot find and change the document.
    async fn find_statement(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        query: &Query,
        change: &Change<'_>,
        asked: NeededAnswer<'_>,
        is_leased: bool,
    ) -> Result<Option<FindStatement>> {
        // If the answer gets lost, documents that it may have locked are found by this index.
        if !self.catalog.ensure_pending_index(ns).await? {
            return Ok(None);
        }
        let me = self.lifecycle.ensure_started(tx, ns).await?;
        let collection = self.catalog.admit_writes(ns, me).await?;
        let is_alone = self.consequences_at(&collection, ns, &Document::new(), change).await?.are_none();
        let free = free_one(tx, &collection, ns, query, asked, is_leased).filter(|_| is_alone);
        let Some(free) = free else { return Ok(None) };
        let Some(statement) = statement_for(free, tx, ns, query, change, me, asked)? else { return Ok(None) };
        let permit = match free {
            FreeDocument::First => self.permit_for_first(tx, ns, is_leased).await,
            FreeDocument::Wanted => None,
        };
        if free == FreeDocument::First && permit.is_none() && !tx.validates() {
            return Ok(None);
        }
        Ok(Some(FindStatement { me, free, permit, statement }))
    }

    /// Makes ready for a statement that finds the first document in an order, under the read lease
    /// if there is one. Documents that this client has committed get their place in the order when
    /// they are finished.
    async fn permit_for_first(&self, tx: &Transaction, ns: &Namespace, is_leased: bool) -> Option<Permit> {
        let is_leased = is_leased && self.unprobed.may_be_permitted(ns);
        if !is_leased && !tx.validates() {
            return None;
        }
        if self.finisher.has_left(ns) {
            self.finisher.clear(ns).await;
        }
        if is_leased { self.unprobed.permit(&[ns]).await } else { None }
    }

    /// Takes note of the document that the statement has locked, or that there was none.
    async fn note_found(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        found: Option<Document>,
        change: &Change<'_>,
        is_shown: bool,
    ) -> Result<Option<FoundDocument>> {
        let hold = if matches!(change, Change::Remove) { Hold::Remove } else { Hold::Change };
        let Some(found) = found else {
            tx.hold_found(&self.options, ns, None, hold)?;
            return Ok(None);
        };
        let at = Address::bare(found.get("_id").cloned().unwrap_or(Bson::Null));
        let owned = tx.may_hold(ns, &at.id) || tx.is_own(ns, &at.id);
        if tx.has_new_keys(ns) {
            // A document of its own would have been found in its place.
            tx.note_own_view();
        }
        tx.hold_found(&self.options, ns, Some(&at), hold)?;
        if let Some(claims) = &tx.claims {
            claims.took(ns, id_key(&at.id));
        }
        tx.note_locked(ns, std::slice::from_ref(&at), hold == Hold::Remove);
        if owned {
            // The transaction held the document, and it was free.
            self.standings.vouch_for_lock(tx).await?;
        }
        let shown = is_shown.then(|| DocumentImages::of(found));
        Ok(Some(FoundDocument { at, shown, rank: SortRank::Any }))
    }
}

/// Returns true if the query means the same on stored documents, and needs no index of a certain
/// kind.
fn is_plain(query: &Query) -> bool {
    let plain_options = query.options.is_plain() && query.options.hint.is_none() && query.skip == 0;
    plain_options && !has_special(&query.filter) && !sees_lock_fields(&query.filter)
}

/// The free document that may be locked. `None`: a free one may not be the one that the transaction
/// is to find.
fn free_one(
    tx: &Transaction,
    collection: &Collection,
    ns: &Namespace,
    query: &Query,
    asked: NeededAnswer<'_>,
    is_leased: bool,
) -> Option<FreeDocument> {
    // Several documents match a key if its index is gone by now: then an order says which one is
    // meant.
    let is_any_wanted = !tx.has_written(ns) || collection.is_pinned_by(&query.filter);
    if query.sort.is_none() && is_any_wanted {
        return Some(FreeDocument::Wanted);
    }
    ((tx.validates() || is_leased) && may_find_first(tx, ns, query, asked)).then_some(FreeDocument::First)
}

/// Returns true if the first document in an order may be found and locked by one statement. Not so
/// after a transaction of the session has lost: the first may be a document whose version is
/// committed and cannot be finished, which the statement does not see.
fn may_find_first(tx: &Transaction, ns: &Namespace, query: &Query, asked: NeededAnswer<'_>) -> bool {
    let in_order = query.sort.is_some() && asked.can_check_first && !tx.attempts.has_lost();
    in_order && tx.only_removed(ns) && !nondeterminism::is_in_query(query)
}

/// The statement that finds, locks and changes this free document, and answers what the caller
/// needs; `None` where that is not provably the same.
fn statement_for(
    free: FreeDocument,
    tx: &Transaction,
    ns: &Namespace,
    query: &Query,
    change: &Change<'_>,
    me: TxId,
    asked: NeededAnswer<'_>,
) -> Result<Option<RawDocumentBuf>> {
    let statement = match free {
        FreeDocument::Wanted => {
            let left = tx.claims.as_ref().map_or_else(Vec::new, |claims| claims.left_in(ns));
            statement_of(query, change, me, &left)?
        }
        // A document that is left has its place in the order by its unsafe version, by which the
        // server cannot sort it.
        FreeDocument::First => first_of(query, change, me)?,
    };
    let Some(mut statement) = statement else { return Ok(None) };
    if let Some(fields) = asked.stored_fields() {
        statement.append(cstr!("fields"), RawDocumentBuf::try_from(&fields)?);
    }
    Ok(Some(statement))
}

/// Find, lock and change in one, where that is provably the same.
fn statement_of(query: &Query, change: &Change<'_>, me: TxId, left: &[TxId]) -> Result<Option<RawDocumentBuf>> {
    let safe = guard_filter(&query.filter);
    if matches!(change, Change::Remove) {
        let removal = statement::lock_remove(safe, me, OwnReadLock::None, false);
        return Ok(Some(RawDocumentBuf::try_from(&removal)?));
    }
    let pipeline = match change {
        Change::Update { update, array_filters: None } if !change.is_lock() => fuse(update, me, left, &[], &[]),
        Change::Update { array_filters: None, .. } => fuse_lock(me, left, &[]),
        _ => None,
    };
    let Some(pipeline) = pipeline else { return Ok(None) };
    let query = statement::free_or_left(safe, rewrite_filter(&query.filter)?, left);
    Ok(Some(statement::lock_change(RawDocumentBuf::try_from(&query)?, pipeline)))
}

/// Finds the first document that others see, and locks and changes it if it is free; `None` where
/// that is not provably the same. A document that is not free stays as it is, and is returned.
fn first_of(query: &Query, change: &Change<'_>, me: TxId) -> Result<Option<RawDocumentBuf>> {
    let pipeline = match change {
        Change::Remove => fuse_remove(me, &[]),
        Change::Update { update, array_filters: None } if !change.is_lock() => fuse(update, me, &[], &[], &[]),
        Change::Update { array_filters: None, .. } => fuse_lock(me, &[], &[]),
        Change::Update { .. } => None,
    };
    let shown = view::safe_filter_beside(&query.filter, me, false);
    let Some(pipeline) = pipeline else { return Ok(None) };
    let mut statement = statement::lock_change(RawDocumentBuf::try_from(&shown)?, pipeline);
    if let Some(sort) = &query.sort {
        statement.append(cstr!("sort"), RawDocumentBuf::try_from(sort)?);
    }
    Ok(Some(statement))
}
