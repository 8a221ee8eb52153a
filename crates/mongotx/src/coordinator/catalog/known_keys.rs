//! The `_id`s of documents by keys of unique indexes, as this client has last seen them in any
//! transaction or outside one.
//!
//! A statement that names its document by the `_id` takes the server's shortest way; one that names
//! it by another key is planned. So a statement by a key is sent as one by the `_id` where that is
//! known, and demands everything that its filter says of the document it names (decision 0083).
//!
//! Nothing is decided by this memory: it is a guess. A document that has another key by now, or is
//! gone, is not matched; the `_id` is forgotten, and the statement goes the way on which nothing
//! was known. So it does no harm that a key is noted before the commit that makes it valid, or that
//! other clients and programs give it to other documents.
//!
//! It is bounded in keys and bytes: what was not used for longest goes, half at a time.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher, Hash, Hasher},
    mem::size_of,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bson::{Bson, Document};

use crate::{coordinator::request::own_key::OwnKey, options::Namespace};

/// Greatest number of keys of all collections together.
const MAX_KEYS: usize = 65_536;
/// Greatest number of bytes that these may take, as estimated by [`bytes_of`].
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// Length of the longest `_id` that is noted, in bytes.
const LONGEST_ID: usize = 256;

/// A document that had a key when it was seen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KnownDocument {
    pub(crate) id: Bson,
    /// True if a statement by this key could not lock the document at once: the next one had better
    /// wait in turn for it.
    pub(crate) is_wanted: bool,
}

impl KnownDocument {
    pub(crate) fn seen(id: Bson) -> Self {
        Self { id, is_wanted: false }
    }
}

/// The documents that this client knows by keys of unique indexes.
#[derive(Default)]
pub(crate) struct KnownKeys {
    generations: Mutex<Generations>,
    hasher: RandomState,
}

/// Keys by when they were used last. When the recent ones are half of what may be remembered, they
/// become the older ones, and those that were older are forgotten.
#[derive(Default)]
struct Generations {
    recent: Generation,
    older: Generation,
}

/// Documents by the hashes of their keys: two keys with one hash are a wrong guess at worst.
#[derive(Default)]
struct Generation {
    collections: HashMap<Namespace, HashMap<u64, KnownDocument>>,
    keys: usize,
    bytes: usize,
}

impl KnownKeys {
    fn generations(&self) -> MutexGuard<'_, Generations> {
        // Nothing panics while it is held; after a panic there would be wrong guesses at worst.
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The document that had this key of a unique index, given as its fields in the index's order.
    pub(crate) fn get(&self, ns: &Namespace, key: &Document) -> Option<KnownDocument> {
        let hash = self.hash(key.iter())?;
        self.generations().used(ns, hash).cloned()
    }

    /// Notes the document that has this key.
    pub(crate) fn saw(&self, ns: &Namespace, key: &Document, id: &Bson) {
        self.note(ns, self.hash(key.iter()), id, false);
    }

    /// Notes a document by its keys of these unique indexes.
    pub(crate) fn saw_document(&self, ns: &Namespace, indexes: &[Vec<String>], document: &Document) {
        let Some(id) = document.get("_id") else { return };
        for fields in indexes {
            let key: Option<Vec<(&String, &Bson)>> =
                fields.iter().map(|field| Some((field, document.get(field)?))).collect();
            self.note(ns, key.and_then(|key| self.hash(key.into_iter())), id, false);
        }
    }

    /// Notes that a statement by this key could not lock the document at once.
    pub(crate) fn wanted(&self, ns: &Namespace, key: &Document, id: &Bson) {
        self.note(ns, self.hash(key.iter()), id, true);
    }

    /// This document does not have the key any more.
    pub(crate) fn forget(&self, ns: &Namespace, key: &Document, id: &Bson) {
        let Some(hash) = self.hash(key.iter()) else { return };
        let mut generations = self.generations();
        if generations.used(ns, hash).is_some_and(|known| known.id == *id) {
            generations.recent.take(ns, hash);
        }
    }

    /// The collection or its indexes are not what they were.
    pub(super) fn forget_collection(&self, ns: &Namespace) {
        self.generations().forget(|other| other == ns);
    }

    pub(super) fn forget_database(&self, db: &str) {
        self.generations().forget(|other| other.db == db);
    }

