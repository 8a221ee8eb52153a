//! Update operators: each path gets the prefix `_unsafe.`; values, modifiers and array filters are
//! relative to it and stay.
//!
//! Two kinds of path stay at the top level, so that the server's own error comes back and nothing
//! is written: `_id` (66, or a no-op), and positional first components (2). `check` has refused
//! what would create a field such as `$x`.

use bson::{Bson, Document};

use crate::expression::path;

/// The operators rewritten for the unsafe version.
pub(super) fn rewrite(operators: &Document) -> Document {
    operators.iter().map(|(operator, targets)| (operator.clone(), rewrite_targets(operator, targets))).collect()
}

fn rewrite_targets(operator: &str, targets: &Bson) -> Bson {
    let Bson::Document(targets) = targets else { return targets.clone() };
    let rewritten = targets.iter().map(|(path, value)| {
        let value = if operator == "$rename" { rewrite_rename(value) } else { value.clone() };
        (target(path), value)
    });
    Bson::Document(rewritten.collect())
}

fn rewrite_rename(to: &Bson) -> Bson {
    match to {
        Bson::String(to) => Bson::String(target(to)),
        other => other.clone(),
    }
}

fn target(path: &str) -> String {
    let head = path::head(path);
    if head == "_id" || is_positional(head) { path.to_owned() } else { path::prefixed(path) }
}

/// Returns true if a component of a path is positional: `$`, `$[]` or `$[name]`.
pub(super) fn is_positional(component: &str) -> bool {
    component == "$" || component.starts_with("$[")
}
