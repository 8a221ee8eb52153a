//! Documents as bytes, and as the application's values.
//!
//! Reading a [`Document`] through serde takes an object such as `{$numberLong: "5"}` for the number
//! 5, because Extended JSON writes it so; so does serializing into one. Here everything that is or
//! becomes a `Document` goes by its bytes, which have no such names. The application's own types
//! are read and written by serde, from bytes and to bytes, as by the official driver.

use std::{
    any::{Any, TypeId},
    collections::HashSet,
};

use bson::{Bson, Document, RawArray, RawBsonRef, RawDocument, RawDocumentBuf, Utf8Lossy};
use sd2v::names::{RESERVED, UNSAFE};
use serde::{Serialize, de::DeserializeOwned};

use crate::error::{Error, Result};

/// Number of MongoDB's error code `InvalidBSON`.
const INVALID_BSON: i32 = 22;

/// A value of the application as the document that is stored.
///
/// # Errors
/// A value that is no document, and the errors of [`exact`].
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Document> {
    exact(&bson::serialize_to_raw_document_buf(value)?)
}

/// A document as the application wants it.
///
/// # Errors
/// The document is no `T`; and as [`parse`].
pub(crate) fn decode<T: DeserializeOwned + 'static>(raw: RawDocumentBuf) -> Result<T> {
    let mut raw = Some(raw);
    if let Some(same) = taken(&mut raw) {
        return Ok(same);
    }
    let Some(raw) = raw else { return Err(Error::invalid(INVALID_BSON, "the document is not there")) };
    if is::<T, Document>() || is::<T, Bson>() {
        return of_document(parse(&raw)?);
    }
    Ok(bson::deserialize_from_slice(raw.as_bytes())?)
}

/// The same of a document that is parsed already.
///
/// # Errors
/// As [`decode`].
pub(crate) fn of_document<T: DeserializeOwned + 'static>(document: Document) -> Result<T> {
    if is::<T, Bson>() {
        let mut value = Some(Bson::Document(document));
        return taken(&mut value).ok_or_else(|| Error::invalid(INVALID_BSON, "the document is not there"));
    }
    let mut document = Some(document);
    if let Some(same) = taken(&mut document) {
        return Ok(same);
    }
    decode(RawDocumentBuf::try_from(&document.unwrap_or_default())?)
}

fn is<T: 'static, Other: 'static>() -> bool {
    TypeId::of::<T>() == TypeId::of::<Other>()
}

/// The value, if it is a `T` already.
fn taken<T: 'static, From: 'static>(value: &mut Option<From>) -> Option<T> {
    (value as &mut dyn Any).downcast_mut::<Option<T>>().and_then(Option::take)
}

/// The document of these bytes. Of a field that is there twice, the last value.
///
/// # Errors
/// 22 (InvalidBSON), naming the field, for what a `Document` has no room for: text that is not
/// UTF-8.
pub(crate) fn parse(raw: &RawDocument) -> Result<Document> {
    Document::try_from(raw).map_err(|error| match first_unfaithful(raw, false) {
        Some(unfaithful) => refused(raw, &unfaithful),
        None => error.into(),
    })
}

/// The document of these bytes, with U+FFFD for whatever is not UTF-8: for texts that people read.
pub(crate) fn parse_lossy(raw: &RawDocument) -> Result<Document> {
    match Document::try_from(raw) {
        Ok(document) => Ok(document),
        Err(_) => Ok(Utf8Lossy::<Document>::try_from(raw)?.0),
    }
}

/// The document of these bytes, if it becomes the same bytes again.
///
/// ```
/// use bson::rawdoc;
///
/// let document = mongotx::document::exact(&rawdoc! {"_id": 1}).unwrap();
/// assert_eq!(document, bson::doc! {"_id": 1});
/// // A field that is there twice would be lost.
/// assert!(mongotx::document::exact(&rawdoc! {"a": 1, "a": 2}).is_err());
/// ```
///
/// # Errors
/// 22 (InvalidBSON), naming the field: text that is not UTF-8, a field that is there twice, an
/// array whose places are not numbered.
pub fn exact(raw: &RawDocument) -> Result<Document> {
    let document = parse(raw)?;
    if document.to_vec()? == raw.as_bytes() {
        return Ok(document);
    }
    Err(match first_unfaithful(raw, true) {
        Some(unfaithful) => refused(raw, &unfaithful),
        None => Error::invalid(INVALID_BSON, "the document is written in another form than BSON has for it"),
    })
}

