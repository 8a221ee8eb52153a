//! The shapes of queries that are measured, and their random constants.

use std::time::Duration;

use bson::{Document, doc};
use clap::ValueEnum;
use rand::{RngExt, rngs::StdRng};

use super::collection::{OWNERS, groups, random_point};

/// Results of a small range, and of everything with a limit.
const FEW: i32 = 20;
/// Results of a large range.
const MANY: i32 = 1_000;

/// A shape of query, as `--shapes` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Shape {
    /// One document by its `_id`.
    Id,
    /// One document by an indexed field.
    Equality,
    /// 20 documents by a range of an indexed field.
    Range20,
    /// The same, and the answer may be one second old.
    Range20Stale,
    /// 1,000 documents by a range of an indexed field.
    Range1000,
    /// The first 20 of a group, in an index's order.
    Compound,
    /// The first 20 of all, in an index's order.
    Sort,
    /// The number of documents in a range of 1,000.
    Count,
    /// The 20 points nearest to a place.
    Near,
    /// A range of 1,000, grouped.
    Group,
    /// A range of 20, each with a document of another collection.
    Lookup,
}

/// A query of one of the shapes.
#[derive(Clone, Debug)]
pub(crate) enum Query {
    /// The first document, by `find_one`.
    FindOne { filter: Document },
    /// `find`; how old the answer may be matters to MongoTx only.
    Find { filter: Document, sort: Document, limit: u32, max_staleness: Option<Duration> },
    /// The number of documents, by `count_documents`.
    Count { filter: Document },
    /// The result of a pipeline, by `aggregate`.
    Aggregate { pipeline: Vec<Document> },
}

impl Query {
    fn find(filter: Document) -> Self {
        Self::Find { filter, sort: Document::new(), limit: 0, max_staleness: None }
    }

    fn first_few(filter: Document, sort: Document) -> Self {
        Self::Find { filter, sort, limit: FEW.unsigned_abs(), max_staleness: None }
    }
}

impl Shape {
    /// Name of the shape in the table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Id => "find by _id",
            Self::Equality => "find {code}",
            Self::Range20 => "find {k: range of 20}",
            Self::Range20Stale => "find {k: range of 20}, max_staleness 1 s",
            Self::Range1000 => "find {k: range of 1000}",
            Self::Compound => "find {group}, sort {k: -1}, limit 20",
            Self::Sort => "find {}, sort {k: ±1}, limit 20",
            Self::Count => "count {k: range of 1000}",
            Self::Near => "find {place: $near}, limit 20",
            Self::Group => "$match {k: range of 1000}, $group",
            Self::Lookup => "$match {k: range of 20}, $lookup",
        }
    }

    /// Number of results while nothing is pending, if that is known.
    pub(crate) fn results(self) -> Option<u64> {
        match self {
            Self::Id | Self::Equality => Some(1),
            Self::Range20 | Self::Range20Stale | Self::Compound | Self::Sort | Self::Near | Self::Lookup => {
                Some(u64::from(FEW.unsigned_abs()))
            }
            Self::Range1000 | Self::Count => Some(u64::from(MANY.unsigned_abs())),
            Self::Group => None,
        }
    }

    /// A query of this shape.
    pub(crate) fn query(self, documents: u32, random: &mut StdRng) -> Query {
        let last = documents.cast_signed();
        let mut range = |length: i32| {
            let from = random.random_range(0..=last - length);
            doc! {"k": {"$gte": from, "$lt": from + length}}
        };
        match self {
            Self::Id => Query::FindOne { filter: doc! {"_id": random.random_range(0..last)} },
            Self::Equality => Query::find(doc! {"code": random.random_range(0..last)}),
            Self::Range20 => Query::find(range(FEW)),
            Self::Range20Stale => {
                let max_staleness = Some(Duration::from_secs(1));
                Query::Find { filter: range(FEW), sort: Document::new(), limit: 0, max_staleness }
            }
            Self::Range1000 => Query::find(range(MANY)),
            Self::Compound => {
                Query::first_few(doc! {"group": random.random_range(0..groups(documents))}, doc! {"k": -1})
            }
            Self::Sort => Query::first_few(doc! {}, doc! {"k": if random.random() { 1 } else { -1 }}),
            Self::Count => Query::Count { filter: range(MANY) },
            Self::Near => {
                Query::first_few(doc! {"place": {"$near": {"$geometry": random_point(random)}}}, Document::new())
            }
            Self::Group => Query::Aggregate { pipeline: vec![doc! {"$match": range(MANY)}, by_group()] },
            Self::Lookup => Query::Aggregate { pipeline: vec![doc! {"$match": range(FEW)}, with_owner()] },
        }
    }
}

fn by_group() -> Document {
    doc! {"$group": {"_id": "$group", "count": {"$sum": 1}, "sum": {"$sum": "$k"}}}
}

fn with_owner() -> Document {
    doc! {"$lookup": {"from": OWNERS, "localField": "owner", "foreignField": "_id", "as": "owners"}}
}
