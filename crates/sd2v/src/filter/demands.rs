//! Filters that only a document with fields of its own can match.

use bson::{Bson, Document};

use super::{equalities, is_conjunction};
use crate::expression::path;

/// Returns true if the filter demands a field besides `_id`, so that a document that has none
/// cannot match. `false` when that is not plain to see.
///
/// Seen are values, `$eq`, `$gt`, `$gte`, `$lt`, `$lte`, `$in` and `$exists: true` on a field, at
/// the top level or within `$and`. A null, a pattern, a document, an array, and the smallest and
/// the largest key demand nothing here: some of them match what is missing.
pub fn demands_a_field(filter: &Document) -> bool {
    demands(filter, 0)
}

fn demands(filter: &Document, depth: usize) -> bool {
    let Ok(depth) = path::deeper(depth) else { return false };
    filter.iter().any(|(key, value)| match value {
        Bson::Array(operands) if is_conjunction(key, operands) => {
            operands.iter().filter_map(Bson::as_document).any(|operand| demands(operand, depth))
        }
        _ if key.starts_with('$') || path::head(key) == "_id" => false,
        Bson::Document(operators) => operators.iter().any(|(operator, argument)| operator_demands(operator, argument)),
        value => is_present(value),
    })
}

fn operator_demands(operator: &str, argument: &Bson) -> bool {
    match (operator, argument) {
        ("$eq" | "$gt" | "$gte" | "$lt" | "$lte", value) => is_present(value),
        ("$in", Bson::Array(values)) => values.iter().all(is_present),
        ("$exists", flag) => *flag == Bson::Boolean(true),
        _ => false,
    }
}

/// The one value that the filter demands of each of these fields, which no document has that lacks
/// the field. `None`: there is a field of which it demands none.
pub(crate) fn demanded_values<'a>(filter: &Document, fields: impl Iterator<Item = &'a String>) -> Option<Document> {
    let value = |field: &'a String| {
        let value = equalities(filter, field).into_iter().find(is_present)?;
        Some((field.clone(), value))
    };
    fields.map(value).collect()
}

/// Highest number of values that the filter allows in this field, each of which no document has
/// that lacks the field. `None`: that is not plain to see.
pub(crate) fn allowed_values(filter: &Document, field: &str) -> Option<usize> {
    if equalities(filter, field).iter().any(is_present) {
        return Some(1);
    }
    match filter.get_document(field).ok()?.get("$in")? {
        Bson::Array(values) if values.iter().all(is_present) => Some(values.len()),
        _ => None,
    }
}

/// A value that no document has in a field that is missing, and that is no array and no document.
pub(crate) fn is_present(value: &Bson) -> bool {
    matches!(
        value,
        Bson::String(_)
            | Bson::Int32(_)
            | Bson::Int64(_)
            | Bson::Double(_)
            | Bson::Decimal128(_)
            | Bson::Boolean(_)
            | Bson::DateTime(_)
            | Bson::ObjectId(_)
            | Bson::Binary(_)
            | Bson::Timestamp(_)
    )
}

#[cfg(test)]
mod tests {
    use bson::{Regex, doc};

    use super::*;

    #[test]
    fn demands_a_field_where_a_value_must_be_there() {
        for demanding in [
            doc! {"a": 1},
            doc! {"_id": 1, "a.b": {"$gte": 1, "$lt": 5}},
            doc! {"a": {"$in": [1, "x"]}},
            doc! {"$and": [{"$or": [{"a": 1}, {"b": 1}]}, {"c": {"$exists": true}}]},
        ] {
            assert!(demands_a_field(&demanding), "{demanding}");
        }
    }

    #[test]
    fn demands_nothing_where_a_missing_field_could_match() {
        for lenient in [
            doc! {},
            doc! {"_id": 1, "_id.a": 2},
            doc! {"a": Bson::Null},
            doc! {"a": {"$ne": 1}},
            doc! {"a": {"$in": [1, Bson::Null]}},
            doc! {"a": {"$lte": Bson::Null}},
            doc! {"a": {"$gte": Bson::MinKey}},
            doc! {"a": {"$not": {"$gt": 1}}},
            doc! {"a": {"$exists": false}},
            doc! {"$or": [{"a": 1}, {"b": 1}]},
            doc! {"$nor": [{"a": 1}]},
            doc! {"a": Regex { pattern: "".try_into().unwrap(), options: "".try_into().unwrap() }},
            doc! {"$expr": {"$eq": ["$a", 1]}},
        ] {
            assert!(!demands_a_field(&lenient), "{lenient}");
        }
    }
}
