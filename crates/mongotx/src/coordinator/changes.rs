//! Change stamps: when transactions last changed each collection.
//!
//! A record write that decides transactions sets, in the same update, `changes.<tag>` to its own stamp for every collection
//! in which one of them has written. Stamps are never used again for another content. So a collection whose stamps are the same
//! at two looks, in every record, was changed by no transaction between the answer of the first and the sending of the second,
//! if one server process answered both: see docs/isolation.md, "How validation works".
//!
//! So that reads of single documents are not disturbed by every decision, a decision about a few documents also sets the stamps
//! of their buckets: `<tag>0` to `<tag>f`, by the hash of the `_id`. One about many sets `<tag>*`, which stands for all buckets.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use protocol::{
    ClientId,
    id::{collection_tag, stored_hash},
};

use super::{
    Core,
    transaction::{OwnKey, Transaction},
};
use crate::{error::Result, options::Namespace};

/// The stamps of each record, by their names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes(pub(crate) HashMap<ClientId, HashMap<String, i64>>);

impl Changes {
    /// The stamps of these names, as far as there are any.
    fn of<'a>(&'a self, tags: &'a HashSet<String>) -> HashSet<(ClientId, &'a str, i64)> {
        let all =
            self.0.iter().flat_map(|(client, stamps)| stamps.iter().map(move |(tag, stamp)| (client, tag, stamp)));
        all.filter(|(_, tag, _)| tags.contains(*tag))
            .map(|(client, tag, stamp)| (*client, tag.as_str(), *stamp))
            .collect()
    }
}

/// The connections that there were at a moment: data connections and record connections. A server process that ends takes all of
/// them along.
type Connections = (u64, u64);

/// One look at the change stamps.
pub(crate) struct ChangeLook {
    asked: Instant,
    before: Connections,
    after: Connections,
    changes: Changes,
}

/// What shows that both looks, and what was read between them, were answered by one server process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SameServer {
    /// The commit's evidence will: the transaction has locked something before. Or several servers keep the data, and each look
    /// waits for the majority.
    Elsewhere,
    /// No connection was begun since the first look.
    Connections,
}

/// Records are kept for 30 minutes after their end: two looks further apart may both miss one.
const LONGEST_APART: Duration = Duration::from_secs(15 * 60);

impl ChangeLook {
    /// Did no transaction set one of these stamps from the answer of this look to the sending of the later one?
    pub(crate) fn is_unchanged_at(&self, later: &Self, tags: &HashSet<String>, same: SameServer) -> bool {
        let one_server = same == SameServer::Elsewhere || self.before == later.after;
        let near = later.asked.duration_since(self.asked) < LONGEST_APART;
        one_server && near && self.changes.of(tags) == later.changes.of(tags)
    }
}

/// Documents of a collection that are told apart in its stamps: one in so many.
const BUCKETS: u64 = 16;
/// Documents of one collection that a decision names by their buckets.
const FEW: usize = 16;

/// The stamps that a decision sets which has changed these documents of a collection: that of the whole, and those of the buckets
/// of a few documents, or the one that stands for any bucket. `None`: documents whose `_id`s may equal others.
pub(crate) fn stamps_of_changes(ns: &Namespace, documents: Option<&[OwnKey]>) -> HashSet<String> {
    let tag = collection_tag(&ns.to_string());
    let mut stamps = match documents.filter(|documents| documents.len() <= FEW) {
        Some(few) => few.iter().map(|document| in_bucket(&tag, document)).collect(),
        None => HashSet::from([in_any_bucket(&tag)]),
    };
    stamps.insert(tag);
    stamps
}

/// The stamps that change with these documents of a collection, or with any of it.
pub(crate) fn stamps_of_reads(ns: &Namespace, documents: Option<&[OwnKey]>) -> HashSet<String> {
    let tag = collection_tag(&ns.to_string());
    let Some(documents) = documents else { return HashSet::from([tag]) };
    let buckets = documents.iter().map(|document| in_bucket(&tag, document));
    buckets.chain([in_any_bucket(&tag)]).collect()
}

