//! Documents that several transactions of this client want by another key than their `_id`.
//!
//! A transaction that waits for a document stands in a queue by its `_id`
//! ([`crate::coordinator::siblings`]). A statement that names the document by another key does not
//! know the `_id`: it would pass the queue by, or be refused by the server again and again. So the
//! `_id` of a document that was wanted in vain is remembered by its key, and the next statement
//! with this key names both: it waits in turn, and then locks the document if that still has what
//! the filter demands.
//!
//! Nothing is decided by this memory. A document that has another key by now is not matched by the
//! statement, is forgotten, and the caller goes on as if nothing had been known.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bson::{Bson, Document};
use sd2v::filter::demands_only;

use super::{
    Locking,
    change::Change,
    found_document::{FoundDocument, NeededAnswer, SortRank},
    target::Target,
};
use crate::{
    coordinator::{
        catalog::Collection,
        request::{address::Address, query::Query},
        transaction::Transaction,
    },
    error::{ErrorKind, Result},
    options::Namespace,
};

/// Greatest number of keys remembered.
const MAX_KEYS: usize = 10_000;

/// A key of a unique index, by its bytes.
type Key = (Namespace, Vec<u8>);

/// The `_id`s of documents that were wanted by several at once.
#[derive(Default)]
pub(crate) struct WantedKeys {
    ids: Mutex<HashMap<Key, Bson>>,
}

impl WantedKeys {
    fn ids(&self) -> MutexGuard<'_, HashMap<Key, Bson>> {
        // Nothing panics while it is held.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &Key) -> Option<Bson> {
        self.ids().get(key).cloned()
    }

    fn forget(&self, key: &Key) {
        self.ids().remove(key);
    }

    fn note(&self, key: Key, id: Bson) {
        let mut ids = self.ids();
        if ids.len() >= MAX_KEYS && !ids.contains_key(&key) {
            ids.clear();
        }
        ids.insert(key, id);
    }
}

/// The result of a write that names a document by a key.
pub(crate) enum WantedKeyResult {
    Nothing,
    /// The document was locked and changed.
    Done(Box<FoundDocument>),
    /// The document was not locked: a rival has it, another document has the key, or the change
    /// takes more than one statement.
    NotThis,
}

impl Locking {
    /// Waits for the document that others wanted by the same key, then locks and changes it. For
    /// what [`Locking::find_and_prepare`] could do as well.
    pub(super) async fn prepare_wanted(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        collection: &Collection,
        query: &Query,
        change: &Change<'_>,
        asked: NeededAnswer<'_>,
    ) -> Result<WantedKeyResult> {
        let Some(key) = key_of(tx, ns, collection, query) else { return Ok(WantedKeyResult::Nothing) };
        let id = self.wanted.get(&key).filter(|id| tx.is_untouched(ns, id));
        let Some(at) = id.map(Address::bare) else { return Ok(WantedKeyResult::Nothing) };
        // Treated as a document that was selected just now: a lock on it is a conflict.
        let target = Target { ns, at: &at, filter: &query.filter, options: &query.options, chosen: true };
        match self.prepare_returning(tx, &target, change, asked.stored_fields()).await {
            Ok(Some(shown)) => {
                // Another transaction may have waited for the document in vain meanwhile, and
                // forgotten its key.
                self.wanted.note(key, at.id.clone());
                Ok(WantedKeyResult::Done(Box::new(FoundDocument {
                    at,
                    shown: asked.is_shown.then_some(shown),
                    rank: SortRank::Any,
                })))
            }
            // The document may have another key by now: the next attempt finds out.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.wanted.forget(&key);
                Err(error)
            }
            Ok(None) => {
                self.wanted.forget(&key);
                Ok(WantedKeyResult::NotThis)
            }
            Err(error) => Err(error),
        }
    }

    /// This document has the key that the query names, and could not be locked at once.
    pub(crate) async fn note_wanted(
        &self,
        tx: &Transaction,
        ns: &Namespace,
        query: &Query,
        change: &Change<'_>,
        at: &Address,
    ) -> Result<()> {
        // A change that takes more than one statement is not tried by the key.
        if !change.is_one_statement() || !tx.is_untouched(ns, &at.id) {
            return Ok(());
        }
        let collection = self.catalog.look_up(ns).await?;
        if let Some(key) = key_of(tx, ns, &collection, query) {
            self.wanted.note(key, at.id.clone());
        }
        Ok(())
    }
}

/// `None`: the query names no key, demands something else besides, so that it may not be about the
/// document at all, or the key may be that of a document of the transaction's own.
fn key_of(tx: &Transaction, ns: &Namespace, collection: &Collection, query: &Query) -> Option<Key> {
    let named: Document = collection.pinned_key(&query.filter)?;
    let is_all = demands_only(&query.filter, &named) && !tx.has_new_keys(ns);
    if is_all { Some((ns.clone(), named.to_vec().ok()?)) } else { None }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bounded_and_the_latest_is_known() {
        let (wanted, key) = (WantedKeys::default(), |n: usize| (Namespace::new("db", "c"), n.to_le_bytes().to_vec()));
        for n in 0..=MAX_KEYS {
            wanted.note(key(n), Bson::Int64(n as i64));
            assert_eq!(wanted.get(&key(n)), Some(Bson::Int64(n as i64)));
        }
        assert!(wanted.ids().len() <= MAX_KEYS);
        wanted.note(key(MAX_KEYS), Bson::Null);
        assert_eq!(wanted.get(&key(MAX_KEYS)), Some(Bson::Null));
        wanted.forget(&key(MAX_KEYS));
        assert_eq!(wanted.get(&key(MAX_KEYS)), None);
    }
}