    /// `None`: not a key that names one document, whatever the types of its values.
    fn hash<'k>(&self, key: impl Iterator<Item = (&'k String, &'k Bson)>) -> Option<u64> {
        let mut hasher = self.hasher.build_hasher();
        for (field, value) in key {
            field.hash(&mut hasher);
            OwnKey::of_simple(value).filter(|_| *value != Bson::Null)?.hash(&mut hasher);
        }
        Some(hasher.finish())
    }

    fn note(&self, ns: &Namespace, hash: Option<u64>, id: &Bson, is_wanted: bool) {
        let is_short = |id: &&Bson| OwnKey::of_simple(id).is_some_and(|key| key.count_bytes() <= LONGEST_ID);
        if let (Some(hash), Some(id)) = (hash, Some(id).filter(is_short)) {
            self.generations().note(ns, hash, id, is_wanted);
        }
    }
}

impl Generations {
    /// The document of a key, which counts as used now.
    fn used(&mut self, ns: &Namespace, hash: u64) -> Option<&KnownDocument> {
        if let Some(known) = self.older.take(ns, hash) {
            self.put(ns, hash, known);
        }
        self.recent.collections.get(ns)?.get(&hash)
    }

    fn note(&mut self, ns: &Namespace, hash: u64, id: &Bson, is_wanted: bool) {
        // Whether it is wanted is said of this document, not of another one that had the key.
        let was_wanted = self.used(ns, hash).is_some_and(|known| known.id == *id && known.is_wanted);
        self.put(ns, hash, KnownDocument { id: id.clone(), is_wanted: is_wanted || was_wanted });
    }

    fn put(&mut self, ns: &Namespace, hash: u64, known: KnownDocument) {
        self.recent.put(ns, hash, known);
        if self.recent.keys > MAX_KEYS / 2 || self.recent.bytes > MAX_BYTES / 2 {
            self.older = std::mem::take(&mut self.recent);
            // The one that was put last is about to be used.
            if let Some(known) = self.older.take(ns, hash) {
                self.recent.put(ns, hash, known);
            }
        }
    }

    fn forget(&mut self, gone: impl Fn(&Namespace) -> bool) {
        for generation in [&mut self.recent, &mut self.older] {
            generation.forget(&gone);
        }
    }
}

impl Generation {
    fn put(&mut self, ns: &Namespace, hash: u64, known: KnownDocument) {
        self.take(ns, hash);
        if !self.collections.contains_key(ns) {
            self.bytes += bytes_of_collection(ns);
            self.collections.insert(ns.clone(), HashMap::new());
        }
        let Some(collection) = self.collections.get_mut(ns) else { return };
        self.bytes += bytes_of(&known);
        self.keys += 1;
        collection.insert(hash, known);
    }

    fn take(&mut self, ns: &Namespace, hash: u64) -> Option<KnownDocument> {
        let collection = self.collections.get_mut(ns)?;
        let known = collection.remove(&hash)?;
        let is_empty = collection.is_empty();
        self.keys -= 1;
        self.bytes -= bytes_of(&known);
        if is_empty {
            self.collections.remove(ns);
            self.bytes -= bytes_of_collection(ns);
        }
        Some(known)
    }

    fn forget(&mut self, gone: impl Fn(&Namespace) -> bool) {
        let (mut keys, mut bytes) = (0, 0);
        self.collections.retain(|ns, collection| {
            let goes = gone(ns);
            if goes {
                keys += collection.len();
                bytes += bytes_of_collection(ns) + collection.values().map(bytes_of).sum::<usize>();
            }
            !goes
        });
        self.keys -= keys;
        self.bytes -= bytes;
    }
}

/// Estimate of the bytes that a key takes: a table is half empty at times.
fn bytes_of(known: &KnownDocument) -> usize {
    let apart = match &known.id {
        Bson::String(text) => text.len(),
        Bson::Binary(binary) => binary.bytes.len(),
        _ => 0,
    };
    2 * size_of::<(u64, KnownDocument)>() + apart
}

