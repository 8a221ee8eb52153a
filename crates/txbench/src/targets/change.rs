//! Update operators on a document in memory, for targets whose servers cannot apply them.
//!
//! `$set`, `$unset`, `$inc` and `$push` (with `$each`), on paths through documents and, by index,
//! through arrays.

use bson::{Bson, Document};

/// Distance behind an array's end at which an element may be set; the server has a limit too.
const PADDING: usize = 10_000;

/// The document after these operators.
///
/// # Errors
/// The operator or the path that cannot be applied, in words.
pub(super) fn apply(mut document: Document, update: &Document) -> Result<Document, String> {
    for (operator, fields) in update {
        let fields = fields.as_document().ok_or_else(|| format!("apply {operator} without fields"))?;
        for (path, value) in fields {
            if path == "_id" || path.starts_with("_id.") {
                return Err("change _id".to_owned());
            }
            let steps: Vec<&str> = path.split('.').collect();
            match operator.as_str() {
                "$set" => set(slot(&mut document, &steps)?, value.clone()),
                "$inc" => increment(slot(&mut document, &steps)?, value, path)?,
                "$push" => push(slot(&mut document, &steps)?, value, path)?,
                "$unset" => unset(&mut document, &steps),
                other => return Err(format!("apply the update operator {other}")),
            }
        }
    }
    Ok(document)
}

/// The place at a path; what is missing on the way is made. A new place holds nothing (`Undefined`)
/// until it is filled.
fn slot<'a>(document: &'a mut Document, steps: &[&str]) -> Result<&'a mut Bson, String> {
    let (first, rest) = steps.split_first().ok_or("change a field without a name")?;
    let mut place = document.entry((*first).to_owned()).or_insert(Bson::Undefined);
    for step in rest {
        if matches!(place, Bson::Undefined) {
            *place = Bson::Document(Document::new());
        }
        place = match place {
            Bson::Document(inner) => inner.entry((*step).to_owned()).or_insert(Bson::Undefined),
            Bson::Array(values) => element(values, step)?,
            _ => return Err(format!("reach {} through a value that is no document", steps.join("."))),
        };
    }
    Ok(place)
}

fn element<'a>(values: &'a mut Vec<Bson>, step: &str) -> Result<&'a mut Bson, String> {
    let index: usize = step.parse().map_err(|_| format!("reach the field {step} of an array"))?;
    if index > values.len() + PADDING {
        return Err(format!("set element {index} of an array of {}", values.len()));
    }
    while values.len() < index {
        values.push(Bson::Null);
    }
    if values.len() == index {
        values.push(Bson::Undefined);
    }
    Ok(&mut values[index])
}

fn set(place: &mut Bson, value: Bson) {
    *place = value;
}

fn increment(place: &mut Bson, by: &Bson, path: &str) -> Result<(), String> {
    let sum = match (&*place, by) {
        (Bson::Undefined, by @ (Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_))) => Some(by.clone()),
        (Bson::Int32(a), Bson::Int32(b)) => {
            Some(a.checked_add(*b).map_or_else(|| Bson::Int64(i64::from(*a) + i64::from(*b)), Bson::Int32))
        }
        (Bson::Double(_), _) | (_, Bson::Double(_)) => float(place).zip(float(by)).map(|(a, b)| Bson::Double(a + b)),
        _ => whole(place).zip(whole(by)).and_then(|(a, b)| a.checked_add(b)).map(Bson::Int64),
    };
    *place = sum.ok_or_else(|| format!("add {by} to what is at {path}"))?;
    Ok(())
}

fn whole(value: &Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}

fn float(value: &Bson) -> Option<f64> {
    value.as_f64().or_else(|| whole(value).map(|n| n as f64))
}

fn push(place: &mut Bson, value: &Bson, path: &str) -> Result<(), String> {
    if matches!(place, Bson::Undefined) {
        *place = Bson::Array(Vec::new());
    }
    let Bson::Array(values) = place else { return Err(format!("push to {path}, which is no array")) };
    match value.as_document().filter(|modifiers| modifiers.keys().any(|key| key.starts_with('$'))) {
        None => values.push(value.clone()),
        Some(modifiers) => match (modifiers.len(), modifiers.get_array("$each")) {
            (1, Ok(each)) => values.extend(each.iter().cloned()),
            _ => return Err(format!("push with the modifiers {modifiers}")),
        },
    }
    Ok(())
}

