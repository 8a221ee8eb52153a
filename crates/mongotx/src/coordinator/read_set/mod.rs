//! The reads of a transaction that are validated at the commit: for each read the command and a
//! digest of its answer. The documents themselves are kept only where the transaction may lock them
//! ([`self::as_read`]). See docs/isolation.md, "How validation works".
//!
//! | file | content |
//! | --- | --- |
//! | [`witness`] | what is remembered of an answer |
//! | [`answer_copy`], [`as_read`] | documents as they were read, for a later lock of one |
//! | [`seen_keys`] | where documents are that were read by other keys than their `_id`s |

pub(crate) mod answer_copy;
pub(crate) mod as_read;
pub(crate) mod seen_keys;
pub(crate) mod witness;

use std::collections::HashMap;

use bson::{Bson, Document};
use sd2v::filter::pinned_ids;

use self::{
    answer_copy::{AnswerCopy, MOST_ANSWERS},
    as_read::AsRead,
    witness::{Digest, Witness},
};
use super::request::own_key::OwnKey;
use crate::{
    coordinator::request::{pipeline::AggregateCommand, query::Query},
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Reads that another one is compared with.
const COMPARED: usize = 64;

/// The command of a read. It is sent again as if by a client that has written nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Read {
    Find(Query),
    Aggregate(AggregateCommand),
    Count(Query),
    Distinct(String, Query),
}

impl Read {
    /// The command as a validation sends it: with a probe, whatever lease its client holds.
    pub(crate) fn probed(&self) -> Self {
        let mut read = self.clone();
        let options = match &mut read {
            Self::Find(query) | Self::Count(query) | Self::Distinct(_, query) => &mut query.options,
            Self::Aggregate(command) => &mut command.options,
        };
        options.is_always_probed = true;
        read
    }
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
    /// Mark of the own documents that the answer leaves out: those that the transaction had made
    /// its own by then. 0 if there were none.
    pub(crate) own: usize,
    pub(crate) witness: Witness,
    /// True if the answer showed all that was committed before it. False where a write has met the
    /// first document in an order as far as it could see, which only a validation makes sure of.
    pub(crate) is_answered: bool,
    /// The collections that it reads.
    pub(crate) collections: Vec<Namespace>,
}

impl Entry {
    /// A read of one collection, which depends on all documents that match. `own`: as in the field.
    pub(crate) fn of(ns: &Namespace, read: Read, own: usize, witness: Witness) -> Self {
        let collections = vec![ns.clone()];
        Self { ns: ns.clone(), read, pinned: None, ahead: None, own, witness, is_answered: true, collections }
    }

    /// The documents that the answer depends on, if they are named one by one, by their `_id`s or
    /// by keys of a unique index.
    pub(in crate::coordinator) fn documents(&self) -> Option<Vec<OwnKey>> {
        match self.ids() {
            Some(ids) => ids.iter().map(OwnKey::of_simple).collect(),
            None => self.witness.documents(),
        }
    }

    /// Returns true if the answer depends on one document alone.
    pub(in crate::coordinator) fn is_of_one(&self) -> bool {
        self.pinned.is_some() || self.witness.documents().is_some_and(|documents| documents.len() == 1)
    }

    /// The `_id`s of the documents that the answer depends on, if it names them.
    pub(in crate::coordinator) fn ids(&self) -> Option<Vec<Bson>> {
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
    /// Entries with a copy of their answer, [`MOST_ANSWERS`] at most.
    copied: Vec<(Namespace, Witness)>,
    changes: u64,
}

impl ReadSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.entries.is_empty()
    }

    pub(crate) fn points(&self) -> impl Iterator<Item = (&Namespace, &HashMap<OwnKey, Point>)> {
        self.points.iter().filter(|(_, points)| !points.is_empty())
    }

    /// Number of reads that the transaction has noted.
    pub(crate) fn count(&self) -> usize {
        self.count + self.entries.len()
    }

    /// Number of documents that the reads have answered.
    pub(crate) fn documents(&self) -> u64 {
        let of_entries = self.entries.iter().map(|entry| entry.witness.digest().documents);
        self.count as u64 + of_entries.sum::<u64>()
    }

    /// Number that rises when a read is noted or settled.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The collections that were read, each perhaps several times.
    pub(crate) fn collections(&self) -> impl Iterator<Item = &Namespace> {
        self.points().map(|(ns, _)| ns).chain(self.entries.iter().flat_map(|entry| &entry.collections))
    }

    /// Returns true if it has read documents of this collection by their `_id`s.
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
        if entry.witness.has_copy() {
            self.copied.retain(|(_, witness)| witness.has_copy());
            self.copied.push((entry.ns.clone(), entry.witness.clone()));
        }
        self.entries.push(entry);
        Ok(())
    }

    /// Place for a copy of the answer to this query, if it is to be kept.
    pub(crate) fn answer_copy(&self, query: &Query) -> Option<AnswerCopy> {
        // Of answers that became too much there is no copy any more.
        let copies = self.copied.iter().filter(|(_, witness)| witness.has_copy()).count();
        if copies < MOST_ANSWERS { AnswerCopy::of(query) } else { None }
    }

    /// Content of the document with this `_id` as it was read, where that is kept.
    pub(crate) fn as_read(&self, ns: &Namespace, id: &Bson) -> Option<AsRead> {
        if self.copied.is_empty() {
            return None;
        }
        let of_it = self.copied.iter().filter(|(of, _)| of == ns);
        AsRead::of(id, of_it.map(|(_, witness)| witness))
    }

    /// Reads of which this is a part.
    pub(crate) fn entries_of(&self, as_read: &AsRead) -> impl Iterator<Item = &Entry> {
        let is_of_it = |entry: &&Entry| as_read.reads().iter().any(|read| read.is_of_same_answer(&entry.witness));
        self.entries.iter().filter(is_of_it)
    }

    /// The document is locked, as it was read. Nothing is left to validate of reads of which all
    /// documents are.
    pub(crate) fn settle_as_read(&mut self, as_read: &AsRead) {
        as_read.note_locked();
        let settled: Vec<&Witness> = as_read.reads().iter().filter(|read| read.is_locked()).collect();
        if settled.is_empty() {
            return;
        }
        let is_settled = |witness: &Witness| settled.iter().any(|read| read.is_of_same_answer(witness));
        self.entries.retain(|entry| !is_settled(&entry.witness));
        self.copied.retain(|(_, witness)| !is_settled(witness));
        self.changes += 1;
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

    /// Returns true if every answer was read to its end, so that no cursor can be read on.
    pub(crate) fn are_complete(&self) -> bool {
        self.entries.iter().all(|entry| entry.witness.digest().complete)
    }

    /// Number of entries now, to go back to.
    pub(crate) fn mark(&self) -> usize {
        self.entries.len()
    }

    /// Forgets the reads since the mark: they are of no consequence.
    pub(crate) fn forget_since(&mut self, mark: usize) {
        self.entries.truncate(mark);
        let entries = &self.entries;
        self.copied.retain(|(_, witness)| entries.iter().any(|entry| witness.is_of_same_answer(&entry.witness)));
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
