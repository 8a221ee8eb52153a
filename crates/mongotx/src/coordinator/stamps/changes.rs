//! Change stamps: when transactions last changed each collection.
//!
//! A record write that decides transactions sets, in the same update, `changes.<tag>` to its own
//! stamp for every collection in which one of them has written. Stamps are never used again for
//! another content. [`super::change_look`] compares those that two looks have found.
//!
//! So that reads of single documents are not disturbed by every decision, a decision about a few
//! documents also sets the stamps of their buckets: `<tag>0` to `<tag>f`, by the hash of the `_id`.
//! One about many sets `<tag>*`, which stands for all buckets.

use std::{collections::HashMap, sync::Arc};

use bson::oid::ObjectId;
use protocol::ClientId;

use super::{
    notice::Scope,
    tag::{Tag, Tags},
};
use crate::{coordinator::request::own_key::OwnKey, options::Namespace};

/// The stamps of one record, by their names.
pub(crate) type Stamps = HashMap<Tag, i64>;

/// The stamps of each record.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes(pub(crate) HashMap<ClientId, Arc<Stamps>>);

/// Change stamps and requests for quiet that one look at the records has found.
#[derive(Debug, Default)]
pub(crate) struct RecordScan {
    pub(crate) changes: Changes,
    /// The records in which quiet is set, each with the quiet's name.
    pub(crate) quiet: HashMap<ClientId, ObjectId>,
    /// The closed ones among the records.
    pub(crate) closed: Vec<ClientId>,
    /// The closed records that are notices of plain writes ([`crate::coordinator::server::plain`])
    /// which are over.
    pub(crate) over: Vec<ClientId>,
    /// Notices of plain writes that may go on.
    pub(crate) notices: HashMap<ClientId, Scope>,
}

impl Changes {
    /// The stamps of these names, as far as there are any; and where `newer` has one that is later,
    /// that.
    pub(super) fn of(&self, newer: &Self, tags: &Tags) -> HashMap<(ClientId, Tag), i64> {
        let mut stamps = HashMap::new();
        for (client, of_client) in self.0.iter().chain(&newer.0) {
            for (tag, stamp) in tags.iter().filter_map(|tag| Some((*tag, of_client.get(tag)?))) {
                let known = stamps.entry((*client, tag)).or_insert(*stamp);
                *known = (*known).max(*stamp);
            }
        }
        stamps
    }
}

/// Documents of one collection that a decision names by their buckets.
const FEW: usize = 16;

/// The stamps that a decision sets which has changed these documents of a collection: that of the
/// whole, and those of the buckets of a few documents, or the one that stands for any bucket.
/// `None`: documents whose `_id`s may equal others.
pub(crate) fn stamps_of_changes(ns: &Namespace, documents: Option<&[OwnKey]>) -> Tags {
    let whole = Tag::of(ns);
    let mut stamps: Tags = match documents.filter(|documents| documents.len() <= FEW) {
        Some(few) => few.iter().map(|document| whole.in_bucket_of(document)).collect(),
        None => Tags::from([whole.in_any_bucket()]),
    };
    stamps.insert(whole);
    stamps
}

/// The stamps that change with these documents of a collection, or with any of it.
pub(crate) fn stamps_of_reads(ns: &Namespace, documents: Option<&[OwnKey]>) -> Vec<Tag> {
    let whole = Tag::of(ns);
    let Some(documents) = documents else { return vec![whole] };
    let buckets = documents.iter().map(|document| whole.in_bucket_of(document));
    buckets.chain([whole.in_any_bucket()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if a decision about the first changes what is read of the second.
    fn disturbs(changed: Option<Vec<i64>>, read: Option<Vec<i64>>) -> bool {
        let ns = Namespace::new("d", "c");
        let keys = |documents: Option<Vec<i64>>| -> Option<Vec<OwnKey>> {
            documents.map(|documents| documents.into_iter().map(OwnKey::Whole).collect())
        };
        let (changed, read) = (keys(changed), keys(read));
        let read: Tags = stamps_of_reads(&ns, read.as_deref()).into_iter().collect();
        !stamps_of_changes(&ns, changed.as_deref()).is_disjoint(&read)
    }

    #[test]
    fn decisions_disturb_what_they_may_have_changed() {
        let one = |id| Some(vec![id]);
        assert!(disturbs(one(5), one(5)) && disturbs(one(5), None) && disturbs(None, one(5)) && disturbs(None, None));
        assert!(disturbs(Some((0..100).collect()), one(500)), "of many, none is named");
        let apart = (0..100).filter(|id| !disturbs(one(5), one(*id))).count();
        assert!((80..100).contains(&apart), "{apart} of 100 documents are in other buckets");
    }
}
