//! `insert`: inside a transaction each document is stored with an unsafe version only.
//!
//! A duplicate `_id` is looked up. Of a document that is committed, or inserted by this
//! transaction: the server's duplicate-key error. Of one that this transaction has removed: it is
//! revived. Of an active rival's: a conflict. Of a leftover: it is repaired, and the insert is sent
//! again.

use std::{slice, sync::Arc};

use bson::{Bson, Document, doc, oid::ObjectId};
use protocol::{LockState, TxId};
use sd2v::{
    index::Unique,
    names::{REMOVE, WRITER, tx_id_to_bson},
    statement,
    stored::{check_document, check_id, pending_insert},
};

use super::{
    direct::refuse_watched,
    implicit,
    unique_inserts::{PlacedInserts, place_compared},
};
use crate::{
    command::isolation::validation_ahead::send_insert,
    coordinator::{
        Core,
        finishing::lock_wait::{Attempts, LockWait},
        locking::unique::{PlacedDocument, PriorState},
        request::{address::Address, fields::Fields},
        server::WriteAnswer,
        transaction::{Hold, Transaction},
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Documents and bytes of one command.
pub(crate) const BATCH: usize = 1_000;
pub(crate) const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// Attempts without waiting in between.
const ATTEMPTS: usize = 64;

/// The document with its `_id` first, as the server stores it, made here if it has none.
pub(crate) fn with_id(mut document: Document) -> (Bson, Document) {
    if let Some((name, id)) = document.iter().next()
        && name == "_id"
    {
        return (id.clone(), document);
    }
    let id = document.remove("_id").unwrap_or_else(|| ObjectId::new().into());
    let mut first = doc! {"_id": id.clone()};
    first.extend(std::mem::take(&mut document));
    (id, first)
}

fn check(document: &Document) -> Result<()> {
    Ok(check_document(document)?)
}

/// Refuses documents that a transaction cannot store faithfully.
pub(crate) fn check_pending(document: &Document) -> Result<()> {
    check(document)?;
    document.get("_id").map_or(Ok(()), check_id)?;
    for (field, value) in document {
        if field.starts_with('$') {
            return Err(Error::unsupported(format!(
                "the field {field:?} cannot be inserted in a transaction: the server would take it for an operator when the transaction is finished"
            )));
        }
        if matches!(value, Bson::Timestamp(stamp) if stamp.time == 0 && stamp.increment == 0) {
            return Err(Error::unsupported(format!(
                "the field {field:?} is an empty timestamp, which the server would fill in when it is inserted outside a transaction only"
            )));
        }
    }
    Ok(())
}

/// Outside a transaction: one plain insert, unless pending values of a unique index count.
pub(crate) async fn one_directly(core: &Arc<Core>, ns: &Namespace, document: Document) -> Result<Bson> {
    core.catalog.check_written(ns, false)?;
    check(&document)?;
    if core.catalog.look_up(ns).await?.needs_transaction(None) {
        let (_, document) = with_id(document);
        return implicit::in_transaction!(core, |tx| one(core, tx, ns, document.clone()));
    }
    let (id, document) = with_id(document);
    let key = core.catalog.shard_key(ns).await?;
    let at = Address::of(&document, &key)?;
    let (mut attempts, mut lock_wait) = (Attempts::new(ATTEMPTS), LockWait::new(core.options.write_wait));
    while attempts.go_on(&lock_wait) {
        let command = doc! {"insert": &ns.coll, "documents": [document.clone()]};
        let answer = core.server.write_directly(&ns.db, command).await?;
        match answer.ok() {
            Err(error) if error.is_duplicate_id() => {
                if !way_is_free(core, ns, &at, None, &mut lock_wait).await? {
                    return Err(error);
                }
                refuse_watched(core, ns).await?;
            }
            Err(error) => return Err(error),
            Ok(_) => return Ok(id),
        }
    }
    Err(too_many_attempts(ns, &id))
}

/// Inserts one document inside a transaction.
pub(crate) async fn one(core: &Core, tx: &mut Transaction, ns: &Namespace, document: Document) -> Result<Bson> {
    check_pending(&document)?;
    let me = core.lifecycle.ensure_started(tx, ns).await?;
    let collection = core.catalog.admit_writes(ns, me).await?;
    collection.check_words(&document)?;
    let (id, document) = with_id(document);
    let key = core.catalog.shard_key(ns).await?;
    let at = Address::of(&document, &key)?;
    let stored = pending_insert(me, &document, &key)?;
    let owned = tx.may_hold(ns, &at.id);
    tx.hold(&core.options, ns, slice::from_ref(&at), Hold::Insert)?;
    let (mut attempts, mut lock_wait) = (Attempts::new(ATTEMPTS), LockWait::new(tx.lock_wait()));
    let new = NewDocument { at: &at, stored: &stored, document: &document };
    while attempts.go_on(&lock_wait) {
        let placed = place(core, tx, ns, &collection.uniques, &new, me).await;
        // The transaction held the `_id`, and its lock is gone: the `_id` was free, or a rival has
        // it now.
        if owned && !matches!(placed, Ok(PendingInsert { before: PriorState::Removed, .. })) {
            core.standings.vouch_for_lock(tx).await?;
        }
        let PendingInsert { before, is_compared } = match placed {
            Ok(put) => put,
            Err(error) if error.is_pending_duplicate() => {
                let uniques = &collection.uniques;
                Box::pin(core.uniqueness.meet_pending_duplicate(ns, uniques, error, me, &mut lock_wait)).await?;
                continue;
            }
            Err(error) if error.is_duplicate_id() => {
                if !Box::pin(way_is_free(core, ns, &at, Some(me), &mut lock_wait)).await? {
                    return Err(error);
                }
                continue;
            }
            Err(error) => return Err(error),
        };
        let uniques = &collection.uniques;
        let placed = PlacedDocument { ns, at: &at, uniques, before: &before, inserted: Some(&document) };
        if !is_compared && !uniques.is_empty() {
            Box::pin(core.uniqueness.check_placed(tx, &placed, me, &mut lock_wait)).await?;
        }
        if matches!(before, PriorState::Removed) {
            tx.note_locked(ns, slice::from_ref(&at), false);
        }
        tx.note_own(ns, [&at.id]);
        core.catalog.known_keys.saw_document(ns, &collection.plain_keys(), &document);
        return Ok(id);
    }
    Err(too_many_attempts(ns, &id))
}

/// A document that is to be inserted.
struct NewDocument<'a> {
    at: &'a Address,
    /// The document as it is stored while it is pending.
    stored: &'a Document,
    document: &'a Document,
}

/// A document that was stored as pending.
struct PendingInsert {
    before: PriorState,
    /// True if it is known that no other document has one of its keys, so that no read has to find
    /// out.
    is_compared: bool,
}

/// Stores it, if nothing has its `_id` but a document that this transaction has removed.
async fn place(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    uniques: &[Unique],
    new: &NewDocument<'_>,
    me: TxId,
) -> Result<PendingInsert> {
    let placing = place_compared(core, tx, ns, uniques, slice::from_ref(new.stored), &[new.document], me).await?;
    let refused = match placing {
        Some(PlacedInserts { refused: None, are_compared, .. }) => {
            return Ok(PendingInsert { before: PriorState::Absent, is_compared: are_compared });
        }
        Some(PlacedInserts { refused: Some(refused), .. }) if refused.is_duplicate_key() => refused,
        // Whatever else the server has against it, it says of an insert.
        _ => match send(core, tx, ns, vec![new.stored.clone()], true).await?.ok() {
            Ok(_) => return Ok(PendingInsert { before: PriorState::Absent, is_compared: false }),
            Err(refused) => refused,
        },
    };
    let is_id_taken = refused.is_duplicate_key() && !refused.is_pending_duplicate();
    match is_id_taken && revive(core, tx, ns, new.at, new.document, me).await? {
        true => Ok(PendingInsert { before: PriorState::Removed, is_compared: false }),
        false => Err(refused),
    }
}

fn too_many_attempts(ns: &Namespace, id: &Bson) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("the document {{_id: {id}}} of {ns} changed hands {ATTEMPTS} times while it was to be inserted"),
    )
}

