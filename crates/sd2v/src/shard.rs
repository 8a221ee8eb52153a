//! Shard keys (paper 000, section 5.4.5) in filters and statements: the values that a filter
//! demands, and the condition that makes a router send a command to the one shard that has the
//! document.

use bson::{Bson, Document, doc};

pub use crate::shard_key::ShardKey;
use crate::{
    error::Error,
    filter::{equal, equalities},
    shard_key::NO_SHARD_KEY,
};

impl ShardKey {
    /// The values that a filter demands of the safe version, if it demands one of each field. Not
    /// for a filter with a collation.
    pub fn of_filter(&self, filter: &Document) -> Option<Document> {
        let values = self.fields().map(|field| {
            let value = equalities(filter, field).into_iter().next()?;
            is_scalar(&value).then(|| (field.to_owned(), value))
        });
        values.collect()
    }
}

/// Returns true if the two keys have the same values.
pub fn same(key: &Document, other: &Document) -> bool {
    key.len() == other.len()
        && key.iter().zip(other).all(|((field, value), (at, other))| field == at && equal(value, other))
}

/// The condition for documents with these values, `{path: {$eq: value}}` for each field.
pub fn condition(key: &Document) -> Document {
    key.iter().map(|(field, value)| (field.clone(), Bson::Document(doc! {"$eq": value.clone()}))).collect()
}

/// A refusal of a statement that would change the values `key` to `other`.
pub fn refused_change(key: &Document, other: &Document) -> Error {
    let message = format!("the shard key {key} of a document cannot be changed (to {other})");
    Error::Invalid { code: 66, message }
}

/// A refusal of an upsert whose filter does not demand one value of each field of the shard key.
pub fn refused_upsert(key: &ShardKey) -> Error {
    let fields: Vec<&str> = key.fields().collect();
    let message = format!("the filter of an upsert must demand one value of each field of the shard key: {fields:?}");
    Error::Invalid { code: NO_SHARD_KEY, message }
}

fn is_scalar(value: &Bson) -> bool {
    !matches!(value, Bson::Array(_) | Bson::RegularExpression(_) | Bson::Undefined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ShardKey {
        ShardKey::parse(&["region", "owner.id", "_id"]).unwrap()
    }

    #[test]
    fn of_a_filter_takes_equalities_of_every_field() {
        let of = |filter| key().of_filter(&filter);
        let both = Some(doc! {"region": 1, "owner.id": 7});
        assert_eq!(of(doc! {"region": 1, "owner.id": {"$eq": 7}, "x": 2}), both);
        assert_eq!(of(doc! {"$and": [{"region": 1}, {"owner.id": {"$in": [7]}}]}), both);
        for less in [
            doc! {"region": 1},
            doc! {"region": 1, "owner.id": {"$gt": 7}},
            doc! {"region": 1, "owner.id": [7]},
            doc! {"$or": [{"region": 1, "owner.id": 7}, {"x": 1}]},
        ] {
            assert_eq!(of(less.clone()), None, "{less}");
        }
    }

    #[test]
    fn condition_takes_values_for_what_they_are() {
        let key = doc! {"region": null, "owner.id": {"a": 1}};
        assert_eq!(condition(&key), doc! {"region": {"$eq": null}, "owner.id": {"$eq": {"a": 1}}});
    }
}
