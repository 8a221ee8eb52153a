//! The stored documents, and the two unique indexes that the server enforces.

use protocol::{LockState, TxStatus};

use super::plan::{NULL, Value};

/// An additional field of the user's index, in documents whose safe value must not block others. It
/// holds the document's `_id`, so that no two slots are equal.
pub type Slot = usize;

/// The change that a transaction has prepared for a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pending {
    /// The document gets this value.
    Value(Value),
    /// The document is to be removed.
    Removed,
}

/// The write lock of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    /// Index of the transaction that holds it.
    pub tx: usize,
    /// Change in the unsafe version.
    pub pending: Pending,
}

/// A document as the server stores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stored {
    /// The safe version; none while it only waits to be inserted.
    pub safe: Option<Value>,
    /// Slot of the document, if it has one.
    pub slot: Option<Slot>,
    /// Write lock of the document, if there is one.
    pub lock: Option<Lock>,
}

impl Stored {
    /// A document without lock and slot.
    pub fn clean(value: Value) -> Self {
        Self { safe: Some(value), slot: None, lock: None }
    }

    /// Returns this document with another unsafe version, locked by `tx`.
    pub fn locked(self, tx: usize, pending: Pending) -> Self {
        Self { lock: Some(Lock { tx, pending }), ..self }
    }

    /// Transaction that holds the document.
    pub fn holder(&self) -> Option<usize> {
        self.lock.map(|lock| lock.tx)
    }

    /// Value in the document's unsafe version.
    pub fn pending(&self) -> Option<Value> {
        match self.lock?.pending {
            Pending::Value(value) => Some(value),
            Pending::Removed => None,
        }
    }

    /// The lock state, for the decisions of the crate `protocol`.
    pub fn lock_state(&self) -> LockState {
        let remove = self.lock.is_some_and(|lock| lock.pending == Pending::Removed);
        LockState { insert: self.safe.is_none(), remove, ..LockState::default() }
    }

    /// The key in the user's index.
    fn key(&self) -> (Value, Option<Slot>) {
        (self.safe.unwrap_or(NULL), self.slot)
    }
}

/// The index that refused a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// The unique index that the application has made.
    ByUserIndex,
    /// The mirrored index on unsafe versions.
    ByMirror,
}

/// The documents of the collection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Documents {
    /// Documents by their index; `None` for one that is not there.
    pub docs: Vec<Option<Stored>>,
    /// True if there is a mirrored index.
    pub mirror: bool,
}

impl Documents {
    /// Writes one document, atomically; `None` removes it.
    ///
    /// # Errors
    /// The index that refused the write, which then has no effect.
    pub fn put(&mut self, doc: usize, stored: Option<Stored>) -> Result<(), Refused> {
        if let Some(new) = &stored {
            let mut others = self.others(doc);
            if others.clone().any(|other| other.key() == new.key()) {
                return Err(Refused::ByUserIndex);
            }
            let taken = |value| others.any(|other| other.pending() == Some(value));
            if self.mirror && new.pending().is_some_and(taken) {
                return Err(Refused::ByMirror);
            }
        }
        self.docs[doc] = stored;
        Ok(())
    }

    fn others(&self, doc: usize) -> impl Iterator<Item = &Stored> + Clone {
        self.docs.iter().enumerate().filter(move |(at, _)| *at != doc).filter_map(|(_, stored)| stored.as_ref())
    }

    /// The document, if this transaction holds it.
    pub fn held(&self, doc: usize, tx: usize) -> Option<Stored> {
        self.docs[doc].filter(|stored| stored.holder() == Some(tx))
    }

    /// The documents that a transaction holds.
    pub fn held_by(&self, tx: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.docs.len()).filter(move |doc| self.held(*doc, tx).is_some())
    }

    /// The latest committed value of a document, or the value in the view of `me`.
    pub fn visible(&self, doc: usize, statuses: &[TxStatus], me: Option<usize>) -> Option<Value> {
        let stored = self.docs[doc]?;
        let sees = |tx: usize| Some(tx) == me || statuses[tx] == TxStatus::Committed;
        if stored.holder().is_some_and(sees) { stored.pending() } else { stored.safe }
    }
}
