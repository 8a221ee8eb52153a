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

#[derive(Default)]
pub(super) struct Table {
    pub(super) places: HashMap<Key, Place>,
    /// The document that a transaction waits for: one at a time, because a session runs one
    /// statement after the other.
    pub(super) waits: HashMap<TxId, Key>,
    /// Committed transactions that may still be found on documents of a collection, the latest
    /// last.
    pub(super) left: HashMap<Namespace, Vec<TxId>>,
}

/// A document that a transaction holds, or tries to lock.
pub(super) struct Place {
    pub(super) owner: Arc<Owner>,
    pub(super) state: State,
    /// Committed transaction whose lock may still be found there.
    pub(super) left: Option<TxId>,
    /// Transactions that wait, in order.
    pub(super) queue: VecDeque<Next>,
}

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
pub(super) struct Next {
    pub(super) owner: Arc<Owner>,
    turn: oneshot::Sender<()>,
}

/// A transaction that holds documents.
pub(super) struct Owner {
    pub(super) id: TxId,
    /// True if its documents will be free within moments.
    pub(super) ending: AtomicBool,
}

impl Place {
    fn new(owner: &Arc<Owner>, state: State) -> Self {
        Self { owner: Arc::clone(owner), state, left: None, queue: VecDeque::new() }
    }
}

impl Table {
    /// Puts `owner` at the end of the queue of a document. `None`: it is its turn already. An
    /// error: the wait would never end.
    pub(super) fn enqueue(&mut self, key: &Key, owner: &Arc<Owner>) -> Result<Option<oneshot::Receiver<()>>, TxId> {
        if self.would_wait_for(key, owner.id) {
            let rival = self.places.get(key).map_or(owner.id, |place| place.owner.id);
            return Err(rival);
        }
        let Some(place) = self.places.get_mut(key) else {
            self.places.insert(key.clone(), Place::new(owner, State::Tried));
            return Ok(None);
        };
        if place.state == State::Left {
            place.left = Some(place.owner.id);
            (place.owner, place.state) = (Arc::clone(owner), State::Tried);
            return Ok(None);
        }
        let (turn, comes) = oneshot::channel();
        place.queue.push_back(Next { owner: Arc::clone(owner), turn });
        self.waits.insert(owner.id, key.clone());
        Ok(Some(comes))
    }

    /// Returns true if the owner of this document waits for `me`, directly or through others.
    fn would_wait_for(&self, key: &Key, me: TxId) -> bool {
        let mut next = self.places.get(key);
        // No longer than there are transactions that wait.
        for _ in 0..=self.waits.len() {
            let Some(place) = next else { return false };
            if place.owner.id == me {
                return true;
            }
            next = self.waits.get(&place.owner.id).and_then(|key| self.places.get(key));
        }
        false
    }

    /// Notes that the server has given `owner` a document without a claim. False: another
    /// transaction is trying to lock it, or waits to, and finds out from the server.
    pub(super) fn take(&mut self, key: &Key, owner: &Arc<Owner>) -> bool {
        match self.places.get_mut(key) {
            Some(place) if place.state == State::Left => {
                (place.owner, place.state, place.left) = (Arc::clone(owner), State::Held, None);
            }
            Some(_) => return false,
            None => {
                self.places.insert(key.clone(), Place::new(owner, State::Held));
            }
        }
        true
    }

    /// Notes that the server has given the owner of a document what it tried to lock.
    pub(super) fn hold(&mut self, key: &Key) {
        if let Some(place) = self.places.get_mut(key) {
            (place.state, place.left) = (State::Held, None);
        }
    }

    /// The holder of a document, if it is known and will not let go within moments.
    pub(super) fn stands_still(&self, key: &Key) -> Option<TxId> {
        let place = self.places.get(key)?;
        (place.state == State::Held && !place.owner.ending.load(SeqCst)).then_some(place.owner.id)
    }

    /// Another transaction than `me` that holds the document, or tries to lock it.
    pub(super) fn rival_at(&self, key: &Key, me: TxId) -> Option<TxId> {
        self.places.get(key).map(|place| place.owner.id).filter(|owner| *owner != me)
    }

    /// The holder of a document, if it is about to let go.
    pub(super) fn ends(&self, key: &Key) -> Option<TxId> {
        let owner = &self.places.get(key)?.owner;
        owner.ending.load(SeqCst).then_some(owner.id)
    }

    /// Gives the free document to the next transaction in its queue.
    pub(super) fn hand_on(&mut self, key: &Key) {
        let Some(place) = self.places.get_mut(key) else { return };
        while let Some(Next { owner, turn }) = place.queue.pop_front() {
            self.waits.remove(&owner.id);
            (place.owner, place.state) = (owner, State::Tried);
            if turn.send(()).is_ok() {
                return;
            }
        }
        self.places.remove(key);
    }

    /// Forgets a claim of `me` that came to nothing: hands the document on, or leaves its queue.
    pub(super) fn give_up(&mut self, key: &Key, me: TxId) {
        self.waits.remove(&me);
        let Some(place) = self.places.get_mut(key) else { return };
        if place.owner.id == me {
            self.hand_on(key);
        } else {
            place.queue.retain(|next| next.owner.id != me);
        }
    }

    /// Notes that the committed transaction `me` may still be found on documents of `ns`.
    pub(super) fn note_left(&mut self, ns: &Namespace, me: TxId) {
        let left = self.left.entry(ns.clone()).or_default();
        if left.last() != Some(&me) && !left.contains(&me) {
            left.push(me);
        }
    }

    /// Forgets a document of the transaction `gone`, which is finished.
    pub(super) fn forget(&mut self, key: &Key, gone: TxId) {
        self.forget_left(&key.0, gone);
        let Some(place) = self.places.get_mut(key) else { return };
        place.left = place.left.filter(|left| *left != gone);
        if place.owner.id == gone {
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
