//! Indexes that freeze a collection while it is renamed. With them the server refuses every lock,
//! even from writers that bypass validation, and it cannot make them as long as there is a lock.

use bson::{Document, doc, oid::ObjectId};

use crate::names::{READERS, WRITER};

/// Prefix of their names, followed by the id of the attempt to rename.
const RENAMING: &str = "_mongotx_renaming.";
/// Location16755: a value is no shape.
const NO_SHAPE: i32 = 16_755;
/// Location16766: an array is to be hashed.
const NOT_HASHED: i32 = 16_766;

/// The two indexes of one attempt to rename a collection. Two attempts at a time conflict: their
/// names differ, and their keys do not.
///
/// - A write lock is a document, and no shape: `2dsphere` takes neither it nor the document that
///   has it.
/// - Read locks are an array, which has no hash.
///
/// Documents without locks are in neither.
pub fn freeze(attempt: ObjectId) -> [Document; 2] {
    let simple = doc! {"locale": "simple"};
    let name = |locks| format!("{RENAMING}{attempt}.{locks}");
    let written = doc! {"key": {WRITER: "2dsphere"}, "name": name("written"), "collation": simple.clone()};
    let some = doc! {READERS: {"$exists": true}};
    let read =
        doc! {"key": {READERS: "hashed"}, "name": name("read"), "collation": simple, "partialFilterExpression": some};
    [written, read]
}

/// Returns true if the stored index of this name is one of those that hold while a collection is
/// renamed.
pub fn holds_while_renamed(stored_name: &str) -> bool {
    stored_name.starts_with(RENAMING)
}

/// Returns true if the server refuses a lock, or to make the indexes, because of them. Their
/// refusals end with the lock, or name its field.
pub fn is_frozen(code: i32, message: &str) -> bool {
    match code {
        NO_SHAPE => {
            let lock = message.rsplit_once("unknown GeoJSON type: ").map_or("", |(_, lock)| lock.trim());
            let parts = lock.strip_prefix("{ c: ObjectId('").and_then(|rest| rest.split_once("'), n: "));
            parts.is_some_and(|(client, number)| {
                client.len() == 24 && number.strip_suffix(" }").is_some_and(|number| number.parse::<i64>().is_ok())
            })
        }
        NOT_HASHED => message.trim_end().ends_with(&format!(": {READERS}")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_locks_are_distinguished_from_those_of_documents() {
        let shown = "Can't extract geo keys: { _id: 1, _xTxId: { c: ObjectId('6b051659e0cd7e54e353d629'), n: 5 } }  ";
        let is_lock = |reason: &str| is_frozen(NO_SHAPE, &format!("{shown}{reason}"));
        assert!(is_lock("unknown GeoJSON type: { c: ObjectId('6b051659e0cd7e54e353d629'), n: 5 }"));
        assert!(!is_lock("unknown GeoJSON type: { type: \"Pint\" }"));
        assert!(!is_lock("Point must only contain numeric elements"));
        assert!(!is_frozen(2, "unknown GeoJSON type: { c: ObjectId('6b051659e0cd7e54e353d629'), n: 5 }"));
        let hashed = "Error: hashed indexes do not currently support array values. Found array at path: ";
        assert!(is_frozen(NOT_HASHED, &format!("{hashed}_sTxIds")) && !is_frozen(NOT_HASHED, &format!("{hashed}a")));
    }
}
