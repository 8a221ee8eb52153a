//! Keys of documents: database, collection, and the `_id`, in bytes that sort as the `_id`s of one
//! type do.

use bson::{Bson, Document};

use super::NAME;
use crate::error::BenchError;

/// Ends a name, which has no such byte.
const END: u8 = 0;
const NUMBER: u8 = 1;
const TEXT: u8 = 2;
const OBJECT_ID: u8 = 3;

/// Beginning of the keys of a database.
pub(super) fn of_database(db: &str) -> Vec<u8> {
    let mut key = db.as_bytes().to_vec();
    key.push(END);
    key
}

/// Beginning of the keys of a collection.
pub(super) fn of_collection(db: &str, collection: &str) -> Vec<u8> {
    let mut key = of_database(db);
    key.extend_from_slice(collection.as_bytes());
    key.push(END);
    key
}

/// Key of a document by its `_id`.
///
/// # Errors
/// [`BenchError::Refused`]: the `_id` is neither a whole number, a text nor an ObjectId.
pub(super) fn of_id(db: &str, collection: &str, id: &Bson) -> Result<Vec<u8>, BenchError> {
    let mut key = of_type(db, collection, id)?;
    match id {
        Bson::Int32(number) => key.extend_from_slice(&sorting(i64::from(*number))),
        Bson::Int64(number) => key.extend_from_slice(&sorting(*number)),
        Bson::ObjectId(id) => key.extend_from_slice(&id.bytes()),
        other => key.extend_from_slice(other.as_str().unwrap_or_default().as_bytes()),
    }
    Ok(key)
}

/// Beginning of the keys of a collection whose `_id`s have the same type as this one: only these
/// are compared with it.
///
/// # Errors
/// As for [`of_id`].
pub(super) fn of_type(db: &str, collection: &str, id: &Bson) -> Result<Vec<u8>, BenchError> {
    let kind = match id {
        Bson::Int32(_) | Bson::Int64(_) => NUMBER,
        Bson::String(_) => TEXT,
        Bson::ObjectId(_) => OBJECT_ID,
        other => return Err(BenchError::Refused(format!("{NAME} cannot keep a document with the _id {other}"))),
    };
    let mut key = of_collection(db, collection);
    key.push(kind);
    Ok(key)
}

/// Key of a document.
///
/// # Errors
/// As for [`of_id`]; it has no `_id`.
pub(super) fn of_document(db: &str, collection: &str, document: &Document) -> Result<Vec<u8>, BenchError> {
    let none = || BenchError::Failed(format!("{NAME}: a document of {collection} has no _id"));
    of_id(db, collection, document.get("_id").ok_or_else(none)?)
}

fn sorting(number: i64) -> [u8; 8] {
    (number.cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::oid::ObjectId;

    use super::*;

    #[test]
    fn keys_of_one_type_sort_as_their_ids() {
        let key = |id: Bson| of_id("db", "c", &id).unwrap();
        let numbers = [i64::MIN, -300, -1, 0, 1, 255, 256, i64::MAX].map(|number| key(Bson::Int64(number)));
        assert!(numbers.is_sorted());
        let texts = ["", "a", "a\0", "ab", "b"].map(|text| key(text.into()));
        assert!(texts.is_sorted());
        assert_eq!(key(Bson::Int32(7)), key(Bson::Int64(7)));
        assert!(key(ObjectId::from_bytes([1; 12]).into()) < key(ObjectId::from_bytes([2; 12]).into()));
    }

    #[test]
    fn keys_of_different_collections_and_types_differ_from_the_beginning() {
        let beginnings = [of_collection("d", "ab"), of_collection("d", "a"), of_collection("da", "b")];
        for (at, one) in beginnings.iter().enumerate() {
            assert!(beginnings.iter().enumerate().all(|(other, two)| at == other || !two.starts_with(one)));
        }
        let refused = of_id("d", "c", &Bson::Boolean(true)).unwrap_err().to_string();
        assert!(refused.contains("dtranx cannot keep a document with the _id true"), "{refused}");
    }
}
