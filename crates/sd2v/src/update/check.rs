//! Refuses updates that name a reserved field of the document.
//!
//! Names that a pipeline computes (`$replaceWith` of a field, `$arrayToObject`) cannot be seen
//! here; [`crate::guard`] makes the server refuse them.

use bson::{Bson, Document};

use super::{CONTEXT, Update, operators::is_positional};
use crate::{
    error::Error,
    expression::{check_expression, path},
};

const AT: &str = " in an update";

/// Operators that only remove fields or elements: a field whose name begins with `$` is like any
/// other to them.
const REMOVING: [&str; 4] = ["$unset", "$pull", "$pullAll", "$pop"];

/// Refuses reserved names among the targets of operators, and on both sides of `$rename`; and
/// targets whose name begins with `$`, which the server refuses to create at the top level of a
/// document but not within `_unsafe`.
pub(super) fn check_operators(operators: &Document) -> Result<(), Error> {
    operators.iter().try_for_each(|(operator, targets)| match targets {
        Bson::Document(targets) => check_targets(operator, targets),
        _ => Ok(()),
    })
}

fn check_targets(operator: &str, targets: &Document) -> Result<(), Error> {
    check_reserved_targets(operator, targets)?;
    if REMOVING.contains(&operator) {
        return Ok(());
    }
    match operator {
        "$rename" => targets.values().filter_map(Bson::as_str).try_for_each(refuse_dollar),
        _ => targets.keys().try_for_each(|target| refuse_dollar(target)),
    }
}

fn check_reserved_targets(operator: &str, targets: &Document) -> Result<(), Error> {
    check_paths(targets)?;
    match operator {
        "$rename" => targets.values().filter_map(Bson::as_str).try_for_each(|to| path::refuse_reserved(to, AT)),
        _ => Ok(()),
    }
}

/// Refuses reserved names only, of an update that changes no unsafe version.
pub(super) fn check_reserved(update: &Update) -> Result<(), Error> {
    match update {
        Update::Operators(operators) => operators.iter().try_for_each(|(operator, targets)| match targets {
            Bson::Document(targets) => check_reserved_targets(operator, targets),
            _ => Ok(()),
        }),
        Update::Replacement(document) => check_names(document),
        Update::Pipeline(stages) => stages.iter().try_for_each(check_stage),
    }
}

fn refuse_dollar(target: &str) -> Result<(), Error> {
    let head = path::head(target);
    if !head.starts_with('$') || is_positional(head) {
        return Ok(());
    }
    if head != target {
        return Err(path::unsupported(target, CONTEXT, "its first component begins with $"));
    }
    Err(dollar_field(target))
}

fn dollar_field(name: &str) -> Error {
    let message = format!("the dollar ($) prefixed field {name:?} is not allowed at the top level of a document");
    Error::Invalid { code: 52, message }
}

/// Refuses reserved names, and names that begin with `$`, among the fields of a replacement.
pub(super) fn check_replacement(document: &Document) -> Result<(), Error> {
    check_names(document)?;
    document.keys().find(|name| name.starts_with('$')).map_or(Ok(()), |name| Err(dollar_field(name)))
}

fn check_paths(targets: &Document) -> Result<(), Error> {
    targets.keys().try_for_each(|target| path::refuse_reserved(target, AT))
}

/// Refuses reserved names among the fields of a document. A dot in a field's name is part of the
/// name.
fn check_names(document: &Document) -> Result<(), Error> {
    document.keys().filter(|name| !name.contains('.')).try_for_each(|name| path::refuse_reserved(name, AT))
}

/// Refuses reserved names among the targets and in the expressions of a pipeline's stage.
pub(super) fn check_stage(stage: &Document) -> Result<(), Error> {
    stage.iter().try_for_each(|(name, spec)| match (name.as_str(), spec) {
        ("$set" | "$addFields" | "$project", Bson::Document(targets)) => {
            check_paths(targets)?;
            check_expression(spec)
        }
        ("$unset", Bson::Array(paths)) => {
            paths.iter().filter_map(Bson::as_str).try_for_each(|path| path::refuse_reserved(path, AT))
        }
        ("$unset", Bson::String(path)) => path::refuse_reserved(path, AT),
        ("$replaceWith", root) => check_new_root(root, 0),
        ("$replaceRoot", Bson::Document(spec)) => spec.get("newRoot").map_or(Ok(()), |root| check_new_root(root, 0)),
        _ => Ok(()),
    })
}

/// The fields that a new root is seen to get: those of an object, and of the objects that
/// `$mergeObjects` merges.
fn check_new_root(root: &Bson, depth: usize) -> Result<(), Error> {
    check_expression(root)?;
    let depth = path::deeper(depth)?;
    let Bson::Document(fields) = root else { return Ok(()) };
    check_names(fields)?;
    for operator in ["$mergeObjects", "$literal", "$const"] {
        match fields.get(operator) {
            Some(Bson::Array(parts)) => parts.iter().try_for_each(|part| check_new_root(part, depth))?,
            Some(part @ Bson::Document(_)) => check_new_root(part, depth)?,
            _ => {}
        }
    }
    Ok(())
}
