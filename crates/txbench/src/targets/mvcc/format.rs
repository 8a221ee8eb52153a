//! Stored form of versions (paper 001, section 2.3), and its reader.
//!
//! ```text
//! {_id: {key: k, ver: 3}, …}                                      a committed version
//! {_id: {key: k, ver: 3}, _gone: true}                            a committed deletion
//! {…, _lock: {tx, primary: {in, key, ver}}, _since: Timestamp}    not decided; _since, the server's time of the insert,
//!                                                                 in the primary only
//! {…, _done: tx}                                                  a committed primary, other documents still locked
//! ```

use bson::{Bson, Document, Timestamp, doc, oid::ObjectId};

use crate::error::BenchError;

pub(super) const LOCK: &str = "_lock";
pub(super) const LOCK_TX: &str = "_lock.tx";
pub(super) const SINCE: &str = "_since";
pub(super) const DONE: &str = "_done";
pub(super) const GONE: &str = "_gone";
/// The fields that documents of applications cannot have.
const RESERVED: [&str; 4] = [LOCK, SINCE, DONE, GONE];

/// A document's key in a form that can be looked up: numbers that the server holds for equal are
/// equal here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(Vec<u8>);

impl Key {
    pub(super) fn of(key: &Bson) -> Self {
        // Only a document nested deeper than the server takes cannot be encoded.
        Self(doc! {"": same_numbers(key)}.to_vec().unwrap_or_default())
    }
}

/// The value with every whole number as a 64-bit one.
fn same_numbers(value: &Bson) -> Bson {
    match value {
        Bson::Int32(n) => Bson::Int64((*n).into()),
        Bson::Double(n) if n.fract() == 0.0 && n.abs() < 9e15 => Bson::Int64(*n as i64),
        Bson::Document(document) => {
            Bson::Document(document.iter().map(|(name, value)| (name.clone(), same_numbers(value))).collect())
        }
        Bson::Array(values) => Bson::Array(values.iter().map(same_numbers).collect()),
        other => other.clone(),
    }
}

/// Id of one version of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct VersionId {
    pub(super) key: Bson,
    pub(super) ver: i64,
}

impl VersionId {
    pub(super) fn bson(&self) -> Bson {
        Bson::Document(doc! {"key": self.key.clone(), "ver": self.ver})
    }

    fn read(id: &Document) -> Option<Self> {
        Some(Self { key: id.get("key")?.clone(), ver: id.get_i64("ver").ok()? })
    }
}

/// The version whose lock decides for the whole transaction.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Primary {
    pub(super) collection: String,
    pub(super) id: VersionId,
}

/// The lock on a version that is not decided yet, as far as the version itself describes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lock {
    pub(super) tx: ObjectId,
    pub(super) primary: Primary,
}

impl Lock {
    fn bson(&self) -> Document {
        let Primary { collection, id } = &self.primary;
        doc! {"tx": self.tx, "primary": {"in": collection, "key": id.key.clone(), "ver": id.ver}}
    }

    fn read(lock: &Document) -> Option<Self> {
        let primary = lock.get_document("primary").ok()?;
        let collection = primary.get_str("in").ok()?.to_owned();
        Some(Self {
            tx: lock.get_object_id("tx").ok()?,
            primary: Primary { collection, id: VersionId::read(primary)? },
        })
    }

    /// Returns true if it is the lock of the primary itself.
    pub(super) fn decides(&self, collection: &str, id: &VersionId) -> bool {
        self.primary.collection == collection && self.primary.id.ver == id.ver && self.primary.id.key == id.key
    }
}

/// One version of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Version {
    pub(super) id: VersionId,
    pub(super) lock: Option<Lock>,
    /// The fields without `_id`; `None`: the document is deleted.
    pub(super) body: Option<Document>,
}

impl Version {
    /// Reads a stored version, or what a projection has left of it.
    pub(super) fn read(mut stored: Document) -> Result<Self, BenchError> {
        let id = stored.remove("_id");
        let id = id.as_ref().and_then(Bson::as_document).and_then(VersionId::read);
        let lock = stored.remove(LOCK).map(|lock| lock.as_document().and_then(Lock::read));
        let gone = stored.remove(GONE).is_some();
        stored.remove(SINCE);
        stored.remove(DONE);
        match (id, lock) {
            (Some(_), Some(None)) | (None, _) => {
                Err(BenchError::Failed("mvcc: a document that is no version".to_owned()))
            }
            (Some(id), lock) => Ok(Self { id, lock: lock.flatten(), body: (!gone).then_some(stored) }),
        }
    }

