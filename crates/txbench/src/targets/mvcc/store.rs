//! State that the sessions of a process share: the connection, known outcomes of transactions, and
//! the finisher's queue.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bson::{Bson, Document, doc, oid::ObjectId};
use futures_util::TryStreamExt;
use mongodb::{
    Collection, Database,
    error::Error,
    options::{Acknowledgment, WriteConcern},
};
use tokio::sync::mpsc::Sender;

use super::{
    format::{DONE, LOCK_TX, Lock, SINCE, Version},
    visible::{TransactionState, TransactionStates},
    work::Work,
};
use crate::{
    error::{OpError, OpResult},
    targets::driver::{error_code, is_unreachable},
};

/// Rivals may roll back a transaction that is not decided this long after its first write, by the
/// server's clock. The same as MongoTx's.
const LEASE: Duration = Duration::from_secs(10);
/// Time limit of a read of documents by their keys, and greatest age of its answer when a version
/// is written that depends on it. Old versions are kept for longer than both together.
pub(super) const READ_LIMIT: Duration = Duration::from_secs(2);
const MAX_TIME_EXPIRED: i32 = 50;

/// The shared part of all sessions.
pub(super) struct Store {
    pub(super) db: Database,
    /// Transactions that this process has committed and whose other documents are still locked.
    committed: Mutex<HashSet<ObjectId>>,
    work: Sender<Work>,
}

/// A write that becomes durable with the commit after it.
pub(super) fn not_durable() -> WriteConcern {
    WriteConcern::builder().w(Acknowledgment::Nodes(1)).build()
}

impl Store {
    pub(super) fn new(db: Database, work: Sender<Work>) -> Arc<Self> {
        Arc::new(Self { db, committed: Mutex::default(), work })
    }

    pub(super) fn collection(&self, name: &str) -> Collection<Document> {
        self.db.collection(name)
    }

    /// Versions that a find answers, and the time at which it was sent.
    pub(super) async fn versions(&self, find: mongodb::action::Find<'_, Document>) -> OpResult<Vec<Version>> {
        let found: Vec<Document> = find.await.map_err(failed)?.try_collect().await.map_err(failed)?;
        Ok(found.into_iter().map(Version::read).collect::<Result<_, _>>()?)
    }

    /// Notes a commit whose other documents are still locked.
    pub(super) fn note_committed(&self, tx: ObjectId) {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner).insert(tx);
    }

    /// Forgets commits that are finished.
    pub(super) fn forget(&self, finished: impl Iterator<Item = ObjectId>) {
        let mut committed = self.committed.lock().unwrap_or_else(PoisonError::into_inner);
        for tx in finished {
            committed.remove(&tx);
        }
    }

    /// Adds what this process itself has committed so far to what is known.
    pub(super) fn add_committed(&self, outcomes: &mut TransactionStates) {
        let committed = self.committed.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.extend(committed.iter().map(|tx| (*tx, TransactionState::Committed)));
    }

    /// Hands over work that need not be waited for; waits where the finisher is behind by as much
    /// as it may be.
    pub(super) async fn finish(&self, work: Work) {
        // The finisher ends after all sessions; work that it does not get is done by clients that
        // meet it.
        let _ = self.work.send(work).await;
    }

    /// Finds out about transactions, through their primaries: one command for each collection that
    /// these are in.
    ///
    /// A transaction whose time is up is rolled back.
    pub(super) async fn ask(&self, locks: &[Lock], outcomes: &mut TransactionStates) -> OpResult<()> {
        let mut by_collection: HashMap<&str, Vec<&Lock>> = HashMap::new();
        for lock in locks {
            by_collection.entry(&lock.primary.collection).or_default().push(lock);
        }
        for (collection, locks) in by_collection {
            let ids: Vec<Bson> = locks.iter().map(|lock| lock.primary.id.bson()).collect();
            let wanted = doc! {LOCK_TX: 1, DONE: 1, "expired": is_expired()};
            let primaries = self.collection(collection);
            let find = primaries.find(doc! {"_id": {"$in": ids}}).projection(wanted);
            let found: Vec<Document> = find.await.map_err(failed)?.try_collect().await.map_err(failed)?;
            for lock in locks {
                if let Some(outcome) = self.outcome(collection, lock, &found).await? {
                    outcomes.insert(lock.tx, outcome);
                }
            }
        }
        Ok(())
    }

    /// The outcome of the transaction that has the lock, by the primaries that were found; `None`:
    /// it was decided between two reads, so that they have to be read again.
    async fn outcome(
        &self,
        collection: &str,
        lock: &Lock,
        primaries: &[Document],
    ) -> OpResult<Option<TransactionState>> {
        let locks = |primary: &Document| {
            primary.get_document("_lock").and_then(|held| held.get_object_id("tx")).is_ok_and(|tx| tx == lock.tx)
        };
        let is_done = |primary: &Document| primary.get_object_id(DONE).is_ok_and(|tx| tx == lock.tx);
        if primaries.iter().any(is_done) {
            return Ok(Some(TransactionState::Committed));
        }
        let Some(primary) = primaries.iter().find(|primary| locks(primary)) else {
            return Ok(Some(TransactionState::Gone));
        };
        if !primary.get_bool("expired").unwrap_or(false) {
            return Ok(Some(TransactionState::Pending));
        }
        let filter = doc! {"_id": lock.primary.id.bson(), LOCK_TX: lock.tx, "$expr": is_expired()};
        let removed = self.collection(collection).delete_one(filter).write_concern(not_durable()).await;
        Ok((removed.map_err(failed)?.deleted_count == 1).then_some(TransactionState::Gone))
    }

    /// Removes a version of a transaction that was rolled back.
    pub(super) async fn remove_stale(&self, collection: &str, version: &Version) -> OpResult<()> {
        let Some(lock) = &version.lock else { return Ok(()) };
        let filter = doc! {"_id": version.id.bson(), LOCK_TX: lock.tx};
        self.collection(collection).delete_one(filter).write_concern(not_durable()).await.map_err(failed)?;
        Ok(())
    }
}

/// Expression of the server: true if the time of a primary's transaction is up.
fn is_expired() -> Document {
    let lease_ms = i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX);
    doc! {"$lt": [{"$toDate": {"$ifNull": [format!("${SINCE}"), "$$NOW"]}}, {"$subtract": ["$$NOW", lease_ms]}]}
}

/// The meaning of an error before the commit was sent.
pub(super) fn failed(error: Error) -> OpError {
    match error_code(&error) {
        Some(MAX_TIME_EXPIRED) => OpError::Conflict("slow read"),
        _ if is_unreachable(&error) => OpError::Conflict("server not reached"),
        _ => OpError::from(error),
    }
}
