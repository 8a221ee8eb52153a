//! Documents that transactions of *this client* hold. A transaction that wants one of them gets a
//! conflict, or waits in turn, without a command to the server; two of them that would wait for
//! each other are found at once.
//!
//! This knowledge is no more than a short cut: the server's documents decide who holds a lock. A
//! document that is unknown here may be locked, and one that is known may be free (another client
//! has rolled its holder back): then the wait ends at the caller's limit, as it would in front
//! of the server. This table decides only that a transaction waits, or gets a conflict.
//!
//! [`table`] is what is known, [`claim`] the wait for a turn; here is what a transaction keeps of
//! it.
//!
//! 1. Before the first prepared write of a document by its `_id`: [`Claims::claim`]. One
//!    transaction at a time tries.
//! 2. The server's answer shows that it is locked: the claim is kept ([`Claim::keep`]) until the
//!    transaction's documents are finished. With any other answer, or if the future is dropped, the
//!    claim goes to the next that waits. A write that names no `_id` claims nothing: its document
//!    becomes known by the server's answer ([`Claims::took`]).
//! 3. The commit is answered: what it holds goes to the next that wants it ([`Claims::leave`]),
//!    together with the name of the transaction that left it ([`Claim::left`]), whose lock is still
//!    there until it is finished (decision 0012).

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

use protocol::TxId;

use self::table::{Key, Owner, State, Table};
use crate::options::Namespace;

mod claim;
mod table;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;

pub(crate) use self::claim::{Claim, Claimed};

/// Limit of a transaction's documents for a check whether other transactions wait for them.
const FEW: usize = 64;

/// Committed transactions that one statement names, to take over what they have left.
const MOST_LEFT: usize = 16;

/// The documents that transactions of one client hold or want.
#[derive(Default)]
pub(crate) struct Siblings {
    table: Mutex<Table>,
    /// Number of transactions that are able to lock documents, and not about to be decided.
    running: AtomicUsize,
}

/// All that one transaction holds here. When the last copy is dropped, it is free for others: a
/// transaction keeps one, and its job after it.
#[derive(Clone)]
pub(crate) struct Claims(Arc<ClaimedKeys>);

struct ClaimedKeys {
    siblings: Arc<Siblings>,
    owner: Arc<Owner>,
    keys: Mutex<Vec<Key>>,
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claims({})", self.0.owner.id)
    }
}

/// State of the documents that a transaction keeps until it is finished: whether others wait for
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptDocuments {
    NotAwaited,
    Awaited,
}

impl Siblings {
    fn lock(&self) -> MutexGuard<'_, Table> {
        // No code panics while it holds this lock; after a panic, the table would at worst make a
        // transaction ask the server.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claims {
    pub(crate) fn new(siblings: &Arc<Siblings>, id: TxId) -> Self {
        let owner = Arc::new(Owner { id, ending: AtomicBool::new(false) });
        siblings.running.fetch_add(1, SeqCst);
        Self(Arc::new(ClaimedKeys { siblings: Arc::clone(siblings), owner, keys: Mutex::default() }))
    }

    /// The transaction will be over within moments.
    pub(crate) fn ending(&self) {
        self.0.end();
    }

    /// Returns true if no other transaction of this client runs that is able to lock documents.
    pub(crate) fn are_alone(&self) -> bool {
        self.0.siblings.running.load(SeqCst) == 1
    }

    /// Notes that the server has given the transaction a document that it has not claimed. A
    /// transaction that is trying to lock it, or waits to, finds out from the server.
    pub(crate) fn took(&self, ns: &Namespace, id: Vec<u8>) {
        let key = (ns.clone(), id);
        let taken = self.0.siblings.lock().take(&key, &self.0.owner);
        if taken {
            self.0.note(key);
        }
    }

    /// The committed transaction that has left a document, if no other transaction has tried to
    /// lock it since.
    pub(crate) fn left_at(&self, ns: &Namespace, id: Vec<u8>) -> Option<TxId> {
        let table = self.0.siblings.lock();
        table.entries.get(&(ns.clone(), id)).filter(|entry| entry.state == State::Left).map(|entry| entry.owner.id)
    }

    /// Returns true if another transaction of this client holds the document, or tries to lock it.
    pub(crate) fn is_taken_by_another(&self, ns: &Namespace, id: Vec<u8>) -> bool {
        let table = self.0.siblings.lock();
        let entry = table.entries.get(&(ns.clone(), id));
        entry.is_some_and(|entry| entry.state != State::Left && entry.owner.id != self.0.owner.id)
    }

    /// The latest transactions that are committed and may still be what is found on documents of
    /// this collection.
    pub(crate) fn left_in(&self, ns: &Namespace) -> Vec<TxId> {
        let table = self.0.siblings.lock();
        table.left.get(ns).map_or_else(Vec::new, |left| left.iter().rev().take(MOST_LEFT).copied().collect())
    }

    /// Returns true if another transaction waits for a document that this one holds. Of one that
    /// holds many documents that is not known: to look at all of them would keep others from the
    /// table.
    pub(crate) fn is_wanted(&self) -> bool {
        let keys = self.0.keys();
        if keys.len() > FEW {
            return false;
        }
        let (me, table) = (self.0.owner.id, self.0.siblings.lock());
        let mut mine = keys.iter().filter_map(|key| table.entries.get(key)).filter(|entry| entry.owner.id == me);
        mine.any(|entry| !entry.queue.is_empty())
    }

    /// Number of documents of a collection that it has left, and of those that no transaction has
    /// tried to take over so far.
    pub(crate) fn count(&self, ns: &Namespace) -> (usize, usize) {
        let keys = self.0.keys();
        let (me, table) = (self.0.owner.id, self.0.siblings.lock());
        let mine = |key: &&Key| table.entries.get(key).is_some_and(|entry| entry.owner.id == me);
        let here = || keys.iter().filter(|(other, _)| other == ns);
        (here().count(), here().filter(mine).count())
    }

    /// Notes that the transaction is committed, and that this was reported: its documents may be
    /// taken over, but for the collections that are `kept` until they are finished.
    pub(crate) fn leave(&self, kept: impl Fn(&Namespace) -> bool) -> KeptDocuments {
        let keys = self.0.keys();
        let (me, mut table) = (self.0.owner.id, self.0.siblings.lock());
        let mut left = KeptDocuments::NotAwaited;
        for key in &*keys {
            let Some(entry) = table.entries.get_mut(key).filter(|entry| entry.owner.id == me) else { continue };
            if kept(&key.0) {
                left = if entry.queue.is_empty() { left } else { KeptDocuments::Awaited };
            } else if entry.queue.is_empty() {
                entry.state = State::Left;
            } else {
                entry.left = Some(me);
                table.hand_on(key);
            }
            table.note_left(&key.0, me);
        }
        left
    }
}

impl ClaimedKeys {
    fn keys(&self) -> MutexGuard<'_, Vec<Key>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        if !self.owner.ending.swap(true, SeqCst) {
            self.siblings.running.fetch_sub(1, SeqCst);
        }
    }

    /// Notes a document that the transaction holds from now on.
    fn note(&self, key: Key) {
        self.keys().push(key);
    }
}

impl Drop for ClaimedKeys {
    fn drop(&mut self) {
        self.end();
        let keys = std::mem::take(&mut *self.keys());
        let mut table = self.siblings.lock();
        for key in &keys {
            table.forget(key, self.owner.id);
        }
    }
}
