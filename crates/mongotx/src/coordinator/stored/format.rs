//! Version of the stored format: of what clients write into documents, records and indexes
//! (decision 0056, `CHANGELOG.md`).
//!
//! - Each client record says in `format` in which version its client writes. A record without it is
//!   of version 1.
//! - `<tx_database>.checkpoint` may say in `format` of its one document below which version no
//!   client may register ([`crate::coordinator::log::hold`]).
//!
//! A client that meets a later version than its own cannot know what the stored data mean: it
//! changes nothing, and its error names both versions.

use bson::{Bson, Document, doc};

use crate::error::{Error, ErrorKind, Result};

/// The version that this library writes. It reads this one and all before it.
pub(crate) const FORMAT: i32 = 1;
/// Name of the field, in both places.
pub(crate) const FIELD: &str = "format";

/// A condition of queries: what is stored is of no later version than [`FORMAT`].
pub(crate) fn is_known() -> Document {
    doc! {"$not": {"$gt": FORMAT}}
}

/// Checks the version of a stored record, or of the document of the hold. `what` names it in the
/// error.
///
/// # Errors
/// [`crate::ErrorKind::Unsupported`] when it is of a later version than [`FORMAT`];
/// [`crate::ErrorKind::Corruption`] when the field is no number of a version.
pub(crate) fn check(found: Option<&Bson>, what: impl FnOnce() -> String) -> Result<()> {
    let version = match found {
        None => return Ok(()),
        Some(Bson::Int32(version)) => i64::from(*version),
        Some(Bson::Int64(version)) => *version,
        Some(_) => 0,
    };
    if version < 1 {
        return Err(Error::new(ErrorKind::Corruption, format!("{} has no proper field {FIELD:?}", what())));
    }
    if version <= i64::from(FORMAT) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "{} is of version {version} of the stored format, and this client knows none later than {FORMAT}: it needs a later release \
         of MongoTx. Nothing is changed",
        what()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_up_to_this_one_are_known_and_none_is_the_first() {
        let of = |found: Option<Bson>| check(found.as_ref(), || "it".to_owned()).map_err(|error| error.kind());
        for known in [None, Some(Bson::Int32(1)), Some(Bson::Int32(FORMAT)), Some(Bson::Int64(1))] {
            assert_eq!(of(known), Ok(()));
        }
        for later in [Bson::Int32(FORMAT + 1), Bson::Int64(i64::MAX)] {
            assert_eq!(of(Some(later)), Err(ErrorKind::Unsupported));
        }
        for no_version in [Bson::Int32(0), Bson::Int64(-1), Bson::Null, Bson::Double(1.0), Bson::String("1".into())] {
            assert_eq!(of(Some(no_version)), Err(ErrorKind::Corruption));
        }
    }
}
