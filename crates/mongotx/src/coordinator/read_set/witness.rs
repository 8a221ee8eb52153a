//! Witness of the answer to a read: a digest of it, and where that helps the documents that it
//! rests on.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use bson::{Bson, RawDocument, RawDocumentBuf, doc, rawdoc};

use super::answer_copy::AnswerCopy;
use crate::{coordinator::request::own_key::OwnKey, error::Result};

/// The digest of an answer: the documents in it, whatever their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) documents: u64,
    sum: u64,
    /// True if the answer was read to its end.
    pub(crate) complete: bool,
}

/// Different in each process, so that no two documents with the same hash can be prepared.
static HASH: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Digest {
    /// Digest of the answer to a `count`.
    pub(crate) fn of_count(counted: u64) -> Self {
        Self::of([&*rawdoc! {"n": counted as i64}])
    }

    /// Digest of the answer to a `distinct`.
    pub(crate) fn of_values(values: &[Bson]) -> Result<Self> {
        let documents: Vec<RawDocumentBuf> = values
            .iter()
            .map(|value| RawDocumentBuf::try_from(&doc! {"v": value.clone()}))
            .collect::<Result<_, _>>()?;
        Ok(Self::of(documents.iter().map(AsRef::as_ref)))
    }

    pub(crate) fn add(&mut self, document: &RawDocument) {
        self.documents += 1;
        self.sum = self.sum.wrapping_add(HASH.hash_one(document.as_bytes()));
    }

    /// Digest of an answer that is in memory.
    pub(crate) fn of<'a>(documents: impl IntoIterator<Item = &'a RawDocument>) -> Self {
        let mut digest = Self { complete: true, ..Self::default() };
        documents.into_iter().for_each(|document| digest.add(document));
        digest
    }
}

/// The digest of an answer that may still be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness(Arc<Mutex<SeenAnswer>>);

/// As much of an answer as has been read so far.
#[derive(Debug, Default)]
pub(super) struct SeenAnswer {
    pub(super) digest: Digest,
    /// Number of documents that are the whole answer if the query finds that many: it names a key
    /// of each.
    keys: usize,
    /// Documents that were seen, as long as they may be the only ones.
    documents: HashSet<OwnKey>,
    /// The documents themselves, where the lock of one can demand that it is as it was read.
    pub(super) copy: Option<AnswerCopy>,
}

/// Keys of documents that are noted one by one.
const MOST_KEYS: usize = 64;

impl Witness {
    pub(crate) fn of(digest: Digest) -> Self {
        Self(Arc::new(Mutex::new(SeenAnswer { digest, ..SeenAnswer::default() })))
    }

    /// Witness of a query that shows the `_id`s of documents, and allows this many keys of a unique
    /// index.
    pub(crate) fn of_keys(keys: usize) -> Self {
        let keys = if keys <= MOST_KEYS { keys } else { 0 };
        Self(Arc::new(Mutex::new(SeenAnswer { keys, ..SeenAnswer::default() })))
    }

    /// The same, which copies the documents that it sees.
    pub(crate) fn with_copy(self, copy: Option<AnswerCopy>) -> Self {
        self.state().copy = copy;
        self
    }

    /// Returns true if it is the witness of the same answer.
    pub(super) fn is_of_same_answer(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SeenAnswer> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn saw(&self, document: &RawDocument) {
        let mut seen = self.state();
        seen.digest.add(document);
        if let Some(copy) = seen.copy.take() {
            seen.copy = copy.with(document);
        }
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

    /// Returns true if every document of the answer is locked, as it was read.
    pub(super) fn is_locked(&self) -> bool {
        let seen = self.state();
        seen.digest.complete && seen.copy.as_ref().is_some_and(AnswerCopy::is_locked)
    }

    /// Returns true if this witness has a copy of its answer.
    pub(super) fn has_copy(&self) -> bool {
        self.state().copy.is_some()
    }

    /// An answer that is still being read depends on its whole collection from now on, even if it
    /// is read to its end later.
    pub(super) fn fix(&self) {
        let mut seen = self.state();
        if !seen.digest.complete {
            seen.keys = 0;
        }
    }

    /// The documents that the answer depends on, if there is one for each key that the query
    /// allows: while these are as they are, no other document can have one of the keys.
    pub(in crate::coordinator) fn documents(&self) -> Option<Vec<OwnKey>> {
        let seen = self.state();
        // One that was seen twice was changed meanwhile.
        let is_seen_once = seen.digest.documents == seen.keys as u64;
        let is_one_for_each =
            seen.keys > 0 && seen.documents.len() == seen.keys && is_seen_once && seen.digest.complete;
        is_one_for_each.then(|| seen.documents.iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

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
}
