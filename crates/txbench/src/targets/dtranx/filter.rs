//! Filters, orders and projections that a key-value store can serve; others are refused, with what
//! was asked.

use bson::{Bson, Document};
use dtranx::core::{Key, KeyRange, range::KeyBound};

use super::{NAME, failed, key};
use crate::{
    error::{BenchError, OpError, OpResult},
    targets::Find,
};

/// The documents that a filter names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// The document with this key.
    One(Vec<u8>),
    /// The documents in this range of keys.
    Range(KeyRange),
}

/// Reads a filter: all documents, `{_id: value}`, or `{_id: {$gt, $gte, $lt, $lte: value}}`.
pub(super) fn named(db: &str, collection: &str, filter: &Document) -> OpResult<Named> {
    let refused = || OpError::unsupported(NAME, format!("find by {filter}, but by _id only"));
    if filter.is_empty() {
        return Ok(Named::Range(KeyRange::prefix(whole(key::of_collection(db, collection))?)));
    }
    match (filter.len(), filter.get("_id")) {
        (1, Some(Bson::Document(bounds))) => {
            let mut range: Option<KeyRange> = None;
            for (operator, value) in bounds {
                if !["$gte", "$gt", "$lt", "$lte"].contains(&operator.as_str()) {
                    return Err(refused());
                }
                let kind = KeyRange::prefix(whole(key::of_type(db, collection, value)?)?);
                let edge = whole(key::of_id(db, collection, value)?)?;
                let range = range.get_or_insert(kind);
                match operator.as_str() {
                    "$gte" => range.start = edge,
                    "$gt" => range.start = edge.successor().ok_or_else(refused)?,
                    "$lt" => range.end = Some(KeyBound::Before(edge)),
                    _ => range.end = Some(KeyBound::Through(edge)),
                }
            }
            range.map(Named::Range).ok_or_else(refused)
        }
        (1, Some(id)) => Ok(Named::One(key::of_id(db, collection, id)?)),
        _ => Err(refused()),
    }
}

fn whole(key: Vec<u8>) -> Result<Key, BenchError> {
    Key::new(key).map_err(failed)
}

/// The key that a filter names; a filter of several documents is refused.
pub(super) fn one(db: &str, collection: &str, filter: &Document) -> OpResult<Vec<u8>> {
    match named(db, collection, filter)? {
        Named::One(key) => Ok(key),
        Named::Range(_) => Err(OpError::unsupported(NAME, format!("change what {filter} finds, but by _id only"))),
    }
}

/// Checks that the order is that of the keys, which documents are found in.
pub(super) fn check_order(find: &Find) -> OpResult<()> {
    let is_by_id = |(field, direction): (&String, &Bson)| {
        field == "_id" && (direction.as_i32() == Some(1) || direction.as_i64() == Some(1))
    };
    if find.sort.is_empty() || find.sort.len() == 1 && find.sort.iter().all(is_by_id) {
        return Ok(());
    }
    Err(OpError::unsupported(NAME, format!("sort by {}, but by _id only", find.sort)))
}

/// The fields of a document that a projection names, and its `_id`.
pub(super) fn project(document: Document, projection: &Document) -> OpResult<Document> {
    if projection.is_empty() {
        return Ok(document);
    }
    let is_named = |value: &Bson| value.as_i32() == Some(1) || value.as_bool() == Some(true);
    if projection.iter().any(|(field, value)| field.contains('.') || !is_named(value)) {
        return Err(OpError::unsupported(NAME, format!("project {projection}, but whole fields only")));
    }
    Ok(document.into_iter().filter(|(field, _)| field == "_id" || projection.contains_key(field)).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::doc;

    use super::*;

    fn contains(filter: Document, id: i32) -> bool {
        let key = key::of_id("db", "c", &id.into()).unwrap();
        match named("db", "c", &filter).unwrap() {
            Named::One(found) => found == key,
            Named::Range(range) => range.contains(&Key::new(key).unwrap()),
        }
    }

    #[test]
    fn filters_by_id_find_what_they_name() {
        let found = |filter: Document| (0..10).filter(|id| contains(filter.clone(), *id)).collect::<Vec<i32>>();
        assert_eq!(found(doc! {}), (0..10).collect::<Vec<i32>>());
        assert_eq!(found(doc! {"_id": 3}), [3]);
        assert_eq!(found(doc! {"_id": {"$gte": 7}}), [7, 8, 9]);
        assert_eq!(found(doc! {"_id": {"$gt": 7}}), [8, 9]);
        assert_eq!(found(doc! {"_id": {"$gt": 2, "$lt": 5}}), [3, 4]);
        assert_eq!(found(doc! {"_id": {"$lte": 1}}), [0, 1]);
        // Texts are not compared with numbers.
        assert_eq!(found(doc! {"_id": {"$gte": ""}}), [0; 0]);
    }

    #[test]
    fn other_filters_orders_and_projections_are_refused_with_what_was_asked() {
        for filter in [doc! {"n": 1}, doc! {"_id": 1, "n": 1}, doc! {"_id": {"$in": [1, 2]}}] {
            let refused = named("db", "c", &filter).unwrap_err().to_string();
            assert!(refused.contains("dtranx cannot find by {"), "{refused}");
        }
        let refused = one("db", "c", &doc! {}).unwrap_err().to_string();
        assert!(refused.contains("dtranx cannot change what"), "{refused}");
        let find = Find::new(doc! {}).sort(doc! {"n": 1});
        assert!(check_order(&find).unwrap_err().to_string().contains("dtranx cannot sort by"));
        assert!(project(doc! {"a": 1}, &doc! {"a.b": 1}).is_err());
        let kept = project(doc! {"_id": 1, "a": 2, "b": 3}, &doc! {"b": 1}).unwrap();
        assert_eq!(kept, doc! {"_id": 1, "b": 3});
    }
}
