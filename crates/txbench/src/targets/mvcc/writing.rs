//! A transaction's writes: versions that are stored, with a lock, as soon as they are made (what
//! Percolator does just before a commit), so that the transaction's own queries find them.
//!
//! One check shows that no other transaction has written a document since it was read, and that
//! none does until the end: the next version has a fixed `_id`, which only one transaction can
//! insert. It needs that a version which was the latest when it was read, at most [`READ_LIMIT`]
//! ago, has not got a successor that is removed already: old versions are kept for longer than
//! that.

use std::{collections::HashMap, time::Instant};

use bson::{Bson, Document, doc, oid::ObjectId};
use mongodb::{error::ErrorKind, options::WriteConcern};

use super::{
    format::{Key, LOCK_TX, Lock, Primary, Version, VersionId, split},
    store::{READ_LIMIT, Store, failed, not_durable},
};
use crate::{
    error::{OpError, OpResult},
    targets::driver::{DUPLICATE_KEY, error_code, is_unreachable},
};

/// Documents of an open transaction, by collection and key.
type ByPlace<T> = HashMap<(String, Key), T>;

/// State of an open transaction.
pub(super) struct Tx {
    pub(super) id: ObjectId,
    /// Write concern of the commit.
    pub(super) concern: WriteConcern,
    pub(super) primary: Option<Primary>,
    pub(super) own: ByPlace<Own>,
    /// Documents that were read by their key, whole, and when: their next version can be written
    /// without reading them again.
    read: ByPlace<Seen>,
    /// True if nothing else than the next version may be written of these
    /// ([`TxOptions::no_lost_updates`]).
    ///
    /// [`TxOptions::no_lost_updates`]: crate::targets::TxOptions::no_lost_updates
    no_lost_updates: bool,
}

/// A version of the transaction's own.
pub(super) struct Own {
    pub(super) id: VersionId,
    /// The version that it replaces.
    pub(super) replaces: Option<i64>,
    /// The new body. `None`: a deletion.
    pub(super) body: Option<Document>,
}

/// A version, and the time at which the command that read it was sent.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) version: Version,
    pub(super) at: Instant,
}

/// A version to be written.
pub(super) struct Next {
    own: Own,
    seen: Instant,
}

impl Next {
    /// The successor of a version.
    pub(super) fn after(seen: &Seen, body: Option<Document>) -> Self {
        let VersionId { key, ver } = seen.version.id.clone();
        Self { own: Own { id: VersionId { key, ver: ver + 1 }, replaces: Some(ver), body }, seen: seen.at }
    }

    /// Returns true if the version was read too long ago to be replaced.
    fn is_old(&self) -> bool {
        self.seen.elapsed() > READ_LIMIT
    }

    /// The first version of a document of which there was none.
    pub(super) fn first(key: Bson, body: Document, seen: Instant) -> Self {
        Self { own: Own { id: VersionId { key, ver: 1 }, replaces: None, body: Some(body) }, seen }
    }
}

/// Number of the versions that were written; where one is missing, another transaction has its
/// `_id`, or it was read too long ago.
pub(super) enum Written {
    All,
    Some(usize),
}

impl Tx {
    pub(super) fn new(concern: WriteConcern, no_lost_updates: bool) -> Self {
        let (own, read) = (HashMap::new(), HashMap::new());
        Self { id: ObjectId::new(), concern, primary: None, own, read, no_lost_updates }
    }

    /// The transaction's own version of a document.
    pub(super) fn own(&self, collection: &str, key: &Key) -> Option<&Own> {
        self.own.get(&(collection.to_owned(), key.clone()))
    }

    /// Notes a whole document that was read by its key.
    pub(super) fn note_read(&mut self, collection: &str, seen: Seen) {
        if seen.version.lock.as_ref().is_some_and(|lock| lock.tx == self.id) {
            return;
        }
        let place = (collection.to_owned(), Key::of(&seen.version.id.key));
        match self.no_lost_updates {
            // A write that depends on the first read must not replace a later version.
            true => drop(self.read.entry(place).or_insert(seen)),
            false => drop(self.read.insert(place, seen)),
        }
    }