/// Returns true if it becomes the same bytes again when it is read into a `Document` and written,
/// embedded documents included. Also true for documents that hold what BSON's encoding allows to be
/// written in several ways (a boolean that is 2).
pub(crate) fn is_exact(raw: &RawDocument) -> bool {
    first_unfaithful(raw, true).is_none()
}

fn refused(raw: &RawDocument, unfaithful: &UnfaithfulField) -> Error {
    let id = match raw.get("_id") {
        Ok(Some(id)) => Bson::try_from(id).map(|id| format!(" of the document {{_id: {id}}}")).unwrap_or_default(),
        _ => String::new(),
    };
    Error::invalid(INVALID_BSON, format!("the field {:?}{id} {}", unfaithful.path, unfaithful.why))
}

/// A field that does not survive the way through a `Document`.
struct UnfaithfulField {
    path: String,
    why: String,
}

impl UnfaithfulField {
    fn at(path: impl Into<String>, why: impl Into<String>) -> Self {
        Self { path: path.into(), why: why.into() }
    }

    fn within(self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{name}.{}", self.path) };
        Self { path, ..self }
    }
}

/// `strict`: what is changed without an error counts as well.
fn first_unfaithful(raw: &RawDocument, strict: bool) -> Option<UnfaithfulField> {
    let mut names = HashSet::new();
    for element in raw.iter_elements() {
        let element = match element {
            Ok(element) => element,
            Err(error) => return Some(UnfaithfulField::at("", format!("cannot be read: {error}"))),
        };
        let name = element.key().as_str();
        if strict && !names.insert(name) {
            return Some(UnfaithfulField::at(name, "is there twice"));
        }
        let unfaithful = match element.value() {
            Ok(RawBsonRef::Document(inner)) => first_unfaithful(inner, strict),
            Ok(RawBsonRef::Array(inner)) => unfaithful_in_array(inner, strict),
            Ok(RawBsonRef::JavaScriptCodeWithScope(code)) => first_unfaithful(code.scope, strict),
            Ok(_) => None,
            Err(error) => Some(UnfaithfulField::at("", format!("cannot be read: {error}"))),
        };
        if let Some(unfaithful) = unfaithful {
            return Some(unfaithful.within(name));
        }
    }
    None
}

fn unfaithful_in_array(array: &bson::RawArray, strict: bool) -> Option<UnfaithfulField> {
    let Ok(places) = RawDocument::from_bytes(array.as_bytes()) else {
        return Some(UnfaithfulField::at("", "is no array"));
    };
    // An element that cannot be read is reported below.
    let mut elements = places.iter_elements().flatten().zip(0..);
    if strict && !elements.all(|(element, place)| is_place(element.key().as_str(), place)) {
        return Some(UnfaithfulField::at("", "is an array whose places are not numbered 0, 1, 2, …"));
    }
    first_unfaithful(places, strict)
}

fn is_place(name: &str, place: usize) -> bool {
    name.parse() == Ok(place) && (name.len() == 1 || !name.starts_with(['0', '+']))
}

