//! The top-level fields of a document that a filter, an order, a projection or an index looks at,
//! and those that an update may change: two that share none have nothing to do with each other.
//!
//! `None` stands for any field: the condition depends on more than the fields that it names, or on
//! something that is not known here.

use std::collections::BTreeSet;

use bson::{Bson, Document};

use crate::{expression::path::head, filter::is_logical, index::Index, update::Update};

/// Names of top-level fields; `None`: any.
pub type Fields<'a> = Option<BTreeSet<&'a str>>;

/// Depth to which logical operators are followed.
const MAX_DEPTH: usize = 20;

/// Fields that decide whether a document matches.
pub fn of_filter(filter: &Document) -> Fields<'_> {
    let mut fields = BTreeSet::new();
    add_filter(filter, 0, &mut fields)?;
    Some(fields)
}

fn add_filter<'a>(filter: &'a Document, depth: usize, fields: &mut BTreeSet<&'a str>) -> Option<()> {
    for (key, value) in filter {
        if is_logical(key) && depth < MAX_DEPTH {
            for operand in value.as_array()? {
                add_filter(operand.as_document()?, depth + 1, fields)?;
            }
        } else {
            // Operators below a field read this field alone. For one in a field's place, such as
            // `$where`, which may read any field, `field` answers `None`.
            fields.insert(field(key)?);
        }
    }
    Some(())
}

/// Fields that decide the order.
pub fn of_order(sort: &Document) -> Fields<'_> {
    let plain = |value: &Bson| !matches!(value, Bson::Document(_));
    sort.iter().map(|(key, value)| field(key).filter(|_| plain(value))).collect()
}

/// Fields that a projection shows, which only lists what it shows.
pub fn of_projection(projection: &Document) -> Fields<'_> {
    let shows = |value: &Bson| matches!(value, Bson::Boolean(true) | Bson::Int32(1) | Bson::Int64(1));
    let hides = |value: &Bson| matches!(value, Bson::Boolean(false) | Bson::Int32(0) | Bson::Int64(0));
    let mut fields = BTreeSet::new();
    for (key, value) in projection {
        match () {
            () if shows(value) && !key.contains('$') => drop(fields.insert(field(key)?)),
            () if key == "_id" && hides(value) => {}
            () => return None,
        }
    }
    // Otherwise it shows everything else.
    (!fields.is_empty()).then_some(fields)
}

/// Fields of an existing document that an update may change, by operators.
pub fn of_update(update: &Update) -> Fields<'_> {
    let Update::Operators(operators) = update else { return None };
    let mut fields = BTreeSet::new();
    for (operator, targets) in operators {
        for (target, value) in targets.as_document()? {
            fields.insert(field(target)?);
            if operator == "$rename" {
                fields.insert(field(value.as_str()?)?);
            }
        }
    }
    Some(fields)
}

impl Index {
    /// Fields on which it depends where, and whether, a document stands in it.
    pub fn fields(&self) -> Fields<'_> {
        let key = self.spec.get_document("key").ok()?;
        // The key of a text index does not name the fields that it is about.
        let of_key = key.keys().map(|name| field(name).filter(|name| *name != "_fts"));
        let mut fields: BTreeSet<&str> = of_key.collect::<Fields<'_>>()?;
        if let Some(filter) = self.spec.get("partialFilterExpression") {
            fields.extend(of_filter(filter.as_document()?)?);
        }
        Some(fields)
    }
}

/// The first component of a path. `None`: it names no field.
fn field(path: &str) -> Option<&str> {
    Some(head(path)).filter(|head| !head.is_empty() && !head.starts_with('$'))
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc};

    use super::*;

    fn named<'a>(names: &[&'a str]) -> Fields<'a> {
        Some(names.iter().copied().collect())
    }

    #[test]
    fn a_filter_looks_at_the_fields_that_it_names() {
        for (filter, fields) in [
            (doc! {}, named(&[])),
            (doc! {"a": 1, "b.c": {"$gt": 1}}, named(&["a", "b"])),
            (
                doc! {"$or": [{"a": 1}, {"$and": [{"b": {"$not": {"$in": [1]}}}]}], "$nor": [{"c": 1}]},
                named(&["a", "b", "c"]),
            ),
            (doc! {"a": {"$elemMatch": {"x": 1}}}, named(&["a"])),
            (doc! {"$expr": {"$gt": ["$a", "$b"]}}, None),
            (doc! {"a": 1, "$where": "this.b"}, None),
            (doc! {"$or": [{"a": 1}, {"$text": {"$search": "x"}}]}, None),
            (doc! {"$or": 1}, None),
        ] {
            assert_eq!(of_filter(&filter), fields, "{filter}");
        }
    }

    #[test]
    fn a_projection_shows_the_fields_that_it_lists() {
        for (projection, fields) in [
            (doc! {"a": 1, "b.c": true}, named(&["a", "b"])),
            (doc! {"a": 1_i64, "_id": 0}, named(&["a"])),
            (doc! {"_id": 1}, named(&["_id"])),
            (doc! {}, None),
            (doc! {"_id": 0}, None),
            (doc! {"a": 0}, None),
            (doc! {"a": {"$slice": 1}}, None),
            (doc! {"a": "$b"}, None),
            (doc! {"a.$": 1}, None),
        ] {
            assert_eq!(of_projection(&projection), fields, "{projection}");
        }
    }

    #[test]
    fn an_order_looks_at_the_fields_that_it_names() {
        assert_eq!(of_order(&doc! {"a.b": 1, "c": -1}), named(&["a", "c"]));
        assert_eq!(of_order(&doc! {"score": {"$meta": "textScore"}}), None);
        assert_eq!(of_order(&doc! {"$natural": 1}), None);
    }

    #[test]
    fn an_update_changes_the_fields_that_its_operators_name() {
        for (update, fields) in [
            (bson!({"$inc": {"a.b": 1}, "$set": {"c": 1, "d.$[].e": 2}}), named(&["a", "c", "d"])),
            (bson!({"$rename": {"a": "b.c"}}), named(&["a", "b"])),
            (bson!([{"$set": {"a": 1}}]), None),
        ] {
            let update = Update::parse_update(update).unwrap();
            assert_eq!(of_update(&update), fields, "{update:?}");
        }
        assert_eq!(of_update(&Update::Replacement(doc! {"a": 1})), None);
        assert_eq!(of_update(&Update::Operators(doc! {"$set": 1})), None);
    }

    #[test]
    fn an_index_is_about_its_key_and_its_condition() {
        let index = |spec: Document| crate::index::interpret(&[spec]).pop().unwrap();
        let plain = index(doc! {"v": 2, "key": {"a": 1, "b.c": -1}, "name": "x"});
        assert_eq!(plain.fields(), named(&["a", "b"]));
        let partial = doc! {"v": 2, "key": {"a": 1}, "name": "x", "partialFilterExpression": {"d": {"$gt": 1}}};
        assert_eq!(index(partial).fields(), named(&["a", "d"]));
        assert_eq!(index(doc! {"v": 2, "key": {"$**": 1}, "name": "x"}).fields(), None);
        let text = doc! {"v": 2, "key": {"_fts": "text", "_ftsx": 1}, "name": "x", "weights": {"a": 1}};
        assert_eq!(index(text).fields(), None);
    }
}
