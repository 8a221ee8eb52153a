//! Expressions that are evaluated only where there is a version to evaluate them on.
//!
//! An expression can fail (`{$in: [1, "$t"]}` where `t` is missing), and a failure ends the whole
//! command. A document that only waits to be inserted has no fields of its own, and a clean one has
//! no unsafe version: there the answer is false, whatever the order in which the server looks at
//! the parts of a filter.
//!
//! Expressions that cannot fail stay as they are, so that they can be answered from an index.

use bson::{Bson, Document, doc};

use super::is_logical;
use crate::{
    expression::{is_quoted, path},
    names::{INSERT, UNSAFE},
};

/// Operators that answer for every argument.
const SURE: [&str; 14] = [
    "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$cmp", "$and", "$or", "$not", "$cond", "$ifNull", "$type", "$isArray",
];

/// The filter for safe versions: its expressions are not evaluated on documents that wait to be
/// inserted.
pub fn guard_filter(filter: &Document) -> Document {
    guard(filter, 0)
}

fn guard(filter: &Document, depth: usize) -> Document {
    let Ok(depth) = path::deeper(depth) else { return filter.clone() };
    let guarded = filter.iter().map(|(key, value)| {
        let value = match (key.as_str(), value) {
            ("$expr", expr) if can_fail(expr, 0) => only_if(INSERT, "missing", expr),
            (key, Bson::Array(operands)) if is_logical(key) => operands
                .iter()
                .map(|operand| match operand {
                    Bson::Document(filter) => Bson::Document(guard(filter, depth)),
                    other => other.clone(),
                })
                .collect::<Vec<Bson>>()
                .into(),
            _ => value.clone(),
        };
        (key.clone(), value)
    });
    guarded.collect()
}

/// An expression on unsafe versions, evaluated only where there is one.
pub(super) fn only_of_unsafe(rewritten: Bson) -> Bson {
    if can_fail(&rewritten, 0) { only_if(UNSAFE, "object", &rewritten) } else { rewritten }
}

fn only_if(field: &str, type_name: &str, expr: &Bson) -> Bson {
    doc! { "$cond": [{ "$eq": [{ "$type": format!("${field}") }, type_name] }, expr.clone(), false] }.into()
}

fn can_fail(expr: &Bson, depth: usize) -> bool {
    let Ok(depth) = path::deeper(depth) else { return true };
    match expr {
        Bson::Array(items) => items.iter().any(|item| can_fail(item, depth)),
        Bson::Document(fields) => fields.iter().any(|(key, value)| match key.as_str() {
            key if is_quoted(key) => false,
            "$let" => value.as_document().is_none_or(|parts| let_can_fail(parts, depth)),
            key => key.starts_with('$') && !SURE.contains(&key) || can_fail(value, depth),
        }),
        _ => false,
    }
}

fn let_can_fail(parts: &Document, depth: usize) -> bool {
    let vars = parts.get("vars").and_then(Bson::as_document);
    let in_vars = vars.is_none_or(|vars| vars.values().any(|value| can_fail(value, depth)));
    in_vars || parts.get("in").is_none_or(|body| can_fail(body, depth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guard_filter_leaves_what_cannot_fail() {
        for sure in [
            doc! { "a": 1, "$expr": { "$gt": ["$a", { "$literal": { "$size": 1 } }] } },
            doc! { "$expr": { "$let": { "vars": { "x": "$a" }, "in": { "$eq": ["$$x", 1] } } } },
            doc! { "$or": [{ "$expr": "$a" }, { "b": { "$size": 1 } }] },
        ] {
            assert_eq!(guard_filter(&sure), sure);
        }
    }

    #[test]
    fn guard_filter_asks_of_documents_that_are_there() {
        let risky = doc! { "$in": [1, "$t"] };
        let guarded = doc! { "$cond": [{ "$eq": [{ "$type": "$_insert" }, "missing"] }, risky.clone(), false] };
        assert_eq!(
            guard_filter(&doc! { "a": 1, "$or": [{ "$expr": risky }, { "b": 1 }] }),
            doc! { "a": 1, "$or": [{ "$expr": guarded }, { "b": 1 }] }
        );
    }
}