pub(super) async fn send(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    documents: Vec<Document>,
    ordered: bool,
) -> Result<WriteAnswer> {
    let command = doc! {"insert": &ns.coll, "documents": documents, "ordered": ordered};
    Ok(send_insert(core, tx, ns, command, Vec::new()).await?.answer)
}

/// A document that this transaction has removed comes back.
async fn revive(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    at: &Address,
    document: &Document,
    me: TxId,
) -> Result<bool> {
    if !tx.has_written(ns) {
        return Ok(false);
    }
    if core.catalog.look_up(ns).await?.has_collation {
        refuse_other_id(core, ns, at, me).await?;
    }
    let command = doc! {"update": &ns.coll, "updates": [statement::revive(at.filter(), document, me)]};
    Ok(core.server.send_prepared(tx, ns, command, &Fields::All).await?.ok()?.n == 1)
}

/// Under the collection's collation the removed document may have another `_id`, which could not be
/// changed at the end.
async fn refuse_other_id(core: &Core, ns: &Namespace, at: &Address, me: TxId) -> Result<()> {
    let mine = doc! {"$and": [at.filter(), {WRITER: tx_id_to_bson(me), REMOVE: true}]};
    let find = doc! {"find": &ns.coll, "filter": mine, "projection": {"_id": 1}};
    let Some(removed) = core.server.find_first(ns, find).await? else { return Ok(()) };
    match removed.get("_id") {
        Some(id) if !has_same_strings(id, &at.id) => Err(Error::unsupported(format!(
            "the document {{_id: {at}}} cannot be inserted into {ns}: its _id is equal to {id}, of a document that the transaction has removed, and not the same"
        ))),
        _ => Ok(()),
    }
}

