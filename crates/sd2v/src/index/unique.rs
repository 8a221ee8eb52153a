//! A unique constraint: the values that a document has in it, and the condition for other documents
//! that have them.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, doc};

use super::keys::{self, Missing, Part};
use crate::{
    filter::{allowed_values, demanded_values, is_present},
    names::INSERT,
    stored::strip,
};

/// A unique index of the application.
#[derive(Clone, Debug, PartialEq)]
pub struct Unique {
    /// The application's name of the index.
    pub name: String,
    /// Key pattern, without the field [`SLOT`](crate::names::SLOT).
    pub key: Document,
    /// Collation by which strings are compared; `None` for the simple one.
    pub collation: Option<Document>,
    /// Condition of a partial index; `None` if the index holds all documents.
    pub partial: Option<Document>,
    /// Documents with none of its fields are not in it.
    pub sparse: bool,
}

impl Unique {
    pub(super) fn of(spec: &Document) -> Self {
        Self {
            name: spec.get_str("name").unwrap_or_default().to_owned(),
            key: spec.get_document("key").cloned().unwrap_or_default(),
            collation: spec.get_document("collation").ok().cloned(),
            partial: spec.get_document("partialFilterExpression").ok().cloned(),
            sparse: spec.get_bool("sparse").unwrap_or(false),
        }
    }

    /// Every field that decides which keys the index has of a document: those of the key, and those
    /// of the partial filter.
    pub fn fields(&self) -> Vec<&str> {
        let mut fields: Vec<&str> = self.key.keys().map(String::as_str).collect();
        if let Some(partial) = &self.partial {
            collect_fields(partial, &mut fields);
        }
        fields
    }

    /// Returns true if the filter demands one whole key of it, so that at most one document
    /// matches. `false` where that is not plain to see: paths, of which an array of documents has
    /// several, and strings that a collation makes equal.
    pub fn is_pinned_by(&self, filter: &Document) -> bool {
        self.pinned_key(filter).is_some()
    }

    /// The key of the one document that the filter matches, as the filter gives it: a number of one
    /// type may equal one of another.
    pub fn pinned_key(&self, filter: &Document) -> Option<Document> {
        if self.is_plain() { demanded_values(filter, self.key.keys()) } else { None }
    }

    /// Highest number of whole keys of it that the filter allows: each document that matches has at
    /// least one of them, and no other has that. `None`: that is not plain to see.
    pub fn keys_allowed(&self, filter: &Document) -> Option<usize> {
        let each = |keys: usize, path: &String| keys.checked_mul(allowed_values(filter, path)?);
        if self.is_plain() { self.key.keys().try_fold(1, each) } else { None }
    }

