//! Checks that a filter has no reserved field names, and no constructs whose meaning cannot be
//! kept.

use bson::{Bson, Document};

use super::{ids::is_conjunction, is_logical, schema, script};
use crate::{
    error::Error,
    expression::{check_expression, path, sees_whole_document},
    near::{Near, is_near_operator, near_condition},
};

const AT: &str = " in a filter";

/// Refuses a filter that names a reserved field of the document or holds a construct that is not
/// supported.
///
/// Operators that the server does not know either are left to the server.
///
/// # Errors
/// [`Error::Reserved`]; [`Error::Invalid`] (2) for a `$where` that is not an expression yet, (15)
/// when it nests deeper than 200 levels, and (2, 34413) for `$near`, `$nearSphere`, `$geoNear` that
/// are malformed or stand anywhere but at the top level or in a top-level `$and`.
pub fn check_filter(filter: &Document) -> Result<(), Error> {
    check(filter, true, 0)
}

/// `all_hold`: nothing but conjunctions is above.
fn check(filter: &Document, all_hold: bool, depth: usize) -> Result<(), Error> {
    let depth = path::deeper(depth)?;
    filter.iter().try_for_each(|(key, value)| check_entry(key, value, all_hold, depth))
}

fn check_entry(key: &str, value: &Bson, all_hold: bool, depth: usize) -> Result<(), Error> {
    match key {
        key if is_logical(key) => {
            let all_hold = all_hold && value.as_array().is_some_and(|operands| is_conjunction(key, operands));
            operands(value).try_for_each(|operand| check(operand, all_hold, depth))
        }
        "$expr" => check_expression(value),
        "$jsonSchema" => schema::check(value, depth),
        "$where" => Err(script::refuse(value)),
        key if key.starts_with('$') => Ok(()),
        field => {
            path::refuse_reserved(field, AT)?;
            match near_condition(value) {
                Some(operators) if all_hold => Near::parse_near(field, operators).map(drop),
                _ => check_condition(value, depth),
            }
        }
    }
}

/// The filters below `$and`, `$or`, `$nor`; anything else there is the server's to refuse.
fn operands(value: &Bson) -> impl Iterator<Item = &Document> {
    value.as_array().into_iter().flatten().filter_map(Bson::as_document)
}

fn check_condition(condition: &Bson, depth: usize) -> Result<(), Error> {
    let depth = path::deeper(depth)?;
    let Bson::Document(operators) = condition else { return Ok(()) };
    for (operator, argument) in operators {
        match operator.as_str() {
            operator if is_near_operator(operator) => {
                return Err(Error::Invalid { code: 2, message: "geo $near must be top-level expr".to_owned() });
            }
            "$not" | "$elemMatch" => check_condition(argument, depth)?,
            _ => {}
        }
    }
    Ok(())
}

/// Returns true if the filter has `$expr` anywhere (but for what was `$where`): the server allows
/// none in an upsert.
pub fn has_expression(filter: &Document) -> bool {
    has(filter, 0)
}

fn has(filter: &Document, depth: usize) -> bool {
    let Ok(depth) = path::deeper(depth) else { return false };
    filter.iter().any(|(key, value)| {
        key == "$expr" && !script::is_script(value) || is_logical(key) && operands(value).any(|f| has(f, depth))
    })
}

/// Returns true if the filter's answer for the *safe* version of a locked document could be
/// disturbed by the reserved fields beside it: it reads the whole document in `$expr`, or counts or
/// enumerates its fields in `$jsonSchema`.
///
/// Such a filter is only to be trusted on clean documents, or behind a stage that takes the
/// reserved fields away.
pub fn sees_lock_fields(filter: &Document) -> bool {
    sees(filter, 0)
}

fn sees(filter: &Document, depth: usize) -> bool {
    let Ok(depth) = path::deeper(depth) else { return true };
    filter.iter().any(|(key, value)| match key.as_str() {
        // A script hides them from itself.
        "$expr" => sees_whole_document(value) && !script::is_script(value),
        "$jsonSchema" => true,
        key if is_logical(key) => operands(value).any(|operand| sees(operand, depth)),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn what_is_no_script_is_refused_with_the_servers_code() {
        let code = |value: Bson| match check_filter(&script::with_scripts_as_expressions(doc! {"$where": value})) {
            Err(Error::Invalid { code, .. }) => code,
            other => panic!("{other:?}"),
        };
        let scoped = bson::JavaScriptCodeWithScope { code: "1".to_owned(), scope: doc! {} };
        assert_eq!(code(Bson::JavaScriptCodeWithScope(scoped)), 4_649_201);
        assert_eq!((code(5.into()), code("".into())), (2, 2));
    }
}
