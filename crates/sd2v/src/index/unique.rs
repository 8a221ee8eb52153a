//! A unique constraint: which values a document has in it, and the question who else has them.

use bson::{Bson, Document, doc};

use crate::{names::INSERT, stored::strip};

/// A unique index of the application.
#[derive(Clone, Debug, PartialEq)]
pub struct Unique {
    /// Its name.
    pub name: String,
    /// Its key pattern.
    pub key: Document,
    /// How its strings compare.
    pub collation: Option<Document>,
    /// Which documents it holds.
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

    /// Every field that decides what it holds of a document.
    pub fn fields(&self) -> Vec<&str> {
        let mut fields: Vec<&str> = self.key.keys().map(String::as_str).collect();
        if let Some(partial) = &self.partial {
            collect_fields(partial, &mut fields);
        }
        fields
    }

    /// The condition on the *safe* version of another document that holds a key of this one. `None`: a sparse index
    /// does not hold this document. (Whether a partial index does is the server's to say.)
    ///
    /// Two array fields at once are refused by the index itself; what is asked here is exact otherwise, but for arrays
    /// that are elements of arrays, which also equal an array as a whole.
    pub fn rivals_of(&self, document: &Document) -> Option<Document> {
        if self.sparse && self.key.keys().all(|path| values_at(document, path, Missing::Ignored).is_empty()) {
            return None;
        }
        let one_of = |path: &String| has_one_of(path, &values_at(document, path, self.missing()), self.missing());
        let mut all: Vec<Document> = self.key.keys().map(one_of).collect();
        if self.sparse && self.key.len() > 1 {
            let there = self.key.keys().map(|path| doc! {path: {"$exists": true}});
            all.push(doc! {"$or": there.collect::<Vec<_>>()});
        }
        all.push(doc! {INSERT: {"$exists": false}});
        all.extend(self.partial.clone());
        Some(doc! {"$and": all})
    }

    /// A sparse index of one field knows no missing values, not even those of some elements of an array; one of several
    /// fields does, beside another field that is there.
    fn missing(&self) -> Missing {
        if self.sparse && self.key.len() == 1 { Missing::Ignored } else { Missing::Null }
    }

    /// Do the two versions have the same keys, so that the index has checked the one already?
    pub fn same_keys(&self, left: &Document, right: &Document) -> bool {
        let same = |path: &str| left.get(path) == right.get(path);
        self.fields().iter().all(|path| same(path.split('.').next().unwrap_or(path)))
    }

    /// The key of a document as the server's error shows it: the first value where there are several.
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

/// What a value that is not there counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Null,
    Ignored,
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

/// The values of a path as an index takes them: through arrays of documents, and each element of an array at its end.
/// Empty when the path is missing everywhere.
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
    fn rivals_of_asks_for_each_value_and_for_null_where_there_is_none() {
        let asked = unique(doc! {"a": 1, "b": 1}).rivals_of(&doc! {"a": [1, 2]}).unwrap();
        let expected = doc! {"$and": [
            {"$or": [{"a": {"$eq": 1}}, {"a": {"$eq": 2}}]}, {"b": Bson::Null}, {INSERT: {"$exists": false}},
        ]};
        assert_eq!(asked, expected);
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