    /// Returns true if it is of fields at the top, compared by their bytes, of every document.
    pub fn is_plain(&self) -> bool {
        let whole = self.collation.is_none() && self.partial.is_none() && !self.key.is_empty();
        // Of a value on a map, other kinds of index hold what is near it.
        let by_value = |kind: &Bson| matches!(kind, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_));
        whole && self.key.values().all(by_value) && !self.key.keys().any(|path| path.contains('.'))
    }

    /// The condition on the *safe* version of another document that holds a key of this one.
    /// `None`: a sparse index does not hold this document. (Whether a partial index does is the
    /// server's to say.)
    ///
    /// The condition is exact, with two exceptions: where a path names an element of an array by
    /// its place, or leads through the end of another one, each path is asked for by itself, and an
    /// array that is an element of an array also equals an array as a whole; and where a sparse
    /// index of several paths through one array lacks the key of an element that has none of them.
    pub fn rivals_of(&self, document: &Document) -> Option<Document> {
        if self.sparse && self.key.keys().all(|path| values_at(document, path, Missing::Ignored).is_empty()) {
            return None;
        }
        let paths = self.paths();
        let mut all = if keys::are_followed(&paths) {
            keys::conditions(document, &paths, self.missing())?
        } else {
            let one_of = |path: &String| has_one_of(path, &values_at(document, path, self.missing()), self.missing());
            self.key.keys().map(one_of).collect()
        };
        if self.sparse && self.key.len() > 1 {
            let there = self.key.keys().map(|path| doc! {path: {"$exists": true}});
            all.push(doc! {"$or": there.collect::<Vec<_>>()});
        }
        all.push(doc! {INSERT: {"$exists": false}});
        all.extend(self.partial.clone());
        Some(doc! {"$and": all})
    }

    /// [`Self::rivals_of`] any of these documents, as alternatives that are as few as possible.
    /// (Keys with one value for each field are joined where they differ in one field alone.)
    pub fn rivals_of_any(&self, documents: &[&Document]) -> Vec<Document> {
        let keys: Vec<Option<Document>> = documents.iter().map(|document| self.simple_key(document)).collect();
        let distinct = |path: &String| {
            let values = keys.iter().flatten().filter_map(|key| key.get(path));
            values.map(|value| value.to_string()).collect::<BTreeSet<_>>().len()
        };
        let free = self.key.keys().max_by_key(|path| distinct(path)).cloned().unwrap_or_default();
        let mut groups: BTreeMap<Vec<u8>, (Document, Vec<Bson>)> = BTreeMap::new();
        let mut others = Vec::new();
        for (document, key) in documents.iter().zip(keys) {
            let Some(mut key) = key else {
                others.extend(self.rivals_of(document));
                continue;
            };
            let value = key.remove(&free).unwrap_or(Bson::Null);
            let group = key.to_vec().unwrap_or_default();
            groups.entry(group).or_insert((key, Vec::new())).1.push(value);
        }
        let asked = |(fixed, values): (Document, Vec<Bson>)| {
            let mut all: Document = fixed.into_iter().map(|(path, value)| (path, doc! {"$eq": value}.into())).collect();
            all.insert(free.clone(), doc! {"$in": values});
            all.insert(INSERT, doc! {"$exists": false});
            match &self.partial {
                Some(partial) => doc! {"$and": [all, partial.clone()]},
                None => all,
            }
        };
        groups.into_values().map(asked).chain(others).collect()
    }

    /// The key of a document that has one value, and a plain one, for each field.
    fn simple_key(&self, document: &Document) -> Option<Document> {
        let paths = self.paths();
        if keys::are_followed(&paths) {
            let [only] = &keys::keys_of(document, &paths)[..] else { return None };
            let value = |part: &Part| match part {
                Part::Value(value) if is_present(value) => Some(value.clone()),
                _ => None,
            };
            return self.key.keys().zip(only).map(|(path, part)| Some((path.clone(), value(part)?))).collect();
        }
        let one = |path: &String| match &values_at(document, path, Missing::Null)[..] {
            [only] if is_present(only) => Some((path.clone(), only.clone())),
            _ => None,
        };
        self.key.keys().map(one).collect()
    }

    fn paths(&self) -> Vec<&str> {
        self.key.keys().map(String::as_str).collect()
    }

    /// A sparse index of one field knows no missing values, not even those of some elements of an
    /// array; one of several fields does, beside another field that is there.
    fn missing(&self) -> Missing {
        if self.sparse && self.key.len() == 1 { Missing::Ignored } else { Missing::Null }
    }

    /// Returns true if the two versions have the same keys, so that the index has checked the one
    /// already.
    pub fn same_keys(&self, left: &Document, right: &Document) -> bool {
        let same = |path: &str| left.get(path) == right.get(path);
        self.fields().iter().all(|path| same(path.split('.').next().unwrap_or(path)))
    }

    /// The key of a document as the server's error shows it: the first value where there are
    /// several.
    pub fn key_value(&self, document: &Document) -> Document {
        let mut bare = document.clone();
        strip(&mut bare);
        let first = |path: &String| values_at(&bare, path, self.missing()).into_iter().next().unwrap_or(Bson::Null);
        self.key.keys().map(|path| (path.clone(), first(path))).collect()
    }
}

