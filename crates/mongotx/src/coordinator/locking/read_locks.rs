//! Taking read locks, and checking that they are still there.
//!
//! 1. Note the documents as held, then send one `update` that locks all of them that no rival holds
//!    for writing.
//! 2. If it has left some out, look at their locks. Documents that this transaction has locked are
//!    kept. A rival's lock is repaired or waited for; a document that is *no longer* locked is
//!    free: again from 1. Only a missing document was removed.
//!
//! A document counts as read once it is known to be locked. From then on it must carry the lock
//! whenever this transaction reads it again or writes to it: a lock that is gone was taken by a
//! rival after the lease had ended, or lost with the server, and what was read may have changed
//! since.

use std::{collections::HashMap, sync::Arc};

use bson::{Document, doc};
use protocol::{
    LockState, TxId,
    lock::{UnlockedReason, keeps_read_lock, why_unlocked},
};
use sd2v::{
    statement::{self, OwnReadLock},
    stored::lock_state,
};

use crate::{
    coordinator::{
        catalog::Catalog,
        finishing::{
            finisher::IDS_PER_STATEMENT,
            lock_wait::{Attempts, LockWait},
            repairs::Repairs,
        },
        request::{
            address::{Address, among},
            own_key::id_key,
        },
        server::Server,
        stored::lock_fields::locks_only,
        transaction::{Hold, Transaction},
    },
    error::{Error, ErrorKind, Result},
    options::{ClientOptions, Namespace},
};

/// Attempts on documents that are free whenever they are looked at.
const ATTEMPTS: usize = 256;

/// Takes read locks for transactions, and looks after them.
pub(crate) struct ReadLocks {
    server: Arc<Server>,
    catalog: Arc<Catalog>,
    repairs: Arc<Repairs>,
    options: Arc<ClientOptions>,
}

impl ReadLocks {
    pub(crate) fn new(
        server: Arc<Server>,
        catalog: Arc<Catalog>,
        repairs: Arc<Repairs>,
        options: Arc<ClientOptions>,
    ) -> Self {
        Self { server, catalog, repairs, options }
    }

    /// Read-locks those of these documents that are there. Returns whether all of them were.
    pub(crate) async fn lock_for_reading(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        at: &[Address],
        me: TxId,
    ) -> Result<bool> {
        self.check_read_locks(tx, ns, at, me).await?;
        tx.hold(&self.options, ns, at, Hold::Read)?;
        let mut lock_wait = LockWait::new(tx.lock_wait());
        let mut all = true;
        for some in at.chunks(IDS_PER_STATEMENT) {
            all &= self.lock_some(tx, ns, some, me, &mut lock_wait).await?;
        }
        Ok(all)
    }

    async fn lock_some(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        at: &[Address],
        me: TxId,
        lock_wait: &mut LockWait,
    ) -> Result<bool> {
        let mut attempts = Attempts::new(ATTEMPTS);
        while attempts.go_on(lock_wait) {
            if self.send_read_locks(tx, ns, at, me).await? == at.len() {
                tx.keep_read_locks(ns, at);
                return Ok(true);
            }
            let stored = self.locks_of(ns, at).await?;
            let why = |at: &&Address| why_unlocked(stored.get(&id_key(&at.id)).map(|(_, lock)| lock), me);
            let (kept, others): (Vec<_>, Vec<_>) = at.iter().partition(|at| why(at) == UnlockedReason::Kept);
            tx.keep_read_locks(ns, kept);
            if others.iter().all(|at| why(at) == UnlockedReason::Gone) {
                return Ok(others.is_empty());
            }
            let held = others.iter().find_map(|at| match why(at) {
                UnlockedReason::Rival(_) => stored.get(&id_key(&at.id)),
                _ => None,
            });
            if let Some((at, lock)) = held {
                self.meet_writer_of(ns, at, lock, me, lock_wait).await?;
            }
        }
        let message =
            format!("documents of {ns} changed hands {ATTEMPTS} times while they were to be locked for reading");
        Err(Error::new(ErrorKind::Conflict, message).for_transaction(Some(me)))
    }

    /// Sends the lock, once. Returns how many documents took it.
    async fn send_read_locks(&self, tx: &mut Transaction, ns: &Namespace, at: &[Address], me: TxId) -> Result<usize> {
        tx.check_alive()?;
        let answer = self.server.send_read_lock(tx, ns, statement::lock_read(among(at), me)).await?;
        Ok(usize::try_from(answer.ok()?.n).unwrap_or(0))
    }

    /// Repairs what a decided writer has left on the document, or waits for one that is not
    /// decided.
    async fn meet_writer_of(
        &self,
        ns: &Namespace,
        at: &Address,
        lock: &LockState,
        me: TxId,
        lock_wait: &mut LockWait,
    ) -> Result<()> {
        let writer_only = LockState { readers: Vec::new(), ..lock.clone() };
        match self.repairs.clear_locks(ns, at, &writer_only, Some(me)).await? {
            Some(rival) => lock_wait.wait_for(&self.server, ns, &at.id, rival).await,
            None => Ok(()),
        }
    }

    /// The locks of those of these documents that are there, by the bytes of their `_id`s.
    async fn locks_of(&self, ns: &Namespace, at: &[Address]) -> Result<HashMap<Vec<u8>, (Address, LockState)>> {
        let key = self.catalog.shard_key(ns).await?;
        let find = doc! {"find": &ns.coll, "filter": among(at), "projection": locks_only(&key)};
        let found = self.server.collect(&ns.db, find, at.len()).await?;
        let parse = |stored: &Document| {
            let at = Address::of(stored, &key)?;
            Ok((id_key(&at.id), (at, lock_state(stored)?)))
        };
        found.iter().map(parse).collect()
    }

    /// Checks that this transaction still locks those of these documents that it has read.
    pub(crate) async fn check_read_locks(
        &self,
        tx: &Transaction,
        ns: &Namespace,
        at: &[Address],
        me: TxId,
    ) -> Result<()> {
        let read = |at: &&Address| tx.read_lock(ns, &at.id) == OwnReadLock::Kept;
        let read: Vec<Address> = at.iter().filter(read).cloned().collect();
        for some in read.chunks(IDS_PER_STATEMENT) {
            let stored = self.locks_of(ns, some).await?;
            let is_lost = |at: &&Address| {
                let lock = stored.get(&id_key(&at.id)).map(|(_, lock)| lock);
                !lock.is_some_and(|lock| keeps_read_lock(lock, me))
            };
            if let Some(at) = some.iter().find(is_lost) {
                let message = format!(
                    "the transaction's read lock on the document {{_id: {at}}} of {ns} is gone: its lease had ended, or the server lost it"
                );
                return Err(Error::new(ErrorKind::Expired, message).for_transaction(Some(me)));
            }
        }
        Ok(())
    }
}