/// Removes a field; an array's element becomes null, as the server does it.
fn unset(document: &mut Document, steps: &[&str]) {
    match steps {
        [] => {}
        [last] => drop(document.remove(*last)),
        [first, rest @ ..] => {
            if let Some(inner) = document.get_mut(*first) {
                unset_in(inner, rest);
            }
        }
    }
}

fn unset_in(value: &mut Bson, steps: &[&str]) {
    match (value, steps) {
        (Bson::Document(inner), steps) => unset(inner, steps),
        (Bson::Array(values), [step, rest @ ..]) => {
            let Some(element) = step.parse::<usize>().ok().and_then(|index| values.get_mut(index)) else { return };
            match rest {
                [] => *element = Bson::Null,
                rest => unset_in(element, rest),
            }
        }
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn fields_are_set_at_any_depth_and_made_where_they_are_missing() {
        let before = doc! {"_id": 1, "a": {"b": 1}, "list": [{"n": 1}, {"n": 2}]};
        let update = doc! {"$set": {"a.c.d": 5, "list.1.n": 7, "list.0": "x", "new": null, "list.3": 4}};
        let after = doc! {"_id": 1, "a": {"b": 1, "c": {"d": 5}}, "list": ["x", {"n": 7}, null, 4], "new": null};
        assert_eq!(apply(before, &update).unwrap(), after);
    }

    #[test]
    fn numbers_are_added_as_the_server_adds_them() {
        let before = doc! {"i": 1, "l": 1_i64, "d": 0.5, "max": i32::MAX, "list": [1, 2]};
        let update = doc! {"$inc": {"i": 2, "l": 2, "d": 1, "max": 1, "none": 3, "list.1": 5, "i2.x": 1.5}};
        let after = doc! {
            "i": 3, "l": 3_i64, "d": 1.5, "max": 2_147_483_648_i64, "list": [1, 7], "none": 3, "i2": {"x": 1.5}
        };
        assert_eq!(apply(before, &update).unwrap(), after);
        assert!(apply(doc! {"n": i64::MAX}, &doc! {"$inc": {"n": 1}}).is_err());
        assert!(apply(doc! {"n": "text"}, &doc! {"$inc": {"n": 1}}).is_err());
    }

    #[test]
    fn elements_are_pushed_one_by_one_or_several() {
        let update = doc! {"$push": {"a": 2, "b": {"x": 1}, "c.d": {"$each": [1, 2]}}};
        let after = doc! {"a": [1, 2], "b": [{"x": 1}], "c": {"d": [1, 2]}};
        assert_eq!(apply(doc! {"a": [1]}, &update).unwrap(), after);
        assert!(apply(doc! {"a": 1}, &doc! {"$push": {"a": 1}}).is_err());
        assert!(apply(doc! {}, &doc! {"$push": {"a": {"$each": [], "$slice": 3}}}).unwrap_err().contains("$slice"));
    }

    #[test]
    fn fields_are_removed_and_elements_become_null() {
        let before = doc! {"a": 1, "b": {"c": 1, "d": 2}, "list": [1, {"n": 1, "m": 2}]};
        let update = doc! {"$unset": {"a": "", "b.c": "", "list.0": "", "list.1.n": "", "x.y": "", "list.9": ""}};
        assert_eq!(apply(before, &update).unwrap(), doc! {"b": {"d": 2}, "list": [null, {"m": 2}]});
    }

    #[test]
    fn what_cannot_be_applied_is_named() {
        let refused = |update: Document| apply(doc! {"a": 1, "list": []}, &update).unwrap_err();
        assert!(refused(doc! {"$rename": {"a": "b"}}).contains("$rename"));
        assert!(refused(doc! {"$set": {"_id": 2}}).contains("_id"));
        assert!(refused(doc! {"$set": {"a.b": 2}}).contains("a.b"));
        assert!(refused(doc! {"$set": {"list.x": 2}}).contains('x'));
        assert!(refused(doc! {"$set": {"list.4000000000": 2}}).contains("4000000000"));
        assert!(refused(doc! {"a": 1}).contains('a'));
    }
}
