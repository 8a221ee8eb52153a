//! Documents as a transaction has read them, kept so that a later lock of one shows whether it is
//! still so: then nothing is left to validate of it at the commit (decision 0062).
//!
//! A write that shows the document before its change is compared with what was read; one that shows
//! nothing demands in its statement that the fields are as they were. Which documents are kept:
//! [`super::answer_copy`].

use std::collections::HashSet;

use bson::{Bson, RawDocument};
use sd2v::filter::Exact;

use super::{answer_copy::AnswerCopy, witness::Witness};
use crate::{coordinator::request::own_key::OwnKey, document};

/// Content of one document by all reads of it that are kept.
pub(crate) struct AsRead {
    key: OwnKey,
    reads: Vec<Witness>,
}

/// The same, as conditions of the statement that locks the document.
pub(crate) struct Demanded {
    pub(in crate::coordinator) as_read: AsRead,
    pub(in crate::coordinator) conditions: Vec<Exact>,
}

impl AsRead {
    /// Content that these reads have seen of the document. `None`: none of them has kept it.
    pub(in crate::coordinator) fn of<'a>(id: &Bson, reads: impl Iterator<Item = &'a Witness>) -> Option<Self> {
        let key = OwnKey::of_simple(id)?;
        // An answer that is still being read may get more documents.
        let has_copied = |read: &&Witness| {
            let seen = read.state();
            let is_copied = |copy: &AnswerCopy| copy.has_all() && copy.get(&key).is_some();
            seen.digest.complete && seen.copy.as_ref().is_some_and(is_copied)
        };
        let reads: Vec<Witness> = reads.filter(has_copied).cloned().collect();
        (!reads.is_empty()).then_some(Self { key, reads })
    }

    /// Conditions under which all fields are as they were read. A read of a value that has no
    /// condition is left for the commit.
    pub(crate) fn demanded(mut self) -> Option<Demanded> {
        let mut conditions = Vec::new();
        self.reads.retain(|read| {
            let some = read.state().copy.as_ref().and_then(|copy| copy.conditions(&self.key));
            let Some(some) = some else { return false };
            for condition in some {
                // Several reads may have read the same fields.
                if !conditions.contains(&condition) {
                    conditions.push(condition);
                }
            }
            true
        });
        (!self.reads.is_empty()).then_some(Demanded { as_read: self, conditions })
    }

    /// The fields that were read, `_id` among them.
    pub(crate) fn fields(&self) -> HashSet<String> {
        let of = |read: &Witness| read.state().copy.as_ref().map_or_else(Vec::new, |copy| copy.fields().to_vec());
        self.reads.iter().flat_map(of).collect()
    }

    /// Returns true if this document, which shows these fields at least, is byte for byte what was
    /// read.
    pub(crate) fn is_same(&self, shown: &RawDocument) -> bool {
        self.reads.iter().all(|read| {
            let seen = read.state();
            let Some(copy) = &seen.copy else { return false };
            let picked = document::picked(shown, |name| copy.fields().iter().any(|field| field == name));
            picked.is_ok_and(|picked| copy.get(&self.key) == Some(&picked))
        })
    }

    pub(in crate::coordinator) fn reads(&self) -> &[Witness] {
        &self.reads
    }

    /// The transaction has locked the document, and it was as it was read.
    pub(in crate::coordinator) fn note_locked(&self) {
        for read in &self.reads {
            if let Some(copy) = &mut read.state().copy {
                copy.note_locked(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, RawDocumentBuf, doc, rawdoc};

    use super::*;
    use crate::coordinator::request::query::Query;

    fn copy(filter: Document, projection: Document) -> Option<AnswerCopy> {
        AnswerCopy::of(&Query { filter, projection: Some(projection), ..Query::default() })
    }

    /// The witness of an answer of these documents.
    fn witness(filter: Document, documents: &[Document], is_over: bool) -> Witness {
        let witness = Witness::default().with_copy(copy(filter, doc! {"a": 1}));
        documents.iter().for_each(|document| witness.saw(&RawDocumentBuf::try_from(document).unwrap()));
        if is_over {
            witness.ended();
        }
        witness
    }

    fn of(id: i32, reads: &[Witness]) -> Option<AsRead> {
        AsRead::of(&id.into(), reads.iter())
    }

    #[test]
    fn an_answer_counts_that_is_complete_and_has_a_document_for_each_id() {
        let filter = || doc! {"_id": {"$in": [1, 2]}};
        let (one, two) = (doc! {"_id": 1, "a": 5}, doc! {"_id": 2, "a": 5});
        assert!(of(1, &[witness(filter(), &[one.clone(), two.clone()], true)]).is_some());
        let others = [
            witness(filter(), std::slice::from_ref(&one), true),
            witness(filter(), &[one.clone(), two.clone()], false),
            witness(filter(), &[one.clone(), one.clone()], true),
            witness(filter(), &[doc! {"_id": 1, "a": "x".repeat(20_000)}, two.clone()], true),
        ];
        assert!(others.iter().all(|other| of(1, std::slice::from_ref(other)).is_none()));
        assert!(of(3, &[witness(filter(), &[one, two], true)]).is_none(), "another document");
    }

    #[test]
    fn an_answer_is_locked_when_each_of_its_documents_is() {
        let read = witness(doc! {"_id": {"$in": [1, 2]}}, &[doc! {"_id": 1, "a": 5}, doc! {"_id": 2}], true);
        let reads = [read.clone()];
        for (id, is_last) in [(1, false), (1, false), (2, true)] {
            of(id, &reads).unwrap().note_locked();
            assert_eq!(read.is_locked(), is_last);
        }
    }

    #[test]
    fn values_without_a_condition_are_left_for_the_commit() {
        let filter = || doc! {"_id": 1};
        let (plain, nested) = (
            witness(filter(), &[doc! {"_id": 1, "a": 5}], true),
            witness(filter(), &[doc! {"_id": 1, "a": [5]}], true),
        );
        let demanded = of(1, &[plain.clone(), nested.clone()]).unwrap().demanded().unwrap();
        demanded.as_read.note_locked();
        assert!(plain.is_locked() && !nested.is_locked());
        assert!(of(1, &[nested]).unwrap().demanded().is_none());
    }

    #[test]
    fn a_shown_document_is_compared_in_the_fields_that_were_read() {
        let as_read = of(1, &[witness(doc! {"_id": 1}, &[doc! {"_id": 1, "a": 5}], true)]).unwrap();
        assert!(as_read.is_same(&rawdoc! {"_id": 1, "b": 2, "a": 5}));
        for other in [rawdoc! {"_id": 1, "a": 6}, rawdoc! {"_id": 1, "a": 5_i64}, rawdoc! {"_id": 1}] {
            assert!(!as_read.is_same(&other), "{other:?}");
        }
    }
}
