//! Lock, copy and change in one statement, for the updates where a pipeline provably does what the operators do.
//!
//! Taken: `$set` and `$inc` of at most 16 top-level fields of a *clean* document. The guard keeps to documents where
//!
//! - each incremented field is a number other than a decimal with less than 53 bits, and no array: there `$add` and
//!   `$inc` give the same value and type, and the value always changes;
//! - something changes, so that the document counts as modified: any `$inc` does, else a field must differ from its new value.
//!
//! A document that fails the guard is not refused: the caller takes the way of two statements.

use bson::{Bson, Document, doc};

use super::{Update, check};
use crate::{
    expression::{literal, path},
    names::{UNSAFE, WRITER},
};

const MAX_FIELDS: usize = 16;
/// Integers below this are exact as doubles.
const EXACT: i64 = 1 << 53;

/// The one-statement form of an update.
#[derive(Debug, Clone, PartialEq)]
pub struct Fused {
    /// Conditions on the clean document, beside the user's filter (join the two with `$and`).
    pub guard: Document,
    /// The `u` of the statement.
    pub pipeline: Vec<Document>,
}

enum Change<'a> {
    Set(&'a Bson),
    Inc(&'a Bson),
}

/// The update as one statement that locks a clean document for `writer` with the change made in `_unsafe`, or `None` where
/// the operators must be sent as they are.
pub fn fuse(update: &Update, writer: &Bson) -> Option<Fused> {
    let Update::Operators(operators) = update else { return None };
    check::check_operators(operators).ok()?;
    let changes = changes(operators)?;
    let values: Document = changes.iter().map(|(field, change)| (field.to_string(), value(field, change))).collect();
    let set = doc! {
        UNSAFE: { "$mergeObjects": ["$$ROOT", values] },
        WRITER: literal(writer),
    };
    Some(Fused { guard: guard(&changes), pipeline: vec![doc! { "$set": set }] })
}

/// All changes in the order in which the server makes them: by name.
fn changes(operators: &Document) -> Option<Vec<(&str, Change<'_>)>> {
    let mut changes = Vec::new();
    for (operator, targets) in operators {
        for (field, value) in targets.as_document()? {
            changes.push((field.as_str(), change(operator, value)?));
        }
    }
    changes.sort_by_key(|(field, _)| *field);
    let twice = changes.windows(2).any(|pair| pair[0].0 == pair[1].0);
    let fits = (1..=MAX_FIELDS).contains(&changes.len()) && changes.iter().all(|(field, _)| is_plain_field(field));
    (fits && !twice).then_some(changes)
}

fn change<'a>(operator: &str, value: &'a Bson) -> Option<Change<'a>> {
    match operator {
        "$set" if is_plain_value(value, 0) => Some(Change::Set(value)),
        "$inc" if is_exact_step(value) => Some(Change::Inc(value)),
        _ => None,
    }
}

/// A field of the top level that is neither `_id` nor a number, which the server would order by value.
fn is_plain_field(field: &str) -> bool {
    let numeric = field.bytes().all(|byte| byte.is_ascii_digit());
    field != "_id" && !field.starts_with('$') && !field.contains(['.', '\0']) && !numeric
}

/// A value that no server version treats in its own way.
fn is_plain_value(value: &Bson, depth: usize) -> bool {
    let Ok(depth) = path::deeper(depth) else { return false };
    match value {
        Bson::Document(fields) => {
            fields.iter().all(|(key, value)| !key.starts_with('$') && is_plain_value(value, depth))
        }
        Bson::Array(items) => items.iter().all(|item| is_plain_value(item, depth)),
        Bson::Timestamp(at) => at.time != 0 || at.increment != 0,
        Bson::Undefined | Bson::DbPointer(_) | Bson::Symbol(_) => false,
        Bson::JavaScriptCode(_) | Bson::JavaScriptCodeWithScope(_) => false,
        _ => true,
    }
}

fn is_exact_step(value: &Bson) -> bool {
    let step = match value {
        Bson::Int32(step) => i64::from(*step),
        Bson::Int64(step) => *step,
        _ => return false,
    };
    step != 0 && -EXACT < step && step < EXACT
}

fn value(field: &str, change: &Change<'_>) -> Bson {
    match change {
        Change::Set(value) => literal(value).into(),
        Change::Inc(step) => doc! { "$add": [format!("${field}"), (*step).clone()] }.into(),
    }
}

fn guard(changes: &[(&str, Change<'_>)]) -> Document {
    let incremented = changes.iter().filter(|(_, change)| matches!(change, Change::Inc(_)));
    let numbers: Document = incremented.map(|(field, _)| (field.to_string(), exact_number())).collect();
    if numbers.is_empty() {
        doc! { "$expr": { "$or": differences(changes) } }
    } else {
        numbers
    }
}

fn exact_number() -> Bson {
    doc! { "$gt": -EXACT, "$lt": EXACT, "$not": { "$type": ["array", "decimal"] } }.into()
}

fn differences(changes: &[(&str, Change<'_>)]) -> Vec<Bson> {
    let differs = |field: &str, value: &Bson| doc! { "$ne": [format!("${field}"), literal(value)] }.into();
    let sets = changes.iter().filter_map(|(field, change)| match change {
        Change::Set(value) => Some(differs(field, value)),
        Change::Inc(_) => None,
    });
    sets.collect()
}
