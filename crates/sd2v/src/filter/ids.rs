//! Conditions of a filter on `_id`: the values that it allows, and the value that an upsert gives
//! to the document it inserts.
//!
//! Equality here is the server's without a collation: `1` also matches `1.0`. Under a collation an
//! equality with a string matches other strings too, so queries with a collation are not analysed
//! here.

use bson::{Bson, Document};

use super::is_logical;
use crate::expression::path::{self, is_plain_field};

/// The longest `$in` that counts as a list of ids.
const MAX_PINNED: usize = 1000;

/// The ids that bound the filter's answer: no document with another `_id` can match. `None` when
/// there is no bound.
///
/// Found in `_id: value`, `_id: {$eq: value}` and `_id: {$in: [values]}` (at most 1000) at the top
/// level or within a top-level `$and`. Patterns, arrays, `null`, undefined and documents with
/// operators are no ids.
pub fn pinned_ids(filter: &Document) -> Option<Vec<Bson>> {
    if let Some(ids) = filter.get("_id").and_then(pin) {
        return Some(ids);
    }
    let operands = filter.get_array("$and").ok()?;
    operands.iter().filter_map(Bson::as_document).find_map(|operand| pin(operand.get("_id")?))
}

/// Returns true if the filter is a list of ids and nothing else.
pub fn is_only_id(filter: &Document) -> bool {
    filter.len() == 1 && filter.get("_id").and_then(pin).is_some()
}

