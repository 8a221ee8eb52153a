//! A collection's validator, made to judge the unsafe version where there is one.
//!
//! The application's condition holds for clean documents as before. Of a locked document the unsafe
//! version is judged, at the write: what it would be refused for when its transaction is finished
//! is refused then. A document that only waits to be removed is not judged. (A read lock beside the
//! application's fields may break a schema that allows no others: read locks are set and taken away
//! unjudged.)

mod explanation;

use bson::{Bson, Document, doc};

pub use self::explanation::explain;
use crate::{
    error::Error,
    filter::rewrite_filter,
    names::{REMOVE, WRITER},
};

/// The validator that is stored for one of the application: it holds for the visible version of
/// each document.
///
/// # Errors
/// [`Error::Unsupported`] for a condition that cannot be evaluated on unsafe versions.
pub fn wrap(validator: &Document) -> Result<Document, Error> {
    Ok(doc! {"$or": [
        {"$and": [validator.clone(), {WRITER: {"$exists": false}}]},
        {"$and": [rewrite_filter(validator)?, {WRITER: {"$exists": true}}]},
        {REMOVE: true},
    ]})
}

/// The application's validator in a stored one, if that has been wrapped.
pub fn unwrap(stored: &Document) -> Option<Document> {
    let branches = stored.get_array("$or").ok().filter(|branches| branches.len() == 3 && stored.len() == 1)?;
    let first = branches.first()?.as_document()?.get_array("$and").ok()?;
    let locks = first.get(1)?.as_document()?;
    let validator = first.first().and_then(Bson::as_document)?;
    (locks.contains_key(WRITER) && wrap(validator).as_ref() == Ok(stored)).then(|| validator.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwrap_gives_back_what_was_wrapped_and_nothing_else() {
        for validator in [
            doc! {"a": {"$type": "int"}},
            doc! {"$jsonSchema": {"required": ["a"], "additionalProperties": false}},
            doc! {"$expr": {"$gt": ["$a", "$b"]}, "$or": [{"a": 1}, {"b": 2}, {"c": 3}, {"d": 4}]},
        ] {
            assert_eq!(unwrap(&wrap(&validator).unwrap()), Some(validator.clone()));
            assert_eq!(unwrap(&validator), None);
        }
    }
}
