//! Reading a stored document: its locks and its two versions; and the checks that keep reserved
//! names out of an application's documents. Statements that change one are in `statement`.

use bson::{Bson, Document, doc};
use protocol::{LockState, TxId, Version};

use crate::{
    error::Error,
    names::{INSERT, READERS, REMOVE, RESERVED, SLOT, UNSAFE, WRITER, slot_of, tx_id_from_bson, tx_id_to_bson},
    shard_key::ShardKey,
};

/// The largest document a server stores, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// A clean document is byte for byte what the application wrote.
pub fn is_clean(stored: &Document) -> bool {
    RESERVED.iter().all(|name| !stored.contains_key(name))
}

/// The locks of a stored document.
///
/// Where `_unsafe` and `_slot` are the names of their types, as [`types_only`] shows them, the
/// state is complete, and what is missing counts, too.
///
/// # Errors
/// [`Error::Corrupt`] when the reserved fields are not as MongoTx writes them: it never does, so
/// nothing may be concluded from them.
pub fn lock_state(stored: &Document) -> Result<LockState, Error> {
    state(stored, None)
}

/// The same of a document that is here as a whole: what is not here is missing.
///
/// # Errors
/// As [`lock_state`].
pub fn whole_lock_state(stored: &Document) -> Result<LockState, Error> {
    state(stored, Some("missing"))
}

fn state(stored: &Document, unknown: Option<&str>) -> Result<LockState, Error> {
    let corrupt = |field, value: &Bson| Error::Corrupt {
        id: stored.get("_id").map_or_else(|| "(none)".to_owned(), ToString::to_string),
        field,
        found: value.to_string(),
    };
    let lock = locks_of(stored, &corrupt)?;
    let absent = Bson::from("missing");
    let kind = kind_of(stored, UNSAFE).or(unknown);
    match kind {
        None | Some("object") => {}
        // A removed document has none.
        Some("missing") if lock.writer.is_none() || lock.remove => {}
        Some("missing") => return Err(corrupt(UNSAFE, &absent)),
        Some(other) => return Err(corrupt(UNSAFE, &other.into())),
    }
    let has_slot = kind_of(stored, SLOT).is_some_and(|kind| kind != "missing");
    let needs_writer = lock.insert || lock.remove || kind == Some("object") || has_slot;
    if lock.writer.is_none() && needs_writer {
        return Err(corrupt(WRITER, &absent));
    }
    Ok(lock)
}

/// A projection of `_unsafe` and `_slot` that shows no more than what [`lock_state`] looks at.
pub fn types_only() -> Document {
    [UNSAFE, SLOT].map(|name| (name.to_owned(), doc! {"$type": format!("${name}")}.into())).into_iter().collect()
}

/// The type of a field, or the name of it that was projected in its place. Of what is not there it
/// is not known whether it is missing or was left out.
fn kind_of<'d>(stored: &'d Document, field: &str) -> Option<&'d str> {
    stored.get(field).map(|value| match value {
        Bson::Document(_) => "object",
        Bson::String(kind) => kind,
        _ => "not an object",
    })
}

