//! Top-level fields of the documents of one collection: those that a change touches, and those that
//! a read rests on (decision 0069). Where the two have none in common, the read is what it was.

use std::{collections::BTreeSet, sync::Arc};

use bson::Document;
use sd2v::{fields, update::Update};

use super::query::Query;

/// Fields that are named, and bytes of one name. More stand for all fields.
const MOST_NAMES: usize = 32;
const LONGEST_NAME: usize = 64;

/// Top-level fields, by their names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fields {
    /// All fields, and the existence of the document.
    All,
    Of(Arc<BTreeSet<String>>),
}

impl Fields {
    /// No fields: a lock changes nothing that is read.
    pub(crate) fn none() -> Self {
        Self::Of(Arc::default())
    }

    fn of(named: fields::Fields<'_>) -> Self {
        match named {
            Some(names) if names.len() <= MOST_NAMES && names.iter().all(|name| name.len() <= LONGEST_NAME) => {
                Self::Of(Arc::new(names.into_iter().map(str::to_owned).collect()))
            }
            _ => Self::All,
        }
    }

    /// Fields of an existing document that the update may change.
    pub(crate) fn of_update(update: &Update) -> Self {
        Self::of(fields::of_update(update))
    }

    /// Fields on which it depends which documents a query finds, how it orders them, and what it
    /// shows. Of an answer that is cut off, it also depends on the way by which the server finds
    /// it.
    pub(crate) fn of_query(query: &Query) -> Self {
        let is_whole = query.limit == 0 && query.skip == 0;
        if !query.options.is_plain() || query.options.hint.is_some() || !(is_whole || query.is_fetch()) {
            return Self::All;
        }
        let empty = Document::new();
        let sort = query.sort.as_ref().unwrap_or(&empty);
        let shown = query.projection.as_ref().and_then(fields::of_projection);
        let parts = [fields::of_filter(&query.filter), fields::of_order(sort), shown];
        let all = parts.into_iter().collect::<Option<Vec<_>>>();
        Self::of(all.map(|all| all.into_iter().flatten().collect()))
    }

    /// Fields on which it depends which documents a query finds, and in which order.
    pub(crate) fn found_by(query: &Query) -> Self {
        if !query.options.is_plain() || query.options.hint.is_some() {
            return Self::All;
        }
        let empty = Document::new();
        let order = fields::of_order(query.sort.as_ref().unwrap_or(&empty));
        let all = fields::of_filter(&query.filter).zip(order);
        Self::of(all.map(|(filter, order)| filter.into_iter().chain(order).collect()))
    }

    /// Fields on which any of these indexes depends.
    pub(crate) fn of_indexes<'a>(indexes: impl IntoIterator<Item = &'a sd2v::index::Index>) -> Self {
        let all = indexes.into_iter().map(|index| index.fields()).collect::<Option<Vec<_>>>();
        Self::of(all.map(|all| all.into_iter().flatten().collect()))
    }

    /// The fields of either; if one is [`Self::All`], all.
    pub(crate) fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Of(some), Self::Of(more)) if some != more => {
                Self::of(Some(some.iter().chain(&**more).map(String::as_str).collect()))
            }
            (Self::Of(_), Self::Of(_)) => self.clone(),
            _ => Self::All,
        }
    }

    /// Returns true if a change of these fields matters to what rests on the others.
    pub(crate) fn meet(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::Of(some), Self::Of(others)) => !some.is_disjoint(others),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc};

    use super::*;
    use crate::coordinator::request::query_options::QueryOptions;

    fn of(names: &[&str]) -> Fields {
        Fields::of(Some(names.iter().copied().collect()))
    }

    fn query(filter: Document, projection: Option<Document>) -> Query {
        Query { projection, ..Query::of(filter, QueryOptions::default()) }
    }

    #[test]
    fn a_query_rests_on_its_filter_its_order_and_what_it_shows() {
        let shown = Some(doc! {"b.x": 1});
        let by_key = query(doc! {"a": 1}, shown.clone());
        assert_eq!(Fields::of_query(&by_key), of(&["a", "b"]));
        let sorted = Query { sort: Some(doc! {"c": 1}), ..by_key.clone() };
        assert_eq!(Fields::of_query(&sorted), of(&["a", "b", "c"]));
        assert_eq!(Fields::of_query(&query(doc! {"a": 1}, None)), Fields::All, "it shows everything");
        let fetch = Query { limit: 1, ..query(doc! {"_id": 1}, shown) };
        assert_eq!(Fields::of_query(&fetch), of(&["_id", "b"]));

        let hinted = QueryOptions { hint: Some("b_1".into()), ..QueryOptions::default() };
        let folded = QueryOptions { collation: Some(doc! {"locale": "en"}), ..QueryOptions::default() };
        for all in [
            Query { limit: 2, ..sorted.clone() },
            Query { skip: 1, ..sorted.clone() },
            Query { options: hinted, ..sorted.clone() },
            Query { options: folded, ..sorted },
        ] {
            assert_eq!(Fields::of_query(&all), Fields::All, "{all:?}");
        }
    }

    #[test]
    fn fields_meet_where_they_have_one_in_common() {
        let update = Update::parse_update(bson!({"$inc": {"a": 1, "b": 1}})).unwrap();
        let touched = Fields::of_update(&update);
        assert!(touched.meet(&of(&["b", "c"])) && !touched.meet(&of(&["c"])));
        assert!(touched.meet(&Fields::All) && Fields::All.meet(&touched) && Fields::All.meet(&of(&[])));
        assert!(touched.and(&of(&["c"])).meet(&of(&["c"])));
        assert_eq!(touched.and(&Fields::All), Fields::All);
    }

    #[test]
    fn too_many_names_stand_for_all() {
        let names: Vec<String> = (0..=MOST_NAMES).map(|n| n.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!((of(&names), of(&[&"a".repeat(LONGEST_NAME + 1)])), (Fields::All, Fields::All));
        assert_ne!(of(&names[1..]), Fields::All);
        assert_eq!(of(&names[1..]).and(&of(&names[..1])), Fields::All);
    }
}