fn in_bucket(tag: &str, document: &OwnKey) -> String {
    let hash = match document {
        OwnKey::Whole(number) => stored_hash(&number.to_le_bytes()),
        OwnKey::Bytes(bytes) => stored_hash(bytes),
    };
    format!("{tag}{:x}", (hash ^ (hash >> 32)) % BUCKETS)
}

fn in_any_bucket(tag: &str) -> String {
    format!("{tag}*")
}

impl Core {
    /// Looks at the change stamps of all records.
    pub(crate) async fn look_at_changes(&self) -> Result<ChangeLook> {
        let (asked, before) = (Instant::now(), self.connections_now());
        let changes = self.log.changes().await?;
        Ok(ChangeLook { asked, before, after: self.connections_now(), changes })
    }

    /// What will show that looks of this transaction are answered by one server.
    pub(crate) fn same_server(&self, tx: &Transaction) -> SameServer {
        match tx.id().is_some() || self.server.nodes.are_several() {
            true => SameServer::Elsewhere,
            false => SameServer::Connections,
        }
    }

    fn connections_now(&self) -> Connections {
        (self.server.connections(), self.log.epoch())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a decision about the first change what is read of the second?
    fn disturbs(changed: Option<Vec<i64>>, read: Option<Vec<i64>>) -> bool {
        let ns = Namespace::new("d", "c");
        let keys = |documents: Option<Vec<i64>>| -> Option<Vec<OwnKey>> {
            documents.map(|documents| documents.into_iter().map(OwnKey::Whole).collect())
        };
        let (changed, read) = (keys(changed), keys(read));
        !stamps_of_changes(&ns, changed.as_deref()).is_disjoint(&stamps_of_reads(&ns, read.as_deref()))
    }

    #[test]
    fn decisions_disturb_what_they_may_have_changed() {
        let one = |id| Some(vec![id]);
        assert!(disturbs(one(5), one(5)) && disturbs(one(5), None) && disturbs(None, one(5)) && disturbs(None, None));
        assert!(disturbs(Some((0..100).collect()), one(500)), "of many, none is named");
        let apart = (0..100).filter(|id| !disturbs(one(5), one(*id))).count();
        assert!((80..100).contains(&apart), "{apart} of 100 documents are in other buckets");
    }

    fn look(connections: Connections, stamps: &[(u8, &str, i64)]) -> ChangeLook {
        let mut changes = Changes::default();
        for (client, tag, stamp) in stamps {
            changes.0.entry(ClientId([*client; 12])).or_default().insert((*tag).to_owned(), *stamp);
        }
        ChangeLook { asked: Instant::now(), before: connections, after: connections, changes }
    }

    #[test]
    fn is_unchanged_at_a_later_look_with_the_same_stamps_by_the_same_connections() {
        let tags = HashSet::from(["x".to_owned()]);
        let first = look((1, 1), &[(1, "x", 3), (1, "y", 3)]);
        for same in [look((1, 1), &[(1, "x", 3), (1, "y", 9)]), look((1, 1), &[(1, "x", 3), (2, "y", 1)])] {
            assert!(first.is_unchanged_at(&same, &tags, SameServer::Connections));
        }
        for other in [
            look((1, 1), &[(1, "x", 4)]),
            look((1, 1), &[(1, "x", 3), (2, "x", 3)]),
            look((1, 1), &[]),
            look((2, 1), &[(1, "x", 3)]),
            look((1, 2), &[(1, "x", 3)]),
        ] {
            assert!(!first.is_unchanged_at(&other, &tags, SameServer::Connections));
        }
        let reconnected = look((2, 1), &[(1, "x", 3)]);
        assert!(first.is_unchanged_at(&reconnected, &tags, SameServer::Elsewhere));
        let late = ChangeLook { asked: first.asked + LONGEST_APART, ..look((1, 1), &[(1, "x", 3)]) };
        assert!(!first.is_unchanged_at(&late, &tags, SameServer::Connections));
    }
}