/// The conditions besides the list of ids, possibly none; `None` unless the list stands under a
/// top-level `_id`.
pub fn without_id(filter: &Document) -> Option<Document> {
    pin(filter.get("_id")?)?;
    Some(filter.iter().filter(|(key, _)| *key != "_id").map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn pin(condition: &Bson) -> Option<Vec<Bson>> {
    let Bson::Document(operators) = condition else { return one(condition) };
    match operators.iter().next() {
        Some((operator, argument)) if operators.len() == 1 => match (operator.as_str(), argument) {
            ("$eq", value) => one(value),
            ("$in", Bson::Array(values)) => several(values),
            _ => one(condition),
        },
        _ => one(condition),
    }
}

fn one(value: &Bson) -> Option<Vec<Bson>> {
    is_id(value).then(|| vec![value.clone()])
}

fn several(values: &[Bson]) -> Option<Vec<Bson>> {
    (values.len() <= MAX_PINNED && values.iter().all(is_id)).then(|| values.to_vec())
}

fn is_id(value: &Bson) -> bool {
    match value {
        Bson::Document(fields) => !fields.keys().any(|key| key.starts_with('$')),
        Bson::RegularExpression(_) | Bson::Array(_) | Bson::Null | Bson::Undefined => false,
        _ => true,
    }
}

/// The `_id` that an upsert takes from its filter: a value, `{$eq: v}`, `{$in: [v]}` or `{$all:
/// [v]}`, at the top level, in `$and`, or in an `$or` of one.
pub fn equality_id(filter: &Document) -> Option<Bson> {
    equality_ids(filter).into_iter().next()
}

/// Values of all equalities on `_id`; the server refuses more than one.
pub(crate) fn equality_ids(filter: &Document) -> Vec<Bson> {
    equalities(filter, "_id")
}

/// The values that a field must equal, where the filter says so by the same forms.
pub(crate) fn equalities(filter: &Document, field: &str) -> Vec<Bson> {
    let mut found = Vec::new();
    collect_equalities(filter, field, &mut found, 0);
    found
}

/// Returns true if the filter demands this key and nothing else: for each of its fields one value,
/// which is this one.
pub fn demands_only(filter: &Document, key: &Document) -> bool {
    let is_demanded =
        |(field, value): (&String, &Bson)| matches!(&equalities(filter, field)[..], [one] if equal(one, value));
    !key.is_empty() && key.iter().all(is_demanded) && is_of_equalities(filter, key, 0)
}

/// A field of the top level, and the value that it is to have.
pub type Demand<'a> = (&'a str, &'a Bson);

/// The demands of the filter besides `_id`, if each is one value for one field, compared by an
/// expression as by the filter. An expression does not look for an equal element in an array, as a
/// filter does: a document that has all of these values matches the filter; one that matches may
/// not have them.
pub fn plain_demands(filter: &Document) -> Option<Vec<Demand<'_>>> {
    let mut demands = Vec::new();
    for (field, value) in filter {
        match field.as_str() {
            "_id" if pin(value).is_some_and(|ids| ids.len() == 1) => {}
            field if is_plain_field(field) && is_plain_scalar(value) => demands.push((field, value)),
            _ => return None,
        }
    }
    Some(demands)
}

/// Equal to the same values in filters and in expressions, arrays excepted.
fn is_plain_scalar(value: &Bson) -> bool {
    match value {
        Bson::Double(number) => !number.is_nan(),
        Bson::Int32(_)
        | Bson::Int64(_)
        | Bson::String(_)
        | Bson::Boolean(_)
        | Bson::ObjectId(_)
        | Bson::DateTime(_) => true,
        _ => false,
    }
}

/// Equalities of these fields alone, and conjunctions of such.
fn is_of_equalities(filter: &Document, fields: &Document, depth: usize) -> bool {
    let Ok(depth) = path::deeper(depth) else { return false };
    filter.iter().all(|(key, value)| match value {
        Bson::Array(operands) if is_conjunction(key, operands) => {
            operands.iter().all(|one| one.as_document().is_some_and(|one| is_of_equalities(one, fields, depth)))
        }
        Bson::Document(operators) if operators.len() > 1 && equality(value).as_ref() != Some(value) => false,
        value => fields.contains_key(key) && equality(value).is_some(),
    })
}

fn collect_equalities(filter: &Document, field: &str, found: &mut Vec<Bson>, depth: usize) {
    let Ok(depth) = path::deeper(depth) else { return };
    for (key, value) in filter {
        match (key.as_str(), value) {
            (key, condition) if key == field => found.extend(equality(condition)),
            (key, Bson::Array(operands)) if is_conjunction(key, operands) => {
                operands.iter().filter_map(Bson::as_document).for_each(|f| collect_equalities(f, field, found, depth));
            }
            _ => {}
        }
    }
}

/// Returns true if all of the operands must hold: `$and`, or an `$or` of one.
pub(crate) fn is_conjunction(key: &str, operands: &[Bson]) -> bool {
    is_logical(key) && (key == "$and" || key == "$or" && operands.len() == 1)
}

fn equality(condition: &Bson) -> Option<Bson> {
    match condition {
        Bson::RegularExpression(_) | Bson::Undefined => None,
        Bson::Document(operators) if operators.keys().any(|key| key.starts_with('$')) && !is_reference(operators) => {
            operators.iter().find_map(|(operator, argument)| equality_operator(operator, argument))
        }
        value => Some(value.clone()),
    }
}

/// Returns true if the server takes it for a reference to a document, which is a value.
fn is_reference(value: &Document) -> bool {
    let is_text = |name| matches!(value.get(name), Some(Bson::String(_)));
    is_text("$ref") && value.contains_key("$id") && (!value.contains_key("$db") || is_text("$db"))
}

fn equality_operator(operator: &str, argument: &Bson) -> Option<Bson> {
    match (operator, argument) {
        ("$eq", value) => Some(value.clone()),
        ("$in" | "$all", Bson::Array(values)) => {
            let first = values.first().filter(|first| !matches!(first, Bson::RegularExpression(_)))?;
            values.iter().all(|value| equal(value, first)).then(|| first.clone())
        }
        _ => None,
    }
}

/// Equality of values as the server's: integers by value, whatever their type.
pub(crate) fn equal(left: &Bson, right: &Bson) -> bool {
    left == right || matches!((integer(left), integer(right)), (Some(left), Some(right)) if left == right)
}

/// The integer value of a number, if it has one.
fn integer(value: &Bson) -> Option<i128> {
    let whole = |value: f64| (value.fract() == 0.0 && value.abs() < 1e18).then_some(value as i128);
    match value {
        Bson::Int32(value) => Some(i128::from(*value)),
        Bson::Int64(value) => Some(i128::from(*value)),
        Bson::Double(value) => whole(*value),
        Bson::Decimal128(value) => value.to_string().parse().ok().and_then(whole),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn references_are_values() {
        let reference = doc! {"$ref": "c", "$id": 1};
        let value = Some(Bson::Document(reference.clone()));
        for filter in [
            doc! {"_id": reference.clone()},
            doc! {"_id": {"$eq": reference.clone()}},
            doc! {"$and": [{"_id": {"$in": [reference.clone()]}}]},
        ] {
            assert_eq!(equality_id(&filter), value, "{filter}");
        }
        for filter in [doc! {"_id": {"$ref": 1, "$id": 1}}, doc! {"_id": {"$id": 1}}] {
            assert_eq!(equality_id(&filter), None, "{filter}");
        }
    }

    #[test]
    fn only_equalities_of_just_these_fields_demand_a_key() {
        let key = doc! {"k": 1, "l": "x"};
        for filter in [
            doc! {"k": 1, "l": "x"},
            doc! {"l": {"$eq": "x"}, "k": 1.0},
            doc! {"$and": [{"k": {"$in": [1]}}, {"$and": [{"l": "x"}]}]},
        ] {
            assert!(demands_only(&filter, &key), "{filter}");
        }
        for filter in [
            doc! {},
            doc! {"k": 1},
            doc! {"k": 1, "l": "y"},
            doc! {"k": 1, "l": "x", "m": 2},
            doc! {"k": {"$gte": 1}, "l": "x"},
            doc! {"k": {"$eq": 1, "$lt": 5}, "l": "x"},
            doc! {"k": 1, "l": "x", "$or": [{"m": 1}, {"m": 2}]},
        ] {
            assert!(!demands_only(&filter, &key), "{filter}");
        }
        assert!(!demands_only(&doc! {}, &doc! {}));
    }
}
