//! `$jsonSchema`: a schema of the document becomes the schema of its field `_unsafe`, which must be
//! there.
//!
//! `_unsafe` is always an object, as a document is, so the schema needs no further type.

use bson::{Bson, Document, doc};

use crate::{error::Error, expression::path, names::UNSAFE};

const AT: &str = " in $jsonSchema";

/// Refuses reserved names where a schema names fields of the document.
pub(super) fn check(schema: &Bson, depth: usize) -> Result<(), Error> {
    let depth = path::deeper(depth)?;
    let Bson::Document(schema) = schema else { return Ok(()) };
    schema.iter().try_for_each(|(keyword, value)| check_keyword(keyword, value, depth))
}

fn check_keyword(keyword: &str, value: &Bson, depth: usize) -> Result<(), Error> {
    match (keyword, value) {
        ("properties", Bson::Document(fields)) => fields.keys().try_for_each(|name| refuse(name)),
        ("required", Bson::Array(names)) => names.iter().filter_map(Bson::as_str).try_for_each(refuse),
        ("dependencies", Bson::Document(fields)) => check_dependencies(fields, depth),
        ("allOf" | "anyOf" | "oneOf", Bson::Array(schemas)) => {
            schemas.iter().try_for_each(|schema| check(schema, depth))
        }
        ("not", schema) => check(schema, depth),
        _ => Ok(()),
    }
}

fn check_dependencies(fields: &Document, depth: usize) -> Result<(), Error> {
    for (name, needed) in fields {
        refuse(name)?;
        match needed {
            Bson::Array(names) => names.iter().filter_map(Bson::as_str).try_for_each(refuse)?,
            schema => check(schema, depth)?,
        }
    }
    Ok(())
}

/// A name in a schema is a whole name: a dot in it is part of it.
fn refuse(name: &str) -> Result<(), Error> {
    if name.contains('.') { Ok(()) } else { path::refuse_reserved(name, AT) }
}

/// The schema rewritten for the unsafe version. A value that is not a document stays, for the
/// server to refuse.
pub(super) fn rewrite(schema: &Bson) -> Bson {
    match schema {
        Bson::Document(schema) => {
            Bson::Document(doc! { "required": [UNSAFE], "properties": { UNSAFE: schema.clone() } })
        }
        other => other.clone(),
    }
}
