//! Addresses of documents: the `_id` and, in a collection with a shard key, the values of that.
//!
//! Every command about known documents (lock, change, finish, undo, repair, fetch, read lock) takes
//! its condition from here, so that a router sends it to the shards that have them.

use std::{collections::BTreeMap, fmt};

use bson::{Bson, Document, doc};
use sd2v::shard::{self, ShardKey};

use crate::{
    coordinator::request::query_options::QueryOptions,
    error::{Error, Result},
    options::Namespace,
};

/// Address of one document: its `_id` and its shard key.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) id: Bson,
    /// The values of the shard key; empty where there is none, or where they are not known.
    key: Document,
    /// True if it stands for everything that the transactions in question hold.
    any: bool,
}

impl Address {
    /// An address without a shard key: the `_id` alone.
    pub(crate) fn bare(id: Bson) -> Self {
        Self::new(id, Document::new())
    }

    pub(crate) fn new(id: Bson, key: Document) -> Self {
        Self { id, key, any: false }
    }

    /// Every document that the transactions in question hold, whatever its `_id`: in statements
    /// that undo, and so demand their locks, for those of which a write was never answered that
    /// names no `_id`.
    pub(crate) fn any_held() -> Self {
        Self { any: true, ..Self::bare(Bson::Null) }
    }

    /// Address of a document: as it is stored, or one of its versions.
    pub(crate) fn of(document: &Document, key: &ShardKey) -> Result<Self> {
        let id = document.get("_id").cloned().unwrap_or(Bson::Null);
        Ok(Self::new(id, key.of(document)?))
    }

    /// As a filter names it that matches one `_id`: with the values of the key, if it demands them
    /// all.
    pub(crate) fn named(id: Bson, filter: &Document, options: &QueryOptions, key: &ShardKey) -> Self {
        // Strings that a collation calls equal may be on other shards.
        let demanded = if options.collation.is_none() { key.of_filter(filter) } else { None };
        Self::new(id, demanded.unwrap_or_default())
    }

    /// The same document, now that the values of the shard key are known.
    pub(crate) fn with_key(self, key: Document) -> Self {
        Self { key, ..self }
    }

    /// The same `_id` is to be written again: its shard key may have become known.
    ///
    /// # Errors
    /// The two are different documents of a sharded collection.
    pub(crate) fn learn(&mut self, ns: &Namespace, other: &Self) -> Result<()> {
        if self.key.is_empty() {
            *self = other.clone();
        }
        if other.key.is_empty() || shard::same(&self.key, &other.key) {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "a transaction cannot write two documents of {ns} with the _id {other} and different shard keys: {} and {}",
            self.key, other.key
        )))
    }

    pub(crate) fn key(&self) -> &Document {
        &self.key
    }

    /// The condition for this document.
    pub(crate) fn filter(&self) -> Document {
        if self.any {
            return Document::new();
        }
        let mut filter = doc! {"_id": self.id.clone()};
        filter.extend(shard::condition(&self.key));
        filter
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

/// The condition for these documents.
pub(crate) fn among(addresses: &[Address]) -> Document {
    if let [only] = addresses {
        return only.filter();
    }
    if addresses.iter().any(|address| address.any) {
        return Document::new();
    }
    let mut by_key: BTreeMap<Vec<u8>, (&Document, Vec<Bson>)> = BTreeMap::new();
    for address in addresses {
        let bytes = address.key.to_vec().unwrap_or_default();
        by_key.entry(bytes).or_insert((&address.key, Vec::new())).1.push(address.id.clone());
    }
    let group = |(key, ids): (&Document, Vec<Bson>)| {
        let mut filter = doc! {"_id": {"$in": ids}};
        filter.extend(shard::condition(key));
        filter
    };
    let mut groups: Vec<Document> = by_key.into_values().map(group).collect();
    match groups.len() {
        0 => doc! {"_id": {"$in": []}},
        1 => groups.remove(0),
        _ => doc! {"$or": groups},
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(id: i32, region: i32) -> Address {
        Address::new(id.into(), doc! {"region": region})
    }

    #[test]
    fn filter_without_a_key_is_the_id() {
        assert_eq!(Address::bare(1.into()).filter(), doc! {"_id": 1});
        assert_eq!(at(1, 2).filter(), doc! {"_id": 1, "region": {"$eq": 2}});
    }

    #[test]
    fn among_names_each_key_once() {
        let bare = [Address::bare(1.into()), Address::bare(2.into())];
        assert_eq!(among(&bare), doc! {"_id": {"$in": [1, 2]}});
        assert_eq!(among(&bare[..1]), doc! {"_id": 1});
        assert_eq!(among(&[at(1, 7), at(2, 7)]), doc! {"_id": {"$in": [1, 2]}, "region": {"$eq": 7}});
        let several = among(&[at(1, 7), at(2, 8), at(3, 7)]);
        let groups = doc! {"$or": [
            {"_id": {"$in": [1, 3]}, "region": {"$eq": 7}},
            {"_id": {"$in": [2]}, "region": {"$eq": 8}},
        ]};
        assert_eq!(several, groups);
        assert_eq!(among(&[]), doc! {"_id": {"$in": []}});
    }

    #[test]
    fn among_any_is_no_condition() {
        assert_eq!(Address::any_held().filter(), Document::new());
        assert_eq!(among(&[at(1, 7), Address::any_held(), at(2, 8)]), Document::new());
    }
}
