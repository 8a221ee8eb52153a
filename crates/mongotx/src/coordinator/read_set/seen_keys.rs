//! The `_id`s of documents that a transaction has read, by the keys of unique indexes.
//!
//! A transaction that reads documents by natural keys and then changes several of them by the same
//! keys would have to ask for their `_id`s, which the answer to the read has shown. So it remembers
//! them. Nothing is decided by this memory: a document that has another key by now is not matched
//! by the statement that names it, which demands the key, too.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bson::{Bson, Document, RawDocument};

use crate::{coordinator::request::own_key::OwnKey, options::Namespace};

/// Keys that one transaction remembers.
const MAX_KEYS: usize = 1_000;

/// The fields of a key and their values, in the order of the index.
type Key = Vec<(String, OwnKey)>;

/// The `_id`s of documents that one transaction has read, by keys of unique indexes.
#[derive(Clone, Default)]
pub(crate) struct SeenKeys(Arc<Mutex<HashMap<(Namespace, Key), Bson>>>);

impl SeenKeys {
    fn ids(&self) -> MutexGuard<'_, HashMap<(Namespace, Key), Bson>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `_id` of the document that had this key.
    pub(crate) fn get(&self, ns: &Namespace, key: &Document) -> Option<Bson> {
        self.ids().get(&(ns.clone(), key_of(key)?)).cloned()
    }

    /// The document does not have this key any more.
    pub(crate) fn forget(&self, ns: &Namespace, key: &Document) {
        if let Some(key) = key_of(key) {
            self.ids().remove(&(ns.clone(), key));
        }
    }

    /// A spotter that notes the documents of an answer by the keys of these indexes.
    pub(crate) fn spotter(&self, ns: &Namespace, indexes: Vec<Vec<String>>) -> Option<Spotter> {
        (!indexes.is_empty()).then(|| Spotter { seen: self.clone(), ns: ns.clone(), indexes })
    }
}

fn key_of(key: &Document) -> Option<Key> {
    key.iter().map(|(field, value)| Some((field.clone(), OwnKey::of_simple(value)?))).collect()
}

/// Notes each document of an answer by its keys.
pub(crate) struct Spotter {
    seen: SeenKeys,
    ns: Namespace,
    /// The fields of unique indexes.
    indexes: Vec<Vec<String>>,
}

impl Spotter {
    pub(crate) fn saw(&self, document: &RawDocument) {
        let value = |field: &str| Bson::try_from(document.get(field).ok()??).ok();
        let mut ids = self.seen.ids();
        if ids.len() >= MAX_KEYS {
            return;
        }
        let Some(id) = value("_id") else { return };
        for fields in &self.indexes {
            let of_field = |field: &String| Some((field.clone(), OwnKey::of_simple(&value(field)?)?));
            if let Some(key) = fields.iter().map(of_field).collect::<Option<Key>>() {
                ids.insert((self.ns.clone(), key), id.clone());
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;

    fn ns() -> Namespace {
        Namespace::new("db", "c")
    }

    fn spotter(seen: &SeenKeys) -> Spotter {
        seen.spotter(&ns(), vec![vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()]]).unwrap()
    }

    #[test]
    fn what_has_a_whole_key_is_found_by_it_whatever_the_type_of_its_numbers() {
        let seen = SeenKeys::default();
        spotter(&seen).saw(&rawdoc! {"_id": 7, "a": 1_i64, "b": "x", "c": 2.5});
        assert_eq!(seen.get(&ns(), &doc! {"a": 1, "b": "x"}), Some(7.into()));
        for other in [doc! {"a": 1, "b": "y"}, doc! {"c": 2.5}, doc! {"a": 1}] {
            assert_eq!(seen.get(&ns(), &other), None, "{other}");
        }
        spotter(&seen).saw(&rawdoc! {"a": 2, "b": "x", "c": 3});
        assert_eq!(seen.get(&ns(), &doc! {"c": 3}), None, "its place is not known");
        assert!(seen.spotter(&ns(), Vec::new()).is_none());
        seen.forget(&ns(), &doc! {"a": 1.0, "b": "x"});
        assert_eq!(seen.get(&ns(), &doc! {"a": 1, "b": "x"}), None);
    }

    #[test]
    fn keys_are_bounded() {
        let (seen, spotter) = (SeenKeys::default(), |n: i32| rawdoc! {"_id": n, "c": n});
        for n in 0..2 * MAX_KEYS as i32 {
            self::spotter(&seen).saw(&spotter(n));
        }
        assert_eq!(seen.ids().len(), MAX_KEYS);
    }
}
