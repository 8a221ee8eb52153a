//! Lock, copy and change in one statement, for the updates where a pipeline provably does what the
//! operators do.
//!
//! Taken: `$set`, `$inc`, and `$currentDate` with a date, of at most 16 top-level fields of a
//! *clean* document, where
//!
//! - each incremented field is missing, or a number other than a decimal with less than 53 bits,
//!   and no array: there `$add` (to zero, where it is missing) and `$inc` give the same value and
//!   type, and the value always changes;
//! - something changes, so that the document counts as modified: any `$inc` but one by zero does,
//!   else a field must differ from its new value.
//!
//! These conditions stand in the pipeline and not in the query: a query that says nothing but the
//! `_id` takes the server's shortest way (measured: a fifth of the statement's cost). A document
//! that fails them comes out as it went in, so the server counts it as matched and not as modified;
//! nothing is refused: the caller takes the way of two statements.
//!
//! The caller's own demands besides the `_id` stand in the pipeline for the same reason, where they
//! are no more than fields and their values ([`crate::filter::plain_demands`]). A document may
//! match the filter and fail them: then, too, the caller takes the way of two statements.
//!
//! A document that one of some transactions known to be committed has left locked can be *taken
//! over*: its unsafe version stands for the clean document, and becomes the safe version in the
//! same statement. A document that such a transaction has removed is not taken over.

use bson::{Bson, Document, doc};

use super::{Update, check};
use crate::{
    expression::{
        has_exactly, literal,
        path::{self, is_plain_field},
    },
    filter::Demand,
    names::{INSERT, READERS, REMOVE, SLOT, UNSAFE, WRITER},
    statement::held_by,
};

const MAX_FIELDS: usize = 16;
/// Limit, in bytes, of values that stand twice in the statement, which has to fit into a command.
/// Updates with larger values are sent as operators, where each stands once.
const MAX_BYTES: usize = 1024 * 1024;
/// Integers below this are exact as doubles.
const EXACT: i64 = 1 << 53;

enum Change<'a> {
    Set(&'a Bson),
    Inc(&'a Bson),
    /// The server's time when it runs the command.
    Now,
}

/// The time of the command in a pipeline, to the millisecond as in a date.
const NOW: &str = "$$NOW";

impl Change<'_> {
    /// Whether it changes the field whatever its value was.
    fn is_modifying(&self) -> bool {
        matches!(self, Self::Inc(step) if !matches!(step, Bson::Int32(0) | Bson::Int64(0)))
    }
}

/// The update as the `u` of one statement that locks a clean document, or one that one of `over`
/// has left, for `writer` with the change made in `_unsafe`, or `None` where the operators must be
/// sent as they are. The lock is taken if and only if the document was modified. All of `over` are
/// committed, durably. The document has all of the values that `demands` names, and fulfils the
/// conditions `as_read` ([`crate::filter::exact_conditions`]).
pub fn fuse(
    update: &Update,
    writer: &Bson,
    over: &[Bson],
    demands: &[Demand<'_>],
    as_read: &[Bson],
) -> Option<Vec<Document>> {
    let Update::Operators(operators) = update else { return None };
    check::check_operators(operators).ok()?;
    let changes = changes(operators)?;
    let values: Document = changes.iter().map(|(field, change)| (field.to_string(), value(field, change))).collect();
    let demanded = demands.iter().map(|(field, value)| doc! { "$eq": [format!("${field}"), literal(value)] }.into());
    let conditions = conditions(&changes).into_iter().chain(demanded).chain(as_read.iter().cloned()).collect();
    Some(vec![lock_if(conditions, values, writer, over)])
}

/// As [`fuse`], without a change: locks a clean document, or one that one of `over` has left, for
/// `writer`. The document is modified if and only if it was locked.
pub fn fuse_lock(writer: &Bson, over: &[Bson]) -> Vec<Document> {
    vec![lock_if(vec![is_clean()], Document::new(), writer, over)]
}

/// As [`fuse`], for a removal, and of a clean document only.
pub fn fuse_remove(writer: &Bson) -> Vec<Document> {
    let locked = doc! { "$mergeObjects": ["$$ROOT", { WRITER: literal(writer), REMOVE: true }] };
    vec![doc! { "$replaceWith": { "$cond": [is_clean(), locked, "$$ROOT"] } }]
}

/// The stage that locks the document under these conditions and leaves it as it is otherwise. Paths
/// in the conditions and values start at the version that is taken for the clean document.
fn lock_if(conditions: Vec<Bson>, values: Document, writer: &Bson, over: &[Bson]) -> Document {
    let clean = if over.is_empty() { "$$ROOT" } else { "$$CURRENT" };
    let added = doc! {
        UNSAFE: { "$mergeObjects": [clean, values] },
        WRITER: literal(writer),
    };
    let locked = doc! { "$mergeObjects": [clean, added] };
    let outcome = doc! { "$cond": [{ "$and": conditions }, locked, "$$ROOT"] };
    match over {
        [] => doc! { "$replaceWith": outcome },
        over => doc! { "$replaceWith": { "$let": { "vars": { "CURRENT": left_by(over) }, "in": outcome } } },
    }
}

/// The version that is changed: the unsafe one if one of these transactions holds the document and
/// has not removed it, otherwise the document itself.
fn left_by(over: &[Bson]) -> Document {
    doc! { "$cond": [held_by(over), format!("${UNSAFE}"), "$$ROOT"] }
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
    let may_modify = changes.iter().any(|(_, change)| !matches!(change, Change::Inc(_)) || change.is_modifying());
    let bytes: usize = changes.iter().map(|(_, change)| bytes_of(change)).sum();
    (fits && !twice && may_modify && bytes <= MAX_BYTES).then_some(changes)
}

fn change<'a>(operator: &str, value: &'a Bson) -> Option<Change<'a>> {
    match operator {
        "$set" if is_plain_value(value, 0) => Some(Change::Set(value)),
        "$inc" if is_exact_step(value) => Some(Change::Inc(value)),
        "$currentDate" if is_date(value) => Some(Change::Now),
        _ => None,
    }
}

