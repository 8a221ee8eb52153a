//! The reads of a transaction beside what it holds: which of them others can disturb, by which
//! change stamps, and whether they are of one moment. [`crate::coordinator::read_set`] keeps them.

use std::slice;

use super::Transaction;
use crate::{
    coordinator::{
        read_set::Entry,
        request::own_key::OwnKey,
        stamps::{
            changes::stamps_of_reads,
            tag::{Tag, Tags},
        },
    },
    options::Namespace,
};

/// Selection of a transaction's reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadSelection {
    All,
    /// Reads of documents that the transaction does not hold.
    Disturbable,
}

/// A read that others can disturb, and by what.
struct DisturbableRead {
    /// True if it is a read of one document, or none.
    is_one: bool,
    stamps: Vec<Tag>,
}

impl Transaction {
    /// The reads of documents that the transaction does not hold, or all reads.
    fn reads_that(&self, are: ReadSelection) -> impl Iterator<Item = DisturbableRead> {
        let all = are == ReadSelection::All;
        let points = self.reads.points().flat_map(move |(ns, points)| {
            let wanted = points.iter().filter(move |(_, point)| all || !self.is_own(ns, &point.id));
            wanted.map(move |(key, _)| DisturbableRead { is_one: true, stamps: Self::stamps_of_point(ns, key) })
        });
        let wanted = move |entry: &&Entry| all || !self.holds_all_of(entry);
        let entries = self.reads.entries().iter().filter(wanted);
        let entries =
            entries.map(|entry| DisturbableRead { is_one: entry.is_of_one(), stamps: Self::stamps_of_entry(entry) });
        points.chain(entries)
    }

    fn holds_all_of(&self, entry: &Entry) -> bool {
        let documents: Option<Vec<OwnKey>> = match entry.ids() {
            Some(ids) => Some(ids.iter().map(OwnKey::of).collect()),
            None => entry.witness.documents(),
        };
        documents.is_some_and(|all| !all.is_empty() && all.iter().all(|key| self.has_made_own(&entry.ns, key)))
    }

    fn disturbable_reads(&self) -> impl Iterator<Item = DisturbableRead> {
        self.reads_that(ReadSelection::Disturbable)
    }

    /// The change stamps of this document.
    pub(crate) fn stamps_of_point(ns: &Namespace, id: &OwnKey) -> Vec<Tag> {
        stamps_of_reads(ns, Some(slice::from_ref(id)))
    }

    /// The change stamps of what this read rests on.
    pub(crate) fn stamps_of_entry(entry: &Entry) -> Vec<Tag> {
        let documents = entry.documents();
        entry.collections.iter().flat_map(|ns| stamps_of_reads(ns, documents.as_deref())).collect()
    }

    /// The change stamps of everything that it has read.
    pub(crate) fn stamps_of_all_reads(&self) -> Tags {
        self.reads_that(ReadSelection::All).flat_map(|read| read.stamps).collect()
    }

    /// The change stamps of what it has read and does not hold.
    pub(crate) fn stamps_of_reads(&self) -> Tags {
        self.disturbable_reads().flat_map(|read| read.stamps).collect()
    }

    /// Returns true if everything that is left to validate is of one moment by itself: what the
    /// transaction holds, and at most one document beside it.
    pub(crate) fn reads_one_moment(&self) -> bool {
        are_one(self.disturbable_reads())
    }

    /// Returns true if what it has read was of one moment, if of its change stamps only these have
    /// changed while it was read again. One document may have been disturbed: the moment is that at
    /// which it was read again. At serializable only if nothing else was read: rivals of the rest
    /// were looked for before that moment.
    pub(crate) fn is_of_one_moment(&self, changed: &Tags) -> bool {
        let disturbed = || self.disturbable_reads().filter(|read| read.stamps.iter().any(|tag| changed.contains(tag)));
        match self.is_serializable() {
            true => disturbed().next().is_none() || self.reads_one_moment(),
            false => are_one(disturbed()),
        }
    }

    /// Returns true if it has read one document, and written nothing.
    pub(crate) fn only_read_one_document(&self) -> bool {
        self.id().is_none() && self.reads_one_moment()
    }
}

fn are_one(mut reads: impl Iterator<Item = DisturbableRead>) -> bool {
    reads.next().is_none_or(|read| read.is_one) && reads.next().is_none()
}