fn locks_of(stored: &Document, corrupt: &dyn Fn(&'static str, &Bson) -> Error) -> Result<LockState, Error> {
    let writer = match stored.get(WRITER) {
        None => None,
        Some(value) => Some(tx_id_from_bson(value).ok_or_else(|| corrupt(WRITER, value))?),
    };
    let readers = match stored.get(READERS) {
        None => Vec::new(),
        Some(Bson::Array(ids)) if !ids.is_empty() => {
            let ids = ids.iter().map(|id| tx_id_from_bson(id).ok_or_else(|| corrupt(READERS, id)));
            ids.collect::<Result<_, _>>()?
        }
        Some(other) => return Err(corrupt(READERS, other)),
    };
    let flag = |field| match stored.get(field) {
        None => Ok(false),
        Some(Bson::Boolean(true)) => Ok(true),
        Some(other) => Err(corrupt(field, other)),
    };
    Ok(LockState { writer, readers, insert: flag(INSERT)?, remove: flag(REMOVE)? })
}

/// The application's view of one version, without reserved fields; `None` where the document has no
/// such version.
pub fn extract(mut stored: Document, version: Version) -> Option<Document> {
    match version {
        Version::Absent => None,
        Version::Safe => {
            strip(&mut stored);
            Some(stored)
        }
        Version::Unsafe => match stored.remove(UNSAFE) {
            Some(Bson::Document(unsafe_version)) => Some(unsafe_version),
            _ => None,
        },
    }
}

/// Removes the reserved fields from a stored document.
pub fn strip(stored: &mut Document) {
    for name in RESERVED {
        stored.remove(name);
    }
}

/// The stored form of a document that `writer` inserts: no safe version, the whole of it unsafe.
/// `document` has its `_id`. Beside it, only the values of the shard key, because where a document
/// is stored must not change.
///
/// # Errors
/// [`Error::Invalid`] (61, ShardKeyNotFound) for an array in the shard key; [`Error::Reserved`] for
/// a reserved name at its top level; [`Error::Invalid`] (code 10334, BSONObjectTooLarge) when the
/// stored form would be too large.
pub fn pending_insert(writer: TxId, document: &Document, key: &ShardKey) -> Result<Document, Error> {
    check_document(document)?;
    let id = document.get("_id").cloned().unwrap_or(Bson::Null);
    let mut stored = doc! {
        "_id": id.clone(),
        UNSAFE: document.clone(),
        WRITER: tx_id_to_bson(writer),
        INSERT: true,
        SLOT: slot_of(&id),
    };
    key.copy(document, &mut stored)?;
    check_size(&stored)?;
    Ok(stored)
}

/// A document of the application may not use a reserved name at its top level.
///
/// # Errors
/// [`Error::Reserved`], naming the field.
pub fn check_document(document: &Document) -> Result<(), Error> {
    match RESERVED.iter().find(|name| document.contains_key(name)) {
        Some(name) => Err(Error::Reserved { field: (*name).to_owned(), at: " and cannot be stored".to_owned() }),
        None => Ok(()),
    }
}

/// An `_id` that a server stores. Another one cannot even be looked for among others (`{_id: {$in:
/// […]}}` would be refused), so nothing may be held by it.
///
/// # Errors
/// [`Error::Invalid`], as the server: 53 (InvalidIdField) for a type, 52 (DollarPrefixedFieldName)
/// for an object with a field that begins with `$` and is no part of a reference (`$ref`, `$id`,
/// `$db`).
pub fn check_id(id: &Bson) -> Result<(), Error> {
    let kind = match id {
        Bson::Array(_) => "array",
        Bson::RegularExpression(_) => "regex",
        Bson::Undefined => "undefined",
        Bson::Document(fields) => {
            let Some(name) = behind_reference(fields).find(|name| name.starts_with('$')) else { return Ok(()) };
            let message = format!("_id fields may not contain '$'-prefixed fields: {name} is not valid for storage.");
            return Err(Error::Invalid { code: 52, message });
        }
        _ => return Ok(()),
    };
    Err(Error::Invalid { code: 53, message: format!("The '_id' value cannot be of type {kind}") })
}

/// The names of the fields, without those of the reference that the object begins with.
fn behind_reference(fields: &Document) -> impl Iterator<Item = &String> {
    let names: Vec<&str> = fields.keys().take(3).map(String::as_str).collect();
    let is_text = |name| fields.get_str(name).is_ok();
    let of_reference = match names[..] {
        ["$ref", "$id", "$db"] if is_text("$ref") && is_text("$db") => 3,
        ["$ref", "$id", ..] if is_text("$ref") => 2,
        _ => 0,
    };
    fields.keys().skip(of_reference)
}

/// A field path of the application may not begin with a reserved name.
///
/// # Errors
/// [`Error::Reserved`], naming the field.
pub fn check_path(path: &str) -> Result<(), Error> {
    let first = path.split('.').next().unwrap_or(path);
    if RESERVED.contains(&first) {
        return Err(Error::Reserved { field: first.to_owned(), at: format!(" and cannot be used in {path:?}") });
    }
    Ok(())
}

fn check_size(stored: &Document) -> Result<(), Error> {
    let too_large = |found: String| Error::Invalid {
        code: 10334,
        message: format!(
            "the document with its transaction's metadata takes {found}, more than the server's {MAX_DOCUMENT_BYTES} bytes"
        ),
    };
    match stored.to_vec() {
        Ok(bytes) if bytes.len() <= MAX_DOCUMENT_BYTES => Ok(()),
        Ok(bytes) => Err(too_large(format!("{} bytes", bytes.len()))),
        Err(error) => Err(Error::Invalid { code: 22, message: format!("the document cannot be encoded: {error}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::oid::ObjectId;

    fn tx() -> TxId {
        TxId { client: protocol::ClientId([7; 12]), seq: 3 }
    }

    #[test]
    fn lock_state_of_a_clean_document_is_empty() {
        let stored = doc! {"_id": 1, "a": 2};
        assert!(is_clean(&stored));
        assert_eq!(lock_state(&stored), Ok(LockState::default()));
    }

    #[test]
    fn ids_that_no_server_stores_are_refused() {
        for (id, code) in [
            (Bson::Array(Vec::new()), 53),
            (Bson::Undefined, 53),
            (Bson::Document(doc! {"$numberLong": "5"}), 52),
            (Bson::Document(doc! {"x": 1, "$oid": 1}), 52),
            (Bson::Document(doc! {"$ref": 1, "$id": 1}), 52),
            (Bson::Document(doc! {"$id": 1, "$ref": "c"}), 52),
            (Bson::Document(doc! {"$ref": "c", "$id": 1, "$db": 1}), 52),
            (Bson::Document(doc! {"$ref": "c", "$id": 1, "$x": 1}), 52),
        ] {
            assert!(matches!(check_id(&id), Err(Error::Invalid { code: found, .. }) if found == code), "{id}");
        }
        let references = [doc! {"$ref": "c", "$id": 1}, doc! {"$ref": "c", "$id": {"x": 1}, "$db": "d", "x": 1}];
        let others = [Bson::Null, 1.into(), "$a".into(), Bson::Document(doc! {"x": {"y": 1}})];
        for id in others.into_iter().chain(references.map(Bson::Document)) {
            assert_eq!(check_id(&id), Ok(()));
        }
    }

    #[test]
    fn pending_insert_has_no_safe_version_and_all_of_the_unsafe_one() {
        let document = doc! {"_id": 1, "a": 2};
        let stored = pending_insert(tx(), &document, &ShardKey::default()).unwrap();
        let lock = lock_state(&stored).unwrap();
        assert_eq!((lock.writer, lock.insert, lock.remove), (Some(tx()), true, false));
        assert_eq!(extract(stored.clone(), Version::Unsafe), Some(document));
        assert_eq!(extract(stored.clone(), Version::Safe), Some(doc! {"_id": 1}));
        assert_eq!(extract(stored, Version::Absent), None);
    }

    #[test]
    fn lock_state_malformed_names_field_and_document() {
        for (field, value) in [
            (WRITER, Bson::Int32(1)),
            (WRITER, Bson::Document(doc! {"c": ObjectId::from_bytes([1; 12]), "n": 1_i32})),
            (READERS, Bson::Null),
            (READERS, Bson::Array(Vec::new())),
            (INSERT, Bson::Int32(1)),
            (REMOVE, Bson::Boolean(false)),
            (UNSAFE, Bson::Int32(1)),
        ] {
            let error = lock_state(&doc! {"_id": 9, field: value}).unwrap_err().to_string();
            assert!(error.contains(field) && error.contains("_id 9"), "{error}");
        }
    }

    #[test]
    fn lock_state_incomplete_is_malformed() {
        let mine = tx_id_to_bson(tx());
        for incomplete in [
            doc! {"_id": 9, UNSAFE: {"_id": 9}},
            doc! {"_id": 9, UNSAFE: "object", SLOT: "missing"},
            doc! {"_id": 9, UNSAFE: "missing", SLOT: "int"},
            doc! {"_id": 9, INSERT: true},
            doc! {"_id": 9, REMOVE: true, READERS: [mine.clone()]},
            doc! {"_id": 9, WRITER: mine.clone(), UNSAFE: "missing"},
            doc! {"_id": 9, WRITER: mine.clone(), UNSAFE: "string"},
        ] {
            let error = lock_state(&incomplete).unwrap_err().to_string();
            assert!(error.contains("_id 9") && error.contains("doctor"), "{error}");
        }
        for complete in [
            doc! {"_id": 9, UNSAFE: "missing", SLOT: "missing"},
            doc! {"_id": 9, WRITER: mine.clone(), UNSAFE: "object", SLOT: "int", INSERT: true},
            doc! {"_id": 9, WRITER: mine.clone(), UNSAFE: "missing", REMOVE: true},
            doc! {"_id": 9, WRITER: mine.clone()},
            doc! {"_id": 9, READERS: [mine], UNSAFE: "missing"},
        ] {
            assert!(lock_state(&complete).is_ok(), "{complete}");
        }
        assert!(whole_lock_state(&doc! {"_id": 9, WRITER: tx_id_to_bson(tx())}).is_err());
        assert!(whole_lock_state(&doc! {"_id": 9, WRITER: tx_id_to_bson(tx()), REMOVE: true}).is_ok());
    }

    #[test]
    fn check_document_refuses_each_reserved_name_at_the_top_only() {
        for name in RESERVED {
            assert!(check_document(&doc! {name: 1}).unwrap_err().to_string().contains(name));
            assert_eq!(check_document(&doc! {"a": {name: 1}}), Ok(()));
        }
    }

    #[test]
    fn pending_insert_too_large_is_refused_before_anything_is_written() {
        let document = doc! {"_id": 1, "a": "x".repeat(MAX_DOCUMENT_BYTES - 20)};
        assert!(matches!(
            pending_insert(tx(), &document, &ShardKey::default()),
            Err(Error::Invalid { code: 10334, .. })
        ));
    }
}
