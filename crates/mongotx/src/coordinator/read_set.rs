//! The reads of a transaction that are validated at the commit: for each read the command and a
//! digest of its answer, never the documents themselves. See docs/isolation.md, "How validation
//! works".

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use bson::{Bson, Document, RawDocument};
use sd2v::filter::pinned_ids;

use super::own_key::OwnKey;
use crate::{
    coordinator::{pipeline::AggregateCommand, query::Query},
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// The digest of an answer: the documents in it, whatever their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) documents: u64,
    sum: u64,
    /// Whether the answer was read to its end.
    pub(crate) complete: bool,
}

/// Reads that another one is compared with.
const COMPARED: usize = 64;

/// Different in each process, so that no two documents with the same hash can be prepared.
static HASH: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Digest {
    pub(crate) fn add(&mut self, document: &RawDocument) {
        self.documents += 1;
        self.sum = self.sum.wrapping_add(HASH.hash_one(document.as_bytes()));
    }

    /// Of an answer that is at hand.
    pub(crate) fn of<'a>(documents: impl IntoIterator<Item = &'a RawDocument>) -> Self {
        let mut digest = Self { complete: true, ..Self::default() };
        documents.into_iter().for_each(|document| digest.add(document));
        digest
    }
}

/// The digest of an answer that may still be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    digest: Digest,
    /// So many documents answer the query if there are that many: it names a key of each.
    keys: usize,
    /// Documents that were seen, as long as they may be the only ones.
    documents: HashSet<OwnKey>,
}

/// Keys of documents that are noted one by one.
const MOST_KEYS: usize = 64;

impl Witness {
    pub(crate) fn of(digest: Digest) -> Self {
        Self(Arc::new(Mutex::new(Seen { digest, ..Seen::default() })))
    }

    /// Of a query that shows the `_id`s of documents, and allows so many keys of a unique index.
    pub(crate) fn of_keys(keys: usize) -> Self {
        let keys = if keys <= MOST_KEYS { keys } else { 0 };
        Self(Arc::new(Mutex::new(Seen { keys, ..Seen::default() })))
    }

    fn state(&self) -> MutexGuard<'_, Seen> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn saw(&self, document: &RawDocument) {
        let mut seen = self.state();
        seen.digest.add(document);
        if seen.keys > 0 {
            let id = document.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok());
            match id.and_then(|id| OwnKey::of_simple(&id)) {
                Some(id) => drop(seen.documents.insert(id)),
                None => seen.keys = 0,
            }
        }
    }

    pub(crate) fn ended(&self) {
        self.state().digest.complete = true;
    }

    pub(crate) fn digest(&self) -> Digest {
        self.state().digest
    }

    /// An answer that is still being read depends on its whole collection from now on, even if it
    /// is read to its end later.
    fn fix(&self) {
        let mut seen = self.state();
        if !seen.digest.complete {
            seen.keys = 0;
        }
    }

    /// The documents that the answer depends on, if there is one for each key that the query
    /// allows: while these are as they are, no other document can have one of the keys.
    pub(super) fn documents(&self) -> Option<Vec<OwnKey>> {
        let seen = self.state();
        // One that was seen twice was changed meanwhile.
        let is_seen_once = seen.digest.documents == seen.keys as u64;
        let is_one_for_each =
            seen.keys > 0 && seen.documents.len() == seen.keys && is_seen_once && seen.digest.complete;
        is_one_for_each.then(|| seen.documents.iter().cloned().collect())
    }
}

/// The command of a read. It is sent again as if by a client that has written nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Read {
    Find(Query),
    Aggregate(AggregateCommand),
    Count(Query),
    Distinct(String, Query),
}

/// A command that has read something, and the digest of its answer.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) ns: Namespace,
    pub(crate) read: Read,
    /// The answer depends on the document with this `_id` alone.
    pub(crate) pinned: Option<Bson>,
    /// Of the documents that match, the answer depends on those that fulfil this condition; `None`:
    /// on all.
    pub(crate) ahead: Option<Document>,
    /// The answer is that of the documents other than the first so many that the transaction had
    /// made its own.
    pub(crate) own: usize,
    pub(crate) witness: Witness,
    /// The collections that it reads.
    pub(crate) collections: Vec<Namespace>,
}