fn bytes_of_collection(ns: &Namespace) -> usize {
    2 * size_of::<(Namespace, HashMap<u64, KnownDocument>)>() + ns.db.len() + ns.coll.len()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::doc;

    use super::*;

    fn ns() -> Namespace {
        Namespace::new("db", "c")
    }

    fn id_of(known: &KnownKeys, key: &Document) -> Option<Bson> {
        known.get(&ns(), key).map(|document| document.id)
    }

    #[test]
    fn document_is_known_by_each_whole_key_whatever_the_type_of_its_numbers() {
        let known = KnownKeys::default();
        let indexes = [vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()], vec!["d".to_owned()]];
        known.saw_document(&ns(), &indexes, &doc! {"_id": 7, "a": 1_i64, "b": "x", "c": 2.0, "d": null});
        for key in [doc! {"a": 1, "b": "x"}, doc! {"a": 1.0, "b": "x"}, doc! {"c": 2}] {
            assert_eq!(id_of(&known, &key), Some(7.into()), "{key}");
        }
        for other in [doc! {"a": 1, "b": "y"}, doc! {"a": 1}, doc! {"b": "x"}, doc! {"d": null}, doc! {"c": [2]}] {
            assert_eq!(id_of(&known, &other), None, "{other}");
        }
        assert_eq!(known.get(&Namespace::new("db", "other"), &doc! {"c": 2}), None);
    }

    #[test]
    fn key_is_forgotten_of_the_document_that_lacks_it_and_of_no_other() {
        let (known, key) = (KnownKeys::default(), doc! {"k": 1});
        known.saw(&ns(), &key, &1.into());
        known.saw(&ns(), &key, &2.into());
        known.forget(&ns(), &key, &1.into());
        assert_eq!(id_of(&known, &key), Some(2.into()), "somebody has seen it there since");
        known.forget(&ns(), &key, &2.into());
        assert_eq!(id_of(&known, &key), None);
        assert_eq!(known.generations().recent.bytes, 0);
    }

    #[test]
    fn document_is_wanted_until_another_one_has_the_key() {
        let (known, key) = (KnownKeys::default(), doc! {"k": 1});
        let is_wanted = || known.get(&ns(), &key).unwrap().is_wanted;
        known.saw(&ns(), &key, &1.into());
        assert!(!is_wanted());
        known.wanted(&ns(), &key, &1.into());
        known.saw(&ns(), &key, &1.into());
        assert!(is_wanted(), "it was seen again");
        known.saw(&ns(), &key, &2.into());
        assert!(!is_wanted());
    }

    #[test]
    fn keys_are_bounded_and_those_go_that_were_not_used() {
        let (known, key) = (KnownKeys::default(), |n: usize| doc! {"k": n as i64});
        for n in 0..2 * MAX_KEYS {
            known.saw(&ns(), &key(n), &Bson::Int64(n as i64));
            assert!(id_of(&known, &key(0)).is_some(), "it was used a moment ago");
        }
        let count = |known: &KnownKeys| {
            let generations = known.generations();
            let all = [&generations.recent, &generations.older];
            let counted = all.iter().flat_map(|one| one.collections.values()).map(HashMap::len).sum::<usize>();
            assert_eq!(counted, all.iter().map(|one| one.keys).sum::<usize>());
            (counted, all.iter().map(|one| one.bytes).sum::<usize>())
        };
        let (keys, bytes) = count(&known);
        assert!((MAX_KEYS / 4..=MAX_KEYS).contains(&keys) && bytes <= MAX_BYTES, "{keys}, {bytes}");
        assert_eq!(id_of(&known, &key(1)), None);
        assert!(id_of(&known, &key(2 * MAX_KEYS - 1)).is_some());
        let long = Bson::String("x".repeat(LONGEST_ID - 32));
        for n in 0..2 * MAX_KEYS {
            known.saw(&ns(), &key(n), &long);
        }
        let (keys, bytes) = count(&known);
        assert!(keys < MAX_KEYS && (MAX_BYTES / 4..=MAX_BYTES).contains(&bytes), "{keys}, {bytes}");
        known.saw(&ns(), &doc! {"k": -1}, &Bson::String("x".repeat(LONGEST_ID)));
        assert_eq!(id_of(&known, &doc! {"k": -1}), None, "its _id is too long");
    }

    #[test]
    fn collection_and_database_are_forgotten_as_a_whole() {
        let (known, key) = (KnownKeys::default(), doc! {"k": 1});
        let all = [Namespace::new("db", "c"), Namespace::new("db", "d"), Namespace::new("other", "c")];
        all.iter().for_each(|ns| known.saw(ns, &key, &1.into()));
        let left = || all.iter().filter(|ns| known.get(ns, &key).is_some()).collect::<Vec<_>>();
        known.forget_collection(&all[0]);
        assert_eq!(left(), [&all[1], &all[2]]);
        known.forget_database("db");
        assert_eq!(left(), [&all[2]]);
        known.forget_database("other");
        let generations = known.generations();
        let counted = [&generations.recent, &generations.older].map(|one| (one.keys, one.bytes));
        assert_eq!(counted, [(0, 0), (0, 0)]);
    }
}