/// Returns true if it holds a field of MongoTx's.
///
/// # Errors
/// 22 (InvalidBSON) for bytes that are no fields.
pub(crate) fn has_reserved(raw: &RawDocument) -> Result<bool> {
    for element in raw.iter_elements() {
        if RESERVED.contains(&element?.key().as_str()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if these are documents, none of which holds a field of MongoTx's.
pub(crate) fn have_nothing_reserved(documents: &RawArray) -> bool {
    documents
        .into_iter()
        .all(|one| matches!(one, Ok(RawBsonRef::Document(one)) if matches!(has_reserved(one), Ok(false))))
}

/// The document without what is MongoTx's in it; everything else stays byte for byte.
///
/// # Errors
/// 22 (InvalidBSON) for bytes that are no fields.
pub(crate) fn stripped(raw: RawDocumentBuf) -> Result<RawDocumentBuf> {
    if has_reserved(&raw)? { picked(&raw, |name| !RESERVED.contains(&name)) } else { Ok(raw) }
}

/// The `_id` and what is MongoTx's in a document. Of the unsafe version only that it is there, as
/// [`sd2v::stored::types_only`] shows it.
///
/// # Errors
/// As [`stripped`].
pub(crate) fn locks(raw: &RawDocument) -> Result<Document> {
    let mut locks = parse(&picked(raw, |name| name == "_id" || name != UNSAFE && RESERVED.contains(&name))?)?;
    match raw.get(UNSAFE) {
        Ok(Some(RawBsonRef::Document(_))) => drop(locks.insert(UNSAFE, "object")),
        Ok(Some(other)) => drop(locks.insert(UNSAFE, Bson::try_from(other)?)),
        _ => {}
    }
    Ok(locks)
}

/// The unsafe version of a stored document, if it has one.
pub(crate) fn unsafe_version(raw: &RawDocument) -> Option<RawDocumentBuf> {
    match raw.get(UNSAFE) {
        Ok(Some(RawBsonRef::Document(changed))) => Some(changed.to_owned()),
        _ => None,
    }
}

/// The fields with these names, byte for byte.
pub(crate) fn picked(raw: &RawDocument, is_wanted: impl Fn(&str) -> bool) -> Result<RawDocumentBuf> {
    const LENGTH: usize = 4;
    const KIND_AND_END: usize = 2;
    let bytes = raw.as_bytes();
    let mut kept = vec![0; LENGTH];
    let mut from = LENGTH;
    for element in raw.iter_elements() {
        let element = element?;
        let name = element.key().as_str();
        let to = from + KIND_AND_END + name.len() + element.size();
        if is_wanted(name) {
            kept.extend_from_slice(bytes.get(from..to).unwrap_or_default());
        }
        from = to;
    }
    kept.push(0);
    let length = i32::try_from(kept.len()).unwrap_or(i32::MAX);
    kept[..LENGTH].copy_from_slice(&length.to_le_bytes());
    Ok(RawDocumentBuf::from_bytes(kept)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::{doc, rawdoc};
    use sd2v::names::WRITER;

    use super::*;

    #[test]
    fn documents_that_look_like_extended_json_stay_as_they_are() {
        for value in local_mongod::lookalikes::values() {
            let document = doc! {"_id": 1, "a": value.clone(), "l": [value]};
            let raw = RawDocumentBuf::try_from(&document).unwrap();
            assert_eq!(encode(&document).unwrap(), document);
            assert_eq!(encode(&raw).unwrap(), document);
            assert_eq!(decode::<Document>(raw.clone()).unwrap(), document);
            assert_eq!(decode::<RawDocumentBuf>(raw.clone()).unwrap(), raw);
            assert_eq!(decode::<Bson>(raw.clone()).unwrap(), Bson::Document(document.clone()));
            assert_eq!(of_document::<RawDocumentBuf>(document.clone()).unwrap(), raw);
            assert_eq!(of_document::<Document>(document.clone()).unwrap(), document);
        }
    }

    #[test]
    fn what_would_be_changed_is_refused_by_name() {
        // The document `a` becomes an array.
        let mut bytes = rawdoc! {"a": {"1": 1}}.into_bytes();
        bytes[4] = 4;
        let places = RawDocumentBuf::from_bytes(bytes).unwrap();
        for (raw, path) in [
            (rawdoc! {"a": 1, "a": 2}, "\"a\""),
            (rawdoc! {"a": [1, {"b": {"c": 1, "d": 1, "c": 2}}]}, "\"a.1.b.c\""),
            (places, "\"a\""),
        ] {
            let refused = exact(&raw).unwrap_err();
            assert!(refused.message().contains(path), "{refused}");
            assert!(parse(&raw).is_ok());
        }
        let many: Document = (0..100).map(|n| (format!("n{n}"), n.into())).collect();
        assert_eq!(exact(&RawDocumentBuf::try_from(&many).unwrap()).unwrap(), many);
    }

    #[test]
    fn only_reserved_fields_are_left_out() {
        let clean = rawdoc! {"_id": 1, "a": {"a": 1, "a": 2}, "l": [1, "x"], "z": 1.5};
        let mut stored = RawDocumentBuf::try_from(&doc! {"_id": 1, WRITER: "w", UNSAFE: {"b": 1}}).unwrap();
        for field in clean.iter().skip(1) {
            let (name, value) = field.unwrap();
            stored.append(name, value);
        }
        assert_eq!(stripped(stored.clone()).unwrap(), clean);
        assert_eq!(stripped(clean.clone()).unwrap(), clean);
        assert_eq!(locks(&stored).unwrap(), doc! {"_id": 1, WRITER: "w", UNSAFE: "object"});
    }
}
