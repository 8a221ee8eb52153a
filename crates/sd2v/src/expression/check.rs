//! Checks that an expression mentions no reserved field of the document that it is evaluated on.
//!
//! A reserved name deeper down (`"$a._unsafe"`) is an ordinary field. Names that are computed while
//! the server evaluates the expression cannot be seen here.

use bson::{Bson, Document};

use super::{is_quoted, path};
use crate::error::Error;

const AT: &str = " in an expression";

/// Refuses an expression that names a reserved field of the document.
///
/// Looked at: `"$_unsafe.a"`, `"$$ROOT._xTxId"`, `"$$CURRENT._insert"`, and the field of
/// `$getField`, `$setField` and `$unsetField`; not inside `$literal`.
///
/// # Errors
/// [`Error::Reserved`]; [`Error::Invalid`] (15) when it nests deeper than 200 levels.
pub fn check_expression(expr: &Bson) -> Result<(), Error> {
    check(expr, 0)
}

fn check(expr: &Bson, depth: usize) -> Result<(), Error> {
    let depth = path::deeper(depth)?;
    match expr {
        Bson::String(text) => check_text(text),
        Bson::Array(items) => items.iter().try_for_each(|item| check(item, depth)),
        Bson::Document(fields) => check_fields(fields, depth),
        _ => Ok(()),
    }
}

fn check_fields(fields: &Document, depth: usize) -> Result<(), Error> {
    for (key, value) in fields {
        if is_quoted(key) {
            continue;
        }
        if matches!(key.as_str(), "$getField" | "$setField" | "$unsetField") {
            check_field_argument(value)?;
        }
        check(value, depth)?;
    }
    Ok(())
}

fn check_text(text: &str) -> Result<(), Error> {
    let of_document = ["ROOT", "CURRENT"].iter().find_map(|name| path::after_variable(text, name));
    match of_document {
        Some(rest) => path::refuse_reserved(rest.trim_start_matches('.'), AT),
        None if text.starts_with("$$") => Ok(()),
        None => text.strip_prefix('$').map_or(Ok(()), |rest| path::refuse_reserved(rest, AT)),
    }
}

/// The argument of `$getField` and its kin: the name, or a document with the name under `field`;
/// each may be quoted.
fn check_field_argument(argument: &Bson) -> Result<(), Error> {
    let named = argument.as_document().and_then(|fields| fields.get("field")).unwrap_or(argument);
    let quoted = named.as_document().and_then(|fields| fields.get("$literal").or_else(|| fields.get("$const")));
    match quoted.unwrap_or(named) {
        // A name, not a path: a dot in it is part of the name.
        Bson::String(name) if !name.contains('.') => path::refuse_reserved(name, AT),
        _ => Ok(()),
    }
}