impl Entry {
    /// The documents that the answer depends on, if they are named one by one, by their `_id`s or
    /// by keys of a unique index.
    pub(super) fn documents(&self) -> Option<Vec<OwnKey>> {
        match self.ids() {
            Some(ids) => ids.iter().map(OwnKey::of_simple).collect(),
            None => self.witness.documents(),
        }
    }

    /// Does the answer depend on one document alone?
    pub(super) fn is_of_one(&self) -> bool {
        self.pinned.is_some() || self.witness.documents().is_some_and(|documents| documents.len() == 1)
    }

    /// The `_id`s of the documents that the answer depends on, if it names them.
    pub(super) fn ids(&self) -> Option<Vec<Bson>> {
        let Read::Find(query) = &self.read else { return None };
        let is_text = |id: &Bson| matches!(id, Bson::String(_));
        match &self.pinned {
            Some(id) => Some(vec![id.clone()]),
            // Under a collation a text equals others.
            None => pinned_ids(&query.filter).filter(|ids| !ids.iter().any(is_text)),
        }
    }
}

/// A whole document that was read by its `_id`.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) id: Bson,
    pub(crate) digest: Digest,
}

/// Everything that one transaction has read and that nothing else makes sure of.
#[derive(Default)]
pub(crate) struct ReadSet {
    points: HashMap<Namespace, HashMap<OwnKey, Point>>,
    count: usize,
    entries: Vec<Entry>,
    changes: u64,
}

impl ReadSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.entries.is_empty()
    }

    pub(crate) fn points(&self) -> impl Iterator<Item = (&Namespace, &HashMap<OwnKey, Point>)> {
        self.points.iter().filter(|(_, points)| !points.is_empty())
    }

    /// Number of reads.
    pub(crate) fn count(&self) -> usize {
        self.count + self.entries.len()
    }

    /// Number of documents that the reads have answered.
    pub(crate) fn documents(&self) -> u64 {
        let of_entries = self.entries.iter().map(|entry| entry.witness.digest().documents);
        self.count as u64 + of_entries.sum::<u64>()
    }

    /// Another number than before: reads were noted since, or settled.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Has it read documents of this collection by their `_id`s?
    pub(crate) fn has_points(&self, ns: &Namespace) -> bool {
        self.points.get(ns).is_some_and(|points| !points.is_empty())
    }

    /// The document that was read by this `_id`, if it was.
    pub(crate) fn point(&self, ns: &Namespace, id: &Bson) -> Option<&Point> {
        self.points.get(ns)?.get(&OwnKey::of(id))
    }

    /// The document is locked, as it was read: nothing is left to validate.
    pub(crate) fn settle_point(&mut self, ns: &Namespace, id: &Bson) {
        let removed = self.points.get_mut(ns).and_then(|points| points.remove(&OwnKey::of(id)));
        self.count -= usize::from(removed.is_some());
        self.changes += 1;
    }

    /// Notes a whole document.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`]: it was read before, and was another.
    pub(crate) fn note_point(&mut self, ns: &Namespace, point: Point, limit: usize) -> Result<()> {
        let key = OwnKey::of(&point.id);
        if let Some(before) = self.points.get(ns).and_then(|points| points.get(&key)) {
            return if before.digest == point.digest { Ok(()) } else { Err(changed(ns, Some(&point.id))) };
        }
        self.check_room(limit)?;
        self.count += 1;
        self.changes += 1;
        self.points.entry(ns.clone()).or_default().insert(key, point);
        Ok(())
    }

    /// Notes any read besides those by `_id`.
    pub(crate) fn note(&mut self, entry: Entry, limit: usize) -> Result<()> {
        self.check_room(limit)?;
        self.changes += 1;
        self.entries.push(entry);
        Ok(())
    }

    fn check_room(&self, limit: usize) -> Result<()> {
        if self.count() < limit {
            return Ok(());
        }
        let message = format!("a transaction may make at most {limit} reads that are validated at its commit");
        Err(Error::too_large(message))
    }

    /// The answer to the same command, if it was read to its end and nothing of its collection was
    /// the transaction's own.
    pub(crate) fn same(&self, ns: &Namespace, read: &Read, own: usize) -> Option<Digest> {
        let recent = self.entries.iter().rev().take(COMPARED).filter(|entry| own == 0 && entry.own == 0);
        let same = recent.filter(|entry| entry.ns == *ns && entry.read == *read);
        same.map(|entry| entry.witness.digest()).find(|digest| digest.complete)
    }

    /// Validation begins: the conditions of the reads do not change any more while it lasts, even
    /// if a cursor is read on.
    pub(crate) fn fix(&self) {
        self.entries.iter().for_each(|entry| entry.witness.fix());
    }

    /// How many entries there are now, to go back to.
    pub(crate) fn mark(&self) -> usize {
        self.entries.len()
    }

    /// Forgets the reads since the mark: they are of no consequence.
    pub(crate) fn forget_since(&mut self, mark: usize) {
        self.entries.truncate(mark);
        self.changes += 1;
    }
}

