//! The end of a transaction.
//!
//! 1. The lock on the primary is removed, as durably as demanded: that is the commit. All versions
//!    were written before, to the same server, so that what makes this write durable makes them
//!    durable.
//! 2. The other documents are unlocked by the finisher, after the answer.
//!
//! Interrupted before 1, the transaction is rolled back by a client that meets it, once its time is
//! up; after 1, its other documents are unlocked by clients that meet them. A client that lives and
//! does not know leaves it to the finisher.

use std::collections::HashMap;

use bson::{Bson, Document, doc};

use super::{
    format::{DONE, LOCK, LOCK_TX, Lock, SINCE, VersionId},
    store::{Store, not_durable},
    visible::is_same,
    work::{Doubt, Finished, Place, Work},
    writing::{Own, Tx},
};
use crate::{
    error::{BenchError, OpError, OpResult},
    targets::driver::{in_doubt, is_not_durable, is_unreachable},
};

/// Number of times that a commit without an answer is sent.
const ATTEMPTS: u32 = 5;

/// Commits. A transaction that has written nothing needs no command.
pub(super) async fn commit(store: &Store, tx: Tx) -> OpResult<()> {
    let Some(primary) = tx.primary.clone() else { return Ok(()) };
    let finished = finished(&tx, (primary.collection.clone(), primary.id.clone()));
    // Step 1.
    let mut filter = doc! {"_id": primary.id.bson(), LOCK_TX: tx.id};
    let mut update = doc! {"$unset": {LOCK: "", SINCE: ""}};
    if !finished.locked.is_empty() {
        // Sent again, the commit finds the mark of its earlier copy.
        filter = doc! {"_id": primary.id.bson(), "$or": [{LOCK_TX: tx.id}, {DONE: tx.id}]};
        update.insert("$set", doc! {DONE: tx.id});
    }
    match decide(store, &primary.collection, &filter, &update, &tx).await {
        Ok(()) => {}
        Err(OpError::Conflict(reason)) => {
            rollback(store, tx).await;
            return Err(OpError::Conflict(reason));
        }
        Err(error) => {
            give_up(store, &tx).await;
            return Err(error);
        }
    }
    if !finished.locked.is_empty() {
        store.note_committed(tx.id);
    }
    // Step 2.
    if !finished.locked.is_empty() || !finished.replaced.is_empty() {
        store.finish(Work::Committed(finished)).await;
    }
    Ok(())
}

async fn decide(store: &Store, collection: &str, filter: &Document, update: &Document, tx: &Tx) -> OpResult<()> {
    let collection = store.collection(collection);
    for attempt in 1..=ATTEMPTS {
        let decided = collection.update_one(filter.clone(), update.clone()).write_concern(tx.concern.clone()).await;
        match decided {
            Ok(answer) if answer.matched_count > 0 => return Ok(()),
            Ok(_) if attempt == 1 || filter.contains_key("$or") => return Err(OpError::Conflict("expired")),
            Ok(_) => {
                let reason = "mvcc: a commit was sent twice, and its first answer was lost".to_owned();
                return Err(OpError::Unknown(BenchError::Failed(reason)));
            }
            Err(error) if is_unreachable(&error) && attempt < ATTEMPTS => {}
            Err(error) if is_unreachable(&error) || is_not_durable(&error) => {
                return Err(in_doubt(error));
            }
            Err(error) => return Err(error.into()),
        }
    }
    unreachable!("the last attempt answers")
}

/// Work that a commit leaves to the finisher.
fn finished(tx: &Tx, primary: Place) -> Finished {
    let mut locked = Vec::new();
    let mut replaced = Vec::new();
    for ((collection, _), Own { id, replaces, .. }) in &tx.own {
        if !(*collection == primary.0 && is_same(id, &primary.1)) {
            locked.push((collection.clone(), id.clone()));
        }
        replaced.extend(replaces.map(|ver| (collection.clone(), VersionId { key: id.key.clone(), ver })));
    }
    Finished { tx: tx.id, primary, locked, replaced }
}

/// Removes all that a transaction has written.
pub(super) async fn rollback(store: &Store, tx: Tx) {
    let mut by_collection: HashMap<&str, Vec<Bson>> = HashMap::new();
    for ((collection, _), Own { id, .. }) in &tx.own {
        by_collection.entry(collection).or_default().push(id.bson());
    }
    for (collection, ids) in by_collection {
        let filter = doc! {"_id": {"$in": ids}, LOCK_TX: tx.id};
        if store.collection(collection).delete_many(filter).write_concern(not_durable()).await.is_err() {
            give_up(store, &tx).await;
            return;
        }
    }
}

/// Leaves a transaction to the finisher, or, should this process end before it is done, to a client
/// that meets it.
async fn give_up(store: &Store, tx: &Tx) {
    let Some(primary) = tx.primary.clone() else { return };
    let places = tx.own.iter().map(|((collection, _), own)| (collection.clone(), own.id.clone())).collect();
    store.finish(Work::Doubt(Box::new(Doubt { lock: Lock { tx: tx.id, primary }, places }))).await;
}