fn collect_fields<'a>(filter: &'a Document, fields: &mut Vec<&'a str>) {
    for (key, value) in filter {
        match value {
            Bson::Array(operands) if key.starts_with('$') => {
                operands.iter().filter_map(Bson::as_document).for_each(|operand| collect_fields(operand, fields));
            }
            _ if key.starts_with('$') => {}
            _ => fields.push(key),
        }
    }
}

fn has_one_of(path: &str, values: &[Bson], missing: Missing) -> Document {
    let equal = |value: &Bson| match (value, missing) {
        // Just `null` would match missing values, too.
        (Bson::Null, Missing::Ignored) => doc! {path: {"$type": "null"}},
        _ => doc! {path: {"$eq": value.clone()}},
    };
    match values {
        [] => doc! {path: Bson::Null},
        [only] => equal(only),
        several => doc! {"$or": several.iter().map(equal).collect::<Vec<_>>()},
    }
}

/// The values of a path as an index takes them: through arrays of documents, and each element of an
/// array at its end. Empty when the path is missing everywhere.
fn values_at(document: &Document, path: &str, missing: Missing) -> Vec<Bson> {
    let components: Vec<&str> = path.split('.').collect();
    let mut values = Vec::new();
    collect_values(document, &components, missing, &mut values);
    values
}

fn collect_values(document: &Document, path: &[&str], missing: Missing, values: &mut Vec<Bson>) {
    let Some((first, rest)) = path.split_first() else { return };
    let Some(value) = document.get(first) else { return };
    match (value, rest) {
        (Bson::Array(items), []) if items.is_empty() => values.push(value.clone()),
        (Bson::Array(items), []) => {
            for item in items {
                if !values.contains(item) {
                    values.push(item.clone());
                }
            }
        }
        (value, []) => values.push(value.clone()),
        (Bson::Document(inner), rest) => collect_values(inner, rest, missing, values),
        (Bson::Array(items), rest) => collect_from_items(items, rest, missing, values),
        _ => {}
    }
}

