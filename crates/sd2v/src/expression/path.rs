//! Dotted paths: their first component, the prefix, reserved names, and the bound on nesting.

use bson::Bson;

use crate::{
    error::Error,
    names::{RESERVED, UNSAFE},
};

/// Depth to which the rewriting follows a value; MongoDB itself stops at 180.
const MAX_DEPTH: usize = 200;

/// One level further down, or the server's error for a value that nests too deep.
pub(crate) fn deeper(depth: usize) -> Result<usize, Error> {
    if depth < MAX_DEPTH {
        return Ok(depth + 1);
    }
    Err(Error::Invalid { code: 15, message: format!("exceeded the maximum nesting depth of {MAX_DEPTH}") })
}

/// The first component: `a` of `a.b.c`.
pub(crate) fn head(path: &str) -> &str {
    path.split_once('.').map_or(path, |(head, _)| head)
}

/// The path within the unsafe version.
pub(crate) fn prefixed(path: &str) -> String {
    format!("{UNSAFE}.{path}")
}

/// Refuses a path whose first component is reserved. `at` is empty or starts with a space.
pub(crate) fn refuse_reserved(path: &str, at: &str) -> Result<(), Error> {
    let field = head(path);
    if RESERVED.contains(&field) {
        return Err(Error::Reserved { field: field.to_owned(), at: at.to_owned() });
    }
    Ok(())
}

/// The rest of `$$NAME` or `$$NAME.path` behind the variable's name: empty, or the path with its
/// leading dot.
pub(crate) fn after_variable<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let rest = text.strip_prefix("$$")?.strip_prefix(name)?;
    (rest.is_empty() || rest.starts_with('.')).then_some(rest)
}

/// Refuses a construct by name.
pub(crate) fn unsupported(construct: &str, context: &'static str, reason: &'static str) -> Error {
    Error::Unsupported { construct: construct.to_owned(), context, reason }
}

/// `true` for numbers and booleans, whatever their value.
pub(crate) fn is_number_or_bool(value: &Bson) -> bool {
    matches!(value, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) | Bson::Boolean(_))
}

/// A field of the top level that is neither `_id` nor a number, which the server would order by
/// value.
pub(crate) fn is_plain_field(field: &str) -> bool {
    let numeric = field.bytes().all(|byte| byte.is_ascii_digit());
    field != "_id" && !field.starts_with('$') && !field.contains(['.', '\0']) && !numeric
}