/// The error for a read whose answer would be another one now.
pub(crate) fn changed(ns: &Namespace, id: Option<&Bson>) -> Error {
    let what = match id {
        Some(id) => format!("the document {{_id: {id}}} of {ns}"),
        None => format!("what matches a query of {ns}"),
    };
    Error::new(ErrorKind::Conflict, format!("{what} was changed by another transaction since this one has read it"))
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn ns() -> Namespace {
        Namespace::new("d", "c")
    }

    fn point(id: Bson, value: i32) -> Point {
        Point { id, digest: Digest::of([&*rawdoc! {"v": value}]) }
    }

    #[test]
    fn digest_of_the_same_documents_in_another_order_is_the_same() {
        let (a, b) = (rawdoc! {"a": 1}, rawdoc! {"a": 1.0});
        assert_eq!(Digest::of([&*a, &*b]), Digest::of([&*b, &*a]));
        assert_ne!(Digest::of([&*a, &*a]), Digest::of([&*a, &*b]));
        assert_ne!(Digest::of([&*a]), Digest::of([&*a, &*a]));
        let half = Witness::default();
        half.saw(&a);
        assert_ne!(half.digest(), Digest::of([&*a]));
        half.ended();
        assert_eq!(half.digest(), Digest::of([&*a]));
    }

    #[test]
    fn answer_of_a_document_for_each_key_depends_on_these_alone() {
        let depends_on = |keys, ids: &[i32], is_over: bool| {
            let witness = Witness::of_keys(keys);
            ids.iter().for_each(|id| witness.saw(&rawdoc! {"_id": *id}));
            if is_over {
                witness.ended();
            }
            witness.documents().map(|documents| documents.len())
        };
        assert_eq!(depends_on(2, &[1, 2], true), Some(2));
        let many: Vec<i32> = (0..=MOST_KEYS as i32).collect();
        for (keys, ids, is_over) in [
            (2, &[1][..], true),
            (2, &[1, 1], true),
            (1, &[1, 1], true),
            (2, &[1, 2, 3], true),
            (2, &[1, 2], false),
            (0, &[], true),
            (many.len(), &many, true),
        ] {
            assert_eq!(depends_on(keys, ids, is_over), None, "{keys} {ids:?} {is_over}");
        }
        let read_on = Witness::of_keys(1);
        read_on.saw(&rawdoc! {"_id": 1});
        read_on.fix();
        read_on.ended();
        assert!(read_on.documents().is_none(), "it was being read when validation began");
        let nameless = Witness::of_keys(1);
        nameless.saw(&rawdoc! {"a": 1});
        nameless.ended();
        assert!(nameless.documents().is_none());
    }

    #[test]
    fn note_point_that_was_another_is_a_conflict_that_names_it() {
        let mut reads = ReadSet::default();
        reads.note_point(&ns(), point(1.into(), 5), 9).unwrap();
        reads.note_point(&ns(), point(1_i64.into(), 5), 9).unwrap();
        let error = reads.note_point(&ns(), point(1.0.into(), 6), 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("d.c"), "{error}");
        reads.settle_point(&ns(), &1.into());
        assert!(reads.is_empty());
    }

    #[test]
    fn note_beyond_the_limit_is_refused() {
        let mut reads = ReadSet::default();
        reads.note_point(&ns(), point(1.into(), 5), 1).unwrap();
        assert_eq!(reads.note_point(&ns(), point(2.into(), 5), 1).unwrap_err().code(), Some(257));
    }
}
