//! The part of all `_id`s in which a query by `_id` has looked for documents.

use std::cmp::Ordering;

use bson::{Bson, RawBsonRef, RawDocument};

use super::{own_key::OwnKey, query::Query};

/// The `_id`s in which a query has looked for documents, perhaps with others. A document whose
/// `_id` lies elsewhere makes no difference to its answer, whether it is there or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct IdSpan {
    /// The lowest `_id` of the span; `None`: it has no lower bound.
    low: Option<Bson>,
    /// The highest `_id` of the span; `None`: it has no upper bound.
    high: Option<Bson>,
}

impl IdSpan {
    /// The span of a query by nothing but the `_id`, whose strings compare by their bytes.
    pub(crate) fn of(query: &Query) -> Self {
        match query.filter.get("_id") {
            Some(Bson::Document(conditions)) if conditions.keys().any(|name| name.starts_with('$')) => {
                let bound = |names: [&str; 3]| names.iter().find_map(|name| conditions.get(*name)).cloned();
                Self { low: bound(["$gt", "$gte", "$eq"]), high: bound(["$lt", "$lte", "$eq"]) }
            }
            Some(value) if query.filter.len() == 1 => Self { low: Some(value.clone()), high: Some(value.clone()) },
            _ => Self::default(),
        }
    }

    /// The part of it that the server has come to, if it stopped after the document with this `_id`
    /// because there were enough.
    pub(crate) fn up_to(self, last: &Bson, query: &Query) -> Self {
        let order = query.sort.as_ref().filter(|sort| sort.len() == 1).and_then(|sort| sort.get("_id"));
        match order.and_then(direction) {
            Some(Ordering::Less) => Self { high: Some(last.clone()), ..self },
            Some(Ordering::Greater) => Self { low: Some(last.clone()), ..self },
            _ => self,
        }
    }

    /// Returns false if the document with this `_id` is outside.
    pub(crate) fn may_have(&self, id: &OwnKey) -> bool {
        let is = |bound: &Option<Bson>, side| bound.as_ref().and_then(|bound| compare(id, bound)) == Some(side);
        !is(&self.low, Ordering::Less) && !is(&self.high, Ordering::Greater)
    }
}

/// The order of answers: [`Ordering::Less`] if each has a greater `_id` than the one before.
fn direction(order: &Bson) -> Option<Ordering> {
    match order {
        Bson::Int32(1) | Bson::Int64(1) => Some(Ordering::Less),
        Bson::Int32(-1) | Bson::Int64(-1) => Some(Ordering::Greater),
        Bson::Double(order) if *order == 1.0 => Some(Ordering::Less),
        Bson::Double(order) if *order == -1.0 => Some(Ordering::Greater),
        _ => None,
    }
}

/// The order of an `_id` and a value of the same type, as the server has it. `None`: other types,
/// or such as are not compared here.
fn compare(id: &OwnKey, value: &Bson) -> Option<Ordering> {
    match (id, value) {
        (OwnKey::Whole(id), Bson::Int32(value)) => Some(id.cmp(&i64::from(*value))),
        (OwnKey::Whole(id), Bson::Int64(value)) => Some(id.cmp(value)),
        (OwnKey::Bytes(bytes), value) => {
            let document = RawDocument::from_bytes(bytes).ok()?;
            match (document.iter().next()?.ok()?.1, value) {
                (RawBsonRef::String(id), Bson::String(value)) => Some(id.as_bytes().cmp(value.as_bytes())),
                (RawBsonRef::ObjectId(id), Bson::ObjectId(value)) => Some(id.bytes().cmp(&value.bytes())),
                (RawBsonRef::DateTime(id), Bson::DateTime(value)) => Some(id.cmp(value)),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc, oid::ObjectId};

    use super::*;
    use crate::coordinator::request::query_options::QueryOptions;

    fn query(filter: Document, sort: Document) -> Query {
        Query { sort: Some(sort), ..Query::of(filter, QueryOptions::default()) }
    }

    fn has(span: &IdSpan, ids: impl IntoIterator<Item = impl Into<Bson>>) -> Vec<bool> {
        ids.into_iter().map(|id| span.may_have(&OwnKey::of(&id.into()))).collect()
    }

    #[test]
    fn what_the_filter_leaves_out_is_outside() {
        let of = |filter: Document| IdSpan::of(&query(filter, doc! {"_id": 1}));
        assert_eq!(has(&of(doc! {"_id": {"$gte": 5, "$lt": 7}}), [4, 5, 6, 7, 8]), [false, true, true, true, false]);
        assert_eq!(has(&of(doc! {"_id": {"$gt": "b"}}), ["a", "b", "c", "é"]), [false, true, true, true]);
        assert_eq!(has(&of(doc! {"_id": 5}), [4, 5, 6]), [false, true, false]);
        assert_eq!(has(&of(doc! {"_id": {"$eq": 5_i64}}), [4, 5, 6]), [false, true, false]);
        let at = |byte: u8| ObjectId::from_bytes([byte; 12]);
        assert_eq!(has(&of(doc! {"_id": {"$lte": at(5)}}), [at(4), at(5), at(6)]), [true, true, false]);
    }

    #[test]
    fn what_is_not_compared_may_be_inside() {
        let of = |filter: Document| IdSpan::of(&query(filter, doc! {"_id": 1}));
        assert_eq!(has(&of(doc! {"_id": {"$gte": "b"}}), [1, 5]), [true, true], "numbers with a string");
        assert_eq!(has(&of(doc! {"_id": {"$gte": 5.5}}), [1, 9]), [true, true], "a fraction");
        assert_eq!(has(&of(doc! {"_id": {"$in": [5, 6]}}), [1]), [true]);
        assert_eq!(has(&of(doc! {"_id": {"$not": {"$gte": 5}}}), [1, 9]), [true, true]);
        assert_eq!(has(&of(doc! {"$or": [{"_id": 5}, {"_id": 6}]}), [1]), [true]);
        assert_eq!(has(&IdSpan::default(), ["a"]), [true]);
    }

    #[test]
    fn what_comes_behind_the_last_document_is_outside() {
        let up_to = |sort: Document, last: i32| {
            let query = query(doc! {"_id": {"$gte": 5, "$lte": 50}}, sort);
            IdSpan::of(&query).up_to(&last.into(), &query)
        };
        assert_eq!(has(&up_to(doc! {"_id": 1}, 9), [4, 5, 9, 10]), [false, true, true, false]);
        assert_eq!(has(&up_to(doc! {"_id": -1_i64}, 40), [39, 40, 50, 51]), [false, true, true, false]);
        assert_eq!(has(&up_to(doc! {"_id": 1, "n": 1}, 9), [10]), [true]);
        assert_eq!(has(&up_to(doc! {}, 9), [10]), [true], "in no order");
    }
}