    /// The stored form of a version that is not decided.
    pub(super) fn store(id: &VersionId, lock: &Lock, collection: &str, body: Option<&Document>) -> Document {
        let mut stored = doc! {"_id": id.bson(), LOCK: lock.bson()};
        if lock.decides(collection, id) {
            // The server puts its time here.
            stored.insert(SINCE, Timestamp { time: 0, increment: 0 });
        }
        match body {
            Some(body) => stored.extend(body.clone()),
            None => drop(stored.insert(GONE, true)),
        }
        stored
    }

    /// The document as the application knows it; `None`: deleted.
    pub(super) fn into_document(self) -> Option<Document> {
        self.body.map(|body| with_id(self.id.key, body))
    }
}

/// The document of these fields.
pub(super) fn with_id(key: Bson, body: Document) -> Document {
    let mut document = doc! {"_id": key};
    document.extend(body);
    document
}

/// The stored form of a loaded document: its first version, committed.
pub(super) fn first_version(mut document: Document) -> Result<Document, BenchError> {
    let (key, body) = split(&mut document)?;
    Ok(with_id(VersionId { key, ver: 1 }.bson(), body))
}

/// The key and the other fields of an application's document.
pub(super) fn split(document: &mut Document) -> Result<(Bson, Document), BenchError> {
    let mut body = std::mem::take(document);
    let refused = |what: &str| Err(BenchError::Refused(format!("mvcc: a document {what}")));
    let Some(key) = body.remove("_id") else { return refused("without an _id") };
    check(&body)?;
    Ok((key, body))
}

/// Refuses fields that the target keeps for itself.
pub(super) fn check(body: &Document) -> Result<(), BenchError> {
    match RESERVED.iter().find(|field| body.contains_key(**field)) {
        Some(field) => {
            Err(BenchError::Refused(format!("mvcc: a document with the field {field}, which it uses itself")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_it_was_stored() {
        let id = VersionId { key: Bson::from(doc! {"w": 1}), ver: 4 };
        let primary = Primary { collection: "a".to_owned(), id: id.clone() };
        let lock = Lock { tx: ObjectId::new(), primary };
        for body in [Some(doc! {"n": 1}), None] {
            for collection in ["a", "b"] {
                let stored = Version::store(&id, &lock, collection, body.as_ref());
                assert_eq!(stored.contains_key(SINCE), collection == "a");
                let read = Version::read(stored).unwrap();
                assert_eq!(read, Version { id: id.clone(), lock: Some(lock.clone()), body: body.clone() });
            }
        }
    }

    #[test]
    fn a_loaded_document_is_read_as_it_was() {
        let document = doc! {"_id": 3, "n": {"a": 1}};
        let read = Version::read(first_version(document.clone()).unwrap()).unwrap();
        assert_eq!((read.lock.clone(), read.id.ver), (None, 1));
        assert_eq!(read.into_document(), Some(document));
    }

    #[test]
    fn a_field_of_its_own_and_a_missing_id_are_refused_by_name() {
        assert!(first_version(doc! {"_id": 1, "_lock": 1}).unwrap_err().to_string().contains("_lock"));
        assert!(first_version(doc! {"n": 1}).unwrap_err().to_string().contains("_id"));
        assert!(Version::read(doc! {"_id": 5}).is_err());
    }

    #[test]
    fn keys_that_the_server_holds_for_equal_are_equal() {
        let keys = [Bson::Int32(5), Bson::Int64(5), Bson::Double(5.0)];
        assert!(keys.iter().all(|key| Key::of(key) == Key::of(&keys[0])));
        assert_eq!(Key::of(&doc! {"w": 1_i32}.into()), Key::of(&doc! {"w": 1_i64}.into()));
        assert_ne!(Key::of(&Bson::Int32(5)), Key::of(&Bson::from("5")));
        assert_ne!(Key::of(&Bson::Double(5.5)), Key::of(&Bson::Int32(5)));
    }
}