/// Of two equal values, in all that a collation may have made equal.
fn has_same_strings(one: &Bson, other: &Bson) -> bool {
    match (one, other) {
        (Bson::String(one), Bson::String(other)) => one == other,
        (Bson::Document(one), Bson::Document(other)) => {
            one.values().zip(other.values()).all(|(one, other)| has_same_strings(one, other))
        }
        (Bson::Array(one), Bson::Array(other)) => {
            one.iter().zip(other).all(|(one, other)| has_same_strings(one, other))
        }
        _ => true,
    }
}

/// Returns true if the insert can be tried again: the leftover that had the `_id` is repaired, or
/// its holder was waited for. False: the `_id` is taken.
async fn way_is_free(
    core: &Core,
    ns: &Namespace,
    at: &Address,
    me: Option<TxId>,
    lock_wait: &mut LockWait,
) -> Result<bool> {
    let Some((at, lock)) = holder_of(core, ns, at).await? else { return Ok(true) };
    let Some(writer) = lock.writer.filter(|writer| Some(*writer) != me) else { return Ok(false) };
    match core.repairs.clear_locks(ns, &at, &lock, me).await? {
        None => Ok(true),
        // The rival only changes the document, which exists whether or not the rival commits.
        Some(_) if !lock.insert && !lock.remove => Ok(false),
        Some(_) => {
            lock_wait.wait_for(&core.server, ns, &at.id, writer).await?;
            Ok(true)
        }
    }
}

/// The document that has this `_id`: here, or with another shard key.
async fn holder_of(core: &Core, ns: &Namespace, at: &Address) -> Result<Option<(Address, LockState)>> {
    let mut at = at.clone();
    let mut lock = core.server.fetch_locks(ns, &at).await?;
    if lock.is_none() && !at.key().is_empty() {
        at = core.server.ask_where(ns, Address::bare(at.id), &core.catalog.shard_key(ns).await?).await?;
        lock = core.server.fetch_locks(ns, &at).await?;
    }
    Ok(lock.map(|lock| (at, lock)))
}
