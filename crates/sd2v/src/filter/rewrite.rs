//! Rewrites a filter into the same condition on the unsafe version: each field of the document gets
//! the prefix `_unsafe.`.
//!
//! A rewritten filter can match a document that has no unsafe version (`{a: null}` does); the
//! sender also demands that the write lock is present.

use bson::{Bson, Document};

use super::{check_filter, guard::only_of_unsafe, is_logical, schema};
use crate::{
    error::Error,
    expression::{path, rewrite_expression},
    near::near_condition,
};

/// The filter that matches the unsafe version where `filter` would match it as a document.
///
/// ```
/// use bson::doc;
/// use sd2v::{Error, filter::rewrite_filter};
///
/// let rewritten = rewrite_filter(&doc! {"balance": {"$lt": 0}, "$or": [{"state": "open"}, {"owner.name": "ann"}]})?;
/// assert_eq!(
///     rewritten,
///     doc! {"_unsafe.balance": {"$lt": 0}, "$or": [{"_unsafe.state": "open"}, {"_unsafe.owner.name": "ann"}]}
/// );
/// assert!(matches!(rewrite_filter(&doc! {"_xTxId": 1}), Err(Error::Reserved { .. })));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Those of [`check_filter`]; [`Error::Unsupported`] for an operator at the top level that is not
/// known here, and for what only an index answers: `$text` and orders by distance
/// ([`super::lock_condition`], [`super::weakened`]).
pub fn rewrite_filter(filter: &Document) -> Result<Document, Error> {
    check_filter(filter)?;
    rewrite(filter, 0)
}

fn rewrite(filter: &Document, depth: usize) -> Result<Document, Error> {
    let depth = path::deeper(depth)?;
    filter.iter().map(|(key, value)| rewrite_entry(key, value, depth)).collect()
}

fn rewrite_entry(key: &str, value: &Bson, depth: usize) -> Result<(String, Bson), Error> {
    let value = match key {
        key if is_logical(key) => rewrite_operands(value, depth)?,
        "$expr" => only_of_unsafe(rewrite_expression(value)?),
        "$jsonSchema" => schema::rewrite(value),
        "$comment" | "$sampleRate" | "$alwaysTrue" | "$alwaysFalse" => value.clone(),
        "$text" => return Err(path::unsupported(key, "here", "the text index covers the committed version only")),
        key if key.starts_with('$') => {
            return Err(path::unsupported(key, "in a filter", "it is not known how it reads the document"));
        }
        _ if near_condition(value).is_some() => {
            return Err(path::unsupported("an order by distance", "here", "it is an index's"));
        }
        field => return Ok((path::prefixed(field), value.clone())),
    };
    Ok((key.to_owned(), value))
}

fn rewrite_operands(value: &Bson, depth: usize) -> Result<Bson, Error> {
    let Bson::Array(operands) = value else { return Ok(value.clone()) };
    let rewritten = operands.iter().map(|operand| match operand {
        Bson::Document(filter) => rewrite(filter, depth).map(Bson::Document),
        other => Ok(other.clone()),
    });
    Ok(Bson::Array(rewritten.collect::<Result<_, _>>()?))
}
