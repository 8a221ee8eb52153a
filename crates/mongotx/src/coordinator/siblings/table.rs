//! The table of [`super::Siblings`]: the holder of each document, the transactions that wait for
//! it, and what committed ones have left. Nothing here waits: [`super::claim`] does.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use protocol::TxId;
use tokio::sync::oneshot;

use crate::options::Namespace;

/// A document of a collection, by the bytes of its `_id`.
pub(super) type Key = (Namespace, Vec<u8>);

/// The documents that transactions of this client hold or wait for.
#[derive(Default)]
pub(super) struct Table {
    pub(super) entries: HashMap<Key, DocumentEntry>,
    /// The document that a transaction waits for: one at a time, because a session runs one
    /// statement after the other.
    pub(super) waits: HashMap<TxId, Key>,
    /// Committed transactions that may still be found on documents of a collection, the latest
    /// last.
    pub(super) left: HashMap<Namespace, Vec<TxId>>,
}

/// A document that a transaction holds, or tries to lock.
pub(super) struct DocumentEntry {
    pub(super) owner: Arc<Owner>,
    pub(super) state: State,
    /// Committed transaction whose lock may still be found there.
    pub(super) left: Option<TxId>,
    /// Transactions that wait, in order.
    pub(super) queue: VecDeque<Waiter>,
}

/// State of the claim on a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The owner is about to lock it.
    Tried,
    /// The server has said that the owner holds it.
    Held,
    /// The owner is committed, and no other transaction has wanted it so far.
    Left,
}

/// A transaction that waits for a document.
pub(super) struct Waiter {
    pub(super) owner: Arc<Owner>,
    turn: oneshot::Sender<()>,
}

/// A transaction that holds documents.
pub(super) struct Owner {
    pub(super) id: TxId,
    /// True if its documents will be free within moments.
    pub(super) ending: AtomicBool,
}

impl DocumentEntry {
    fn new(owner: &Arc<Owner>, state: State) -> Self {
        Self { owner: Arc::clone(owner), state, left: None, queue: VecDeque::new() }
    }
}

impl Table {
    /// Puts `owner` at the end of the queue of a document. `None`: it is its turn already. An
    /// error: the wait would never end.
    pub(super) fn enqueue(&mut self, key: &Key, owner: &Arc<Owner>) -> Result<Option<oneshot::Receiver<()>>, TxId> {
        if self.would_wait_for(key, owner.id) {
            let rival = self.entries.get(key).map_or(owner.id, |entry| entry.owner.id);
            return Err(rival);
        }
        let Some(entry) = self.entries.get_mut(key) else {
            self.entries.insert(key.clone(), DocumentEntry::new(owner, State::Tried));
            return Ok(None);
        };
        if entry.state == State::Left {
            entry.left = Some(entry.owner.id);
            (entry.owner, entry.state) = (Arc::clone(owner), State::Tried);
            return Ok(None);
        }
        let (turn, comes) = oneshot::channel();
        entry.queue.push_back(Waiter { owner: Arc::clone(owner), turn });
        self.waits.insert(owner.id, key.clone());
        Ok(Some(comes))
    }

    /// Returns true if the owner of this document waits for `me`, directly or through others.
    fn would_wait_for(&self, key: &Key, me: TxId) -> bool {
        let mut next = self.entries.get(key);
        // No longer than there are transactions that wait.
        for _ in 0..=self.waits.len() {
            let Some(entry) = next else { return false };
            if entry.owner.id == me {
                return true;
            }
            next = self.waits.get(&entry.owner.id).and_then(|key| self.entries.get(key));
        }
        false
    }

    /// Notes that the server has given `owner` a document without a claim. False: another
    /// transaction is trying to lock it, or waits to, and finds out from the server.
    pub(super) fn take(&mut self, key: &Key, owner: &Arc<Owner>) -> bool {
        match self.entries.get_mut(key) {
            Some(entry) if entry.state == State::Left => {
                (entry.owner, entry.state, entry.left) = (Arc::clone(owner), State::Held, None);
            }
            Some(_) => return false,
            None => {
                self.entries.insert(key.clone(), DocumentEntry::new(owner, State::Held));
            }
        }
        true
    }

    /// Notes that the server has given the owner of a document what it tried to lock.
    pub(super) fn hold(&mut self, key: &Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            (entry.state, entry.left) = (State::Held, None);
        }
    }

    /// The holder of a document, if it is known and will not let go within moments.
    pub(super) fn stands_still(&self, key: &Key) -> Option<TxId> {
        let entry = self.entries.get(key)?;
        (entry.state == State::Held && !entry.owner.ending.load(SeqCst)).then_some(entry.owner.id)
    }

    /// Another transaction than `me` that holds the document, or tries to lock it.
    pub(super) fn rival_at(&self, key: &Key, me: TxId) -> Option<TxId> {
        self.entries.get(key).map(|entry| entry.owner.id).filter(|owner| *owner != me)
    }

    /// The holder of a document, if it is about to let go.
    pub(super) fn ends(&self, key: &Key) -> Option<TxId> {
        let owner = &self.entries.get(key)?.owner;
        owner.ending.load(SeqCst).then_some(owner.id)
    }

    /// Gives the free document to the next transaction in its queue.
    pub(super) fn hand_on(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        while let Some(Waiter { owner, turn }) = entry.queue.pop_front() {
            self.waits.remove(&owner.id);
            (entry.owner, entry.state) = (owner, State::Tried);
            if turn.send(()).is_ok() {
                return;
            }
        }
        self.entries.remove(key);
    }

    /// Forgets a claim of `me` that came to nothing: hands the document on, or leaves its queue.
    pub(super) fn give_up(&mut self, key: &Key, me: TxId) {
        self.waits.remove(&me);
        let Some(entry) = self.entries.get_mut(key) else { return };
        if entry.owner.id == me {
            self.hand_on(key);
        } else {
            entry.queue.retain(|waiter| waiter.owner.id != me);
        }
    }

    /// Notes that the committed transaction `me` may still be found on documents of `ns`.
    pub(super) fn note_left(&mut self, ns: &Namespace, me: TxId) {
        let left = self.left.entry(ns.clone()).or_default();
        if left.last() != Some(&me) && !left.contains(&me) {
            left.push(me);
        }
    }

    /// Returns true if this transaction, which holds documents of `ns`, is committed.
    pub(super) fn is_committed(&self, ns: &Namespace, holder: TxId) -> bool {
        self.left.get(ns).is_some_and(|left| left.contains(&holder))
    }

    /// Forgets a document of the transaction `gone`, which is finished.
    pub(super) fn forget(&mut self, key: &Key, gone: TxId) {
        self.forget_left(&key.0, gone);
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.left = entry.left.filter(|left| *left != gone);
        if entry.owner.id == gone {
            self.hand_on(key);
        }
    }

    fn forget_left(&mut self, ns: &Namespace, gone: TxId) {
        if let Some(left) = self.left.get_mut(ns) {
            left.retain(|id| *id != gone);
            if left.is_empty() {
                self.left.remove(ns);
            }
        }
    }
}
