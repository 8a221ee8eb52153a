//! Mentions of the whole document in an expression: finding them, and replacing them.

use bson::{Bson, Document, doc};

use super::path;
use crate::error::Error;

/// Returns true if the key is the name of an operator.
pub(crate) fn is_operator(key: &str) -> bool {
    key.starts_with('$')
}

/// Returns true if what stands under this operator is a value, not an expression.
pub(crate) fn is_quoted(key: &str) -> bool {
    matches!(key, "$literal" | "$const")
}

/// The expression with each string (outside `$literal`) replaced by what `map` answers, if it
/// answers.
pub(super) fn map_strings(expr: &Bson, map: &dyn Fn(&str) -> Option<Bson>, depth: usize) -> Result<Bson, Error> {
    let depth = path::deeper(depth)?;
    Ok(match expr {
        Bson::String(text) => map(text).unwrap_or_else(|| expr.clone()),
        Bson::Array(items) => {
            Bson::Array(items.iter().map(|item| map_strings(item, map, depth)).collect::<Result<_, _>>()?)
        }
        Bson::Document(fields) => Bson::Document(map_fields(fields, map, depth)?),
        other => other.clone(),
    })
}

fn map_fields(fields: &Document, map: &dyn Fn(&str) -> Option<Bson>, depth: usize) -> Result<Document, Error> {
    let mapped = fields.iter().map(|(key, value)| {
        let value = if is_quoted(key) { value.clone() } else { map_strings(value, map, depth)? };
        Ok((key.clone(), value))
    });
    mapped.collect()
}

/// Returns true if the expression reads the document as a whole (`$$ROOT`, `$$CURRENT`), so that on
/// a stored document it would see the reserved fields beside the user's. Deeper than 200 levels the
/// answer is true.
pub fn sees_whole_document(expr: &Bson) -> bool {
    sees_whole(expr, 0)
}

fn sees_whole(expr: &Bson, depth: usize) -> bool {
    let Ok(depth) = path::deeper(depth) else { return true };
    match expr {
        Bson::String(text) => is_whole(text),
        Bson::Array(items) => items.iter().any(|item| sees_whole(item, depth)),
        Bson::Document(fields) => fields.iter().any(|(key, value)| !is_quoted(key) && sees_whole(value, depth)),
        _ => false,
    }
}

fn is_whole(text: &str) -> bool {
    matches!(text, "$$ROOT" | "$$CURRENT")
}

/// The expression with the whole document replaced by the document without one field.
///
/// # Errors
/// [`Error::Unsupported`] when the expression binds `CURRENT` itself and reads it as a whole.
pub(crate) fn hide_field_of_root(expr: &Bson, field: &'static str) -> Result<Bson, Error> {
    if !sees_whole_document(expr) {
        return Ok(expr.clone());
    }
    if binds_current(expr, 0)? {
        return Err(path::unsupported("CURRENT", "in an update pipeline", "a variable of this name is already bound"));
    }
    let hidden = |text: &str| {
        is_whole(text).then(|| Bson::Document(doc! { "$unsetField": { "field": field, "input": "$$ROOT" } }))
    };
    map_strings(expr, &hidden, 0)
}

/// Returns true if a `$let` or an `as` gives `CURRENT` another meaning.
fn binds_current(expr: &Bson, depth: usize) -> Result<bool, Error> {
    let depth = path::deeper(depth)?;
    let mut children: Box<dyn Iterator<Item = &Bson>> = match expr {
        Bson::Array(items) => Box::new(items.iter()),
        Bson::Document(fields) if names_current(fields) => return Ok(true),
        Bson::Document(fields) => Box::new(fields.iter().filter(|(key, _)| !is_quoted(key)).map(|(_, value)| value)),
        _ => return Ok(false),
    };
    children.try_fold(false, |found, child| Ok(found || binds_current(child, depth)?))
}

fn names_current(fields: &Document) -> bool {
    let in_vars = fields.get_document("vars").is_ok_and(|vars| vars.contains_key("CURRENT"));
    in_vars || fields.get_str("as").is_ok_and(|name| name == "CURRENT")
}