fn collect_from_items(items: &[Bson], rest: &[&str], missing: Missing, values: &mut Vec<Bson>) {
    let place = rest.first().and_then(|component| component.parse::<usize>().ok());
    if let Some(Bson::Document(inner)) = place.and_then(|place| items.get(place)) {
        collect_values(inner, &rest[1..], missing, values);
    } else if let Some(item) = place.and_then(|place| items.get(place)).filter(|_| rest.len() == 1) {
        values.push(item.clone());
    }
    for inner in items.iter().filter_map(Bson::as_document) {
        let before = values.len();
        collect_values(inner, rest, missing, values);
        // An element without the field counts as null.
        let counts = missing == Missing::Null && !values.contains(&Bson::Null);
        if place.is_none() && values.len() == before && inner.get(rest[0]).is_none() && counts {
            values.push(Bson::Null);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unique(key: Document) -> Unique {
        Unique::of(&doc! {"key": key, "name": "u", "unique": true})
    }

    #[test]
    fn values_at_follows_arrays_as_an_index_does() {
        let document = doc! {"a": [1, 2, 1], "b": {"c": [{"d": 1}, {"d": [2, 3]}, {"e": 0}]}, "n": {"x": Bson::Null}};
        assert_eq!(values_at(&document, "a", Missing::Null), vec![Bson::Int32(1), Bson::Int32(2)]);
        assert_eq!(
            values_at(&document, "b.c.d", Missing::Null),
            vec![Bson::Int32(1), Bson::Int32(2), Bson::Int32(3), Bson::Null]
        );
        assert_eq!(values_at(&document, "b.c.0.d", Missing::Null), vec![Bson::Int32(1)]);
        assert_eq!(values_at(&document, "n.x", Missing::Null), vec![Bson::Null]);
        assert!(values_at(&document, "z.y", Missing::Null).is_empty());
    }

    #[test]
    fn is_pinned_by_a_value_of_each_field() {
        let two = unique(doc! {"a": 1, "b": -1});
        for pinning in
            [doc! {"a": 1, "b": "x"}, doc! {"$and": [{"a": {"$eq": 1}}, {"b": {"$in": [2]}, "c": {"$gt": 1}}]}]
        {
            assert!(two.is_pinned_by(&pinning), "{pinning}");
        }
        for loose in [doc! {"a": 1}, doc! {"a": 1, "b": Bson::Null}, doc! {"a": 1, "b": {"$in": [1, 2]}}] {
            assert!(!two.is_pinned_by(&loose), "{loose}");
        }
        let filter = doc! {"a": 1, "a.b": 1};
        assert!(!unique(doc! {"a.b": 1}).is_pinned_by(&filter));
        let (collation, partial) = (Some(doc! {"locale": "en"}), Some(doc! {"c": 1}));
        assert!(!Unique { collation, ..unique(doc! {"a": 1}) }.is_pinned_by(&filter));
        assert!(!unique(doc! {"a": "2d"}).is_pinned_by(&filter));
        assert!(!Unique { partial, ..unique(doc! {"a": 1}) }.is_pinned_by(&filter));
    }

    #[test]
    fn keys_allowed_are_a_value_of_each_field() {
        let two = unique(doc! {"a": 1, "b": -1});
        for (filter, keys) in [
            (doc! {"a": 1, "b": {"$in": [1, 2, 3]}, "c": {"$gt": 0}}, Some(3)),
            (doc! {"a": {"$in": [1, 2]}, "b": {"$in": ["x", "y"]}}, Some(4)),
            (doc! {"a": 1, "b": {"$in": []}}, Some(0)),
            (doc! {"a": 1, "b": {"$in": [1, Bson::Null]}}, None),
            (doc! {"a": 1, "b": {"$gt": 1}}, None),
            (doc! {"a": 1, "b": {"$not": {"$in": [1]}}}, None),
            (doc! {"b": 1}, None),
        ] {
            assert_eq!(two.keys_allowed(&filter), keys, "{filter}");
        }
        let collated = Unique { collation: Some(doc! {"locale": "en"}), ..unique(doc! {"a": 1}) };
        assert_eq!(collated.keys_allowed(&doc! {"a": "x"}), None);
    }

    #[test]
    fn rivals_of_asks_for_each_value_and_for_null_where_there_is_none() {
        let asked = unique(doc! {"a": 1, "b": 1}).rivals_of(&doc! {"a": [1, 2]}).unwrap();
        let expected = doc! {"$and": [
            {"$or": [{"a": {"$eq": 1}}, {"a": {"$eq": 2}}]}, {"b": Bson::Null}, {INSERT: {"$exists": false}},
        ]};
        assert_eq!(asked, expected);
    }

    #[test]
    fn rivals_of_asks_for_arrays_that_have_the_key_null() {
        let asked = unique(doc! {"a.b": 1}).rivals_of(&doc! {"a": []}).unwrap();
        let any = doc! {"$or": [
            {"a.b": Bson::Null}, {"a": {"$size": 0}}, {"a": {"$elemMatch": {"$not": {"$type": "object"}}}},
            {"a": {"$elemMatch": {"$type": "array"}}},
        ]};
        assert_eq!(asked, doc! {"$and": [any, {INSERT: {"$exists": false}}]});
        for same in [doc! {}, doc! {"a": 5}, doc! {"a": [5]}, doc! {"a": [[{"b": 1}]]}] {
            assert_eq!(unique(doc! {"a.b": 1}).rivals_of(&same).unwrap(), asked, "{same}");
        }
        assert_eq!(unique(doc! {"a.b": 1}).rivals_of_any(&[&doc! {"a": [5, {"b": 1}]}]).len(), 1);
    }

    #[test]
    fn rivals_of_asks_for_values_of_one_element() {
        let asked = unique(doc! {"x.a": 1, "x.b": 1}).rivals_of(&doc! {"x": [{"a": 1, "b": 2}]}).unwrap();
        let element = doc! {"$and": [{"a": {"$eq": 1}}, {"b": {"$eq": 2}}]};
        let document = doc! {"$and": [{"x.a": {"$eq": 1}}, {"x.b": {"$eq": 2}}]};
        let expected = doc! {"$and": [
            {"$or": [
                {"x": {"$elemMatch": element}}, {"$and": [{"x": {"$not": {"$type": "array"}}}, document]},
            ]},
            {INSERT: {"$exists": false}},
        ]};
        assert_eq!(asked, expected);
    }

    #[test]
    fn rivals_of_any_puts_keys_together_that_differ_in_one_field() {
        let free = doc! {"$exists": false};
        let of =
            |key: Document, documents: &[Document]| unique(key).rivals_of_any(&documents.iter().collect::<Vec<_>>());
        let one = of(doc! {"a": 1}, &[doc! {"a": 1}, doc! {"a": "x"}]);
        assert_eq!(one, [doc! {"a": {"$in": [1, "x"]}, INSERT: free.clone()}]);
        let lines = [(1, 7, 1), (1, 7, 2), (1, 8, 1)].map(|(a, b, c)| doc! {"a": a, "b": b, "c": c});
        let expected = [
            doc! {"a": {"$eq": 1}, "b": {"$eq": 7}, "c": {"$in": [1, 2]}, INSERT: free.clone()},
            doc! {"a": {"$eq": 1}, "b": {"$eq": 8}, "c": {"$in": [1]}, INSERT: free.clone()},
        ];
        assert_eq!(of(doc! {"a": 1, "b": 1, "c": 1}, &lines), expected);
    }

    #[test]
    fn rivals_of_any_asks_for_what_is_not_plain_by_itself() {
        let two = unique(doc! {"a": 1, "b": 1});
        let odd = [doc! {"a": [1, 2], "b": 1}, doc! {"b": 1}, doc! {"a": {"x": 1}, "b": 1}];
        let asked = two.rivals_of_any(&odd.iter().collect::<Vec<_>>());
        assert_eq!(asked, odd.iter().filter_map(|document| two.rivals_of(document)).collect::<Vec<_>>());
        let sparse = Unique { sparse: true, ..unique(doc! {"a": 1}) };
        assert!(sparse.rivals_of_any(&[&doc! {"b": 1}]).is_empty());
        let partial = Unique { partial: Some(doc! {"p": 1}), ..unique(doc! {"a": 1}) };
        let expected = doc! {"$and": [{"a": {"$in": [1]}, INSERT: {"$exists": false}}, {"p": 1}]};
        assert_eq!(partial.rivals_of_any(&[&doc! {"a": 1}]), [expected]);
        assert!(two.rivals_of_any(&[]).is_empty());
    }

    #[test]
    fn rivals_of_a_document_that_a_sparse_index_does_not_hold_is_none() {
        let sparse = Unique { sparse: true, ..unique(doc! {"a": 1}) };
        assert_eq!(sparse.rivals_of(&doc! {"b": 1}), None);
        assert!(sparse.rivals_of(&doc! {"a": Bson::Null}).is_some());
    }

    #[test]
    fn rivals_of_asks_a_sparse_index_for_no_missing_values() {
        let sparse = Unique { sparse: true, ..unique(doc! {"a.b": 1}) };
        let not_inserted = doc! {INSERT: {"$exists": false}};
        let asked = sparse.rivals_of(&doc! {"a": [{"b": 4}, {"c": 1}]}).unwrap();
        assert_eq!(asked, doc! {"$and": [{"a.b": {"$eq": 4}}, not_inserted.clone()]});
        let asked = sparse.rivals_of(&doc! {"a": [{"b": Bson::Null}, {"c": 1}]}).unwrap();
        assert_eq!(asked, doc! {"$and": [{"a.b": {"$type": "null"}}, not_inserted.clone()]});
        assert_eq!(sparse.rivals_of(&doc! {"a": [{"c": 1}]}), None);
        let two = Unique { sparse: true, ..unique(doc! {"a": 1, "b": 1}) };
        let there = doc! {"$or": [{"a": {"$exists": true}}, {"b": {"$exists": true}}]};
        let asked = two.rivals_of(&doc! {"a": Bson::Null}).unwrap();
        assert_eq!(asked, doc! {"$and": [{"a": {"$eq": Bson::Null}}, {"b": Bson::Null}, there, not_inserted]});
    }
}