/// Whether the argument of `$currentDate` asks for a date, and not for a timestamp.
fn is_date(value: &Bson) -> bool {
    match value {
        Bson::Boolean(_) => true,
        Bson::Document(of) => of.len() == 1 && of.get_str("$type").is_ok_and(|kind| kind == "date"),
        _ => false,
    }
}

/// Whether all server versions treat the value alike.
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

/// Size of the new value, in bytes, about.
fn bytes_of(change: &Change<'_>) -> usize {
    fn size(value: &Bson) -> usize {
        let inner = match value {
            Bson::String(text) => text.len(),
            Bson::Binary(binary) => binary.bytes.len(),
            Bson::Document(fields) => fields.iter().map(|(name, value)| name.len() + size(value)).sum(),
            Bson::Array(items) => items.iter().map(size).sum(),
            _ => 0,
        };
        inner + size_of::<u64>()
    }
    match change {
        Change::Set(value) => size(value),
        Change::Inc(_) | Change::Now => 0,
    }
}

fn is_exact_step(value: &Bson) -> bool {
    let step = match value {
        Bson::Int32(step) => i64::from(*step),
        Bson::Int64(step) => *step,
        _ => return false,
    };
    -EXACT < step && step < EXACT
}

fn value(field: &str, change: &Change<'_>) -> Bson {
    match change {
        Change::Set(value) => literal(value).into(),
        Change::Inc(step) => doc! { "$add": [number_in(field), (*step).clone()] }.into(),
        Change::Now => NOW.into(),
    }
}

fn conditions(changes: &[(&str, Change<'_>)]) -> Vec<Bson> {
    let mut all = vec![is_clean()];
    let incremented = changes.iter().filter(|(_, change)| matches!(change, Change::Inc(_)));
    all.extend(incremented.flat_map(|(field, _)| is_exact_number(field)));
    if !changes.iter().any(|(_, change)| change.is_modifying()) {
        all.push(doc! { "$or": differences(changes) }.into());
    }
    all
}

/// The condition of a clean document: no lock, and no other metadata, which would belong to no
/// transaction.
fn is_clean() -> Bson {
    has_exactly(&[WRITER, READERS, INSERT, REMOVE, UNSAFE, SLOT].map(|field| (field, None)))
}

/// The field as the first operand of `$add`: a missing field counts as zero, of the smallest type.
fn number_in(field: &str) -> Document {
    doc! { "$ifNull": [format!("${field}"), 0] }
}

fn is_exact_number(field: &str) -> [Bson; 3] {
    let number = number_in(field);
    [
        doc! { "$in": [{ "$type": format!("${field}") }, ["int", "long", "double", "missing"]] }.into(),
        doc! { "$gt": [number.clone(), -EXACT] }.into(),
        doc! { "$lt": [number, EXACT] }.into(),
    ]
}

fn differences(changes: &[(&str, Change<'_>)]) -> Vec<Bson> {
    let differs = |field: &str, value: Bson| doc! { "$ne": [format!("${field}"), value] }.into();
    let sets = changes.iter().filter_map(|(field, change)| match change {
        Change::Set(value) => Some(differs(field, literal(value).into())),
        Change::Now => Some(differs(field, NOW.into())),
        Change::Inc(_) => None,
    });
    sets.collect()
}