    /// A document that was read not too long ago; in place of another one that must not be lost,
    /// however long ago.
    pub(super) fn take_read(&mut self, collection: &str, key: &Key) -> Option<Seen> {
        let place = (collection.to_owned(), key.clone());
        match self.no_lost_updates {
            true => self.read.get(&place).cloned(),
            false => self.read.remove(&place).filter(|seen| seen.at.elapsed() < READ_LIMIT),
        }
    }

    /// Returns true if what was read of a document must be what is replaced.
    pub(super) fn depends_on(&self, collection: &str, key: &Key) -> bool {
        self.no_lost_updates && self.read.contains_key(&(collection.to_owned(), key.clone()))
    }

    /// Returns true if this is to replace another version than the one that was read.
    fn loses_update(&self, collection: &str, next: &Own) -> bool {
        let read = || self.read.get(&(collection.to_owned(), Key::of(&next.id.key)));
        self.no_lost_updates && read().is_some_and(|seen| next.replaces != Some(seen.version.id.ver))
    }

    /// Documents on whose earlier read the transaction does not depend may be read again.
    fn not_on_old_reads(&self, collection: &str, next: &[Next]) -> OpResult<Written> {
        let depends = |next: &Next| self.depends_on(collection, &Key::of(&next.own.id.key));
        match next.iter().any(|next| next.is_old() && depends(next)) {
            true => Err(OpError::Conflict("slow read")),
            false => Ok(Written::Some(0)),
        }
    }

    /// Writes the next versions of documents of which the transaction has none of its own, in one
    /// command.
    pub(super) async fn write(&mut self, store: &Store, collection: &str, next: Vec<Next>) -> OpResult<Written> {
        let Some(first) = next.first() else { return Ok(Written::All) };
        if next.iter().any(Next::is_old) {
            return self.not_on_old_reads(collection, &next);
        }
        if next.iter().any(|next| self.loses_update(collection, &next.own)) {
            return Err(OpError::Conflict("write conflict"));
        }
        let none_before = self.primary.is_none();
        let own = || Primary { collection: collection.to_owned(), id: first.own.id.clone() };
        let primary = self.primary.get_or_insert_with(own).clone();
        let lock = Lock { tx: self.id, primary };
        let stored = next.iter().map(|Next { own, .. }| Version::store(&own.id, &lock, collection, own.body.as_ref()));
        let stored: Vec<Document> = stored.collect();
        let inserted = store.collection(collection).insert_many(stored).write_concern(not_durable()).await;
        let (count, error) = match inserted {
            Ok(_) => (next.len(), None),
            Err(error) if is_unreachable(&error) => (next.len(), Some(error)),
            Err(error) => match error.kind.as_ref() {
                ErrorKind::InsertMany(many) if error_code(&error) == Some(DUPLICATE_KEY) => {
                    (many.write_errors.iter().flatten().next().map_or(0, |write| write.index), None)
                }
                _ => (next.len(), Some(error)),
            },
        };
        let wanted = next.len();
        for Next { own, .. } in next.into_iter().take(count) {
            self.own.insert((collection.to_owned(), Key::of(&own.id.key)), own);
        }
        if count == 0 && none_before {
            self.primary = None;
        }
        match error {
            Some(error) => Err(failed(error)),
            None if count == wanted => Ok(Written::All),
            None => Ok(Written::Some(count)),
        }
    }

    /// Writes the transaction's own version of a document once more.
    pub(super) async fn rewrite(
        &mut self,
        store: &Store,
        collection: &str,
        key: &Key,
        body: Option<Document>,
    ) -> OpResult<()> {
        let Some((own, primary)) = self.own.get_mut(&(collection.to_owned(), key.clone())).zip(self.primary.clone())
        else {
            return Err(OpError::Conflict("write conflict"));
        };
        let lock = Lock { tx: self.id, primary };
        let stored = Version::store(&own.id, &lock, collection, body.as_ref());
        let filter = doc! {"_id": own.id.bson(), LOCK_TX: self.id};
        let replaced = store.collection(collection).replace_one(filter, stored).write_concern(not_durable()).await;
        match replaced.map_err(failed)?.matched_count {
            0 => Err(OpError::Conflict("expired")),
            _ => {
                own.body = body;
                Ok(())
            }
        }
    }
}

/// The fields of a document after a change, of which the key is known.
pub(super) fn body_of(mut document: Document) -> OpResult<Document> {
    Ok(split(&mut document)?.1)
}
