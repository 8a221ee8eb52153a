//! Shard keys (paper 000, section 5.4.5): which fields they are, and their values in a document.
//!
//! The values at the top level of a stored document are those of its unsafe version, also before
//! the document is inserted for good: a pending insert has no other safe fields. They do not change
//! while MongoTx writes.

use std::sync::Arc;

use bson::{Bson, Document};

use crate::{error::Error, names::RESERVED};

/// Number of MongoDB's error code `ShardKeyNotFound`.
pub(crate) const NO_SHARD_KEY: i32 = 61;
/// The most fields a key has.
const MAX_FIELDS: usize = 32;

/// The fields of a collection's shard key, as dotted paths and without `_id`; none where there is
/// no key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardKey {
    fields: Arc<[String]>,
}

impl ShardKey {
    /// A key on these fields.
    ///
    /// # Errors
    /// [`Error::Invalid`] (2, BadValue) for a path that is empty, has an empty component or one
    /// that begins with `$`, is named twice or lies within another, and for more than 32;
    /// [`Error::Reserved`].
    pub fn parse<S: AsRef<str>>(fields: &[S]) -> Result<Self, Error> {
        let invalid = |field: &str, why: &str| {
            Err(Error::Invalid { code: 2, message: format!("{field:?} cannot be a field of a shard key: {why}") })
        };
        let mut kept: Vec<String> = Vec::new();
        for field in fields.iter().map(AsRef::as_ref) {
            if kept.len() == MAX_FIELDS {
                return invalid(field, "it has more than 32 fields");
            }
            if field.split('.').any(|part| part.is_empty() || part.starts_with('$')) {
                return invalid(field, "a component of the path is empty or begins with $");
            }
            if field.split('.').next().is_some_and(|head| RESERVED.contains(&head)) {
                return Err(Error::Reserved {
                    field: field.to_owned(),
                    at: " and cannot be in a shard key".to_owned(),
                });
            }
            if kept.iter().any(|other| within(other, field) || within(field, other)) {
                return invalid(field, "another field of the key is the same or contains it, or lies in it");
            }
            if field != "_id" {
                kept.push(field.to_owned());
            }
        }
        Ok(Self { fields: kept.into() })
    }

    /// Returns true if there is no key (but perhaps the `_id`).
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Paths of the key's fields, in their order.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(String::as_str)
    }

    /// The values in a document: `{path: value}` for each field; one that is missing is null.
    ///
    /// # Errors
    /// [`Error::Invalid`] (61, ShardKeyNotFound) where a value, or something on the way to it, is
    /// an array.
    pub fn of(&self, document: &Document) -> Result<Document, Error> {
        self.fields().map(|field| Ok((field.to_owned(), value_at(document, field)?))).collect()
    }

    /// Copies the values from the document to the top level of its stored form.
    ///
    /// # Errors
    /// Those of [`ShardKey::of`].
    pub fn copy(&self, document: &Document, stored: &mut Document) -> Result<(), Error> {
        for field in self.fields() {
            value_at(document, field)?;
            let parts: Vec<&str> = field.split('.').collect();
            copy_path(document, stored, &parts);
        }
        Ok(())
    }

    /// Shows the values, beside what a projection of names shows already.
    pub fn show_in(&self, projection: &mut Document) {
        projection.extend(self.fields().map(|field| (field.to_owned(), Bson::Int32(1))));
    }
}

fn within(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn value_at(document: &Document, field: &str) -> Result<Bson, Error> {
    let array = || {
        let message = format!("the shard key's field {field:?} cannot be an array, or lie in one");
        Error::Invalid { code: NO_SHARD_KEY, message }
    };
    let (mut at, mut parts) = (document, field.split('.').peekable());
    while let Some(part) = parts.next() {
        match at.get(part) {
            Some(Bson::Array(_)) => return Err(array()),
            Some(value) if parts.peek().is_none() => return Ok(value.clone()),
            Some(Bson::Document(inner)) => at = inner,
            _ => break,
        }
    }
    Ok(Bson::Null)
}

fn copy_path(from: &Document, to: &mut Document, parts: &[&str]) {
    let Some((part, rest)) = parts.split_first() else { return };
    match (from.get(part), rest) {
        (Some(value), []) => {
            to.insert(*part, value.clone());
        }
        (Some(Bson::Document(inner)), rest) => {
            if !matches!(to.get(part), Some(Bson::Document(_))) {
                to.insert(*part, Document::new());
            }
            if let Some(Bson::Document(into)) = to.get_mut(part) {
                copy_path(inner, into, rest);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn key() -> ShardKey {
        ShardKey::parse(&["region", "owner.id", "_id"]).unwrap()
    }

    #[test]
    fn parse_refuses_paths_by_name() {
        for bad in ["", "a..b", ".a", "$a", "a.$b", "_unsafe", "_xTxId.c", "region.x", "owner"] {
            let error = ShardKey::parse(&["region", "owner.id", bad]).unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{bad}: {error}");
        }
        let many: Vec<String> = (0..33).map(|n| format!("f{n}")).collect();
        assert!(ShardKey::parse(&many).unwrap_err().to_string().contains("32"));
        assert!(ShardKey::parse(&["_id"]).unwrap().is_empty());
    }

    #[test]
    fn of_a_document_is_null_where_missing_and_refuses_arrays() {
        let of = |document| key().of(&document);
        assert_eq!(of(doc! {"region": 1, "owner": {"id": 7}}), Ok(doc! {"region": 1, "owner.id": 7}));
        assert_eq!(of(doc! {"owner": 5}), Ok(doc! {"region": null, "owner.id": null}));
        for array in [doc! {"region": [1]}, doc! {"owner": [{"id": 7}]}, doc! {"owner": {"id": []}}] {
            assert!(matches!(of(array), Err(Error::Invalid { code: 61, .. })));
        }
    }

    #[test]
    fn copy_takes_the_fields_of_the_key_and_nothing_else() {
        let key = ShardKey::parse(&["region", "owner.id", "owner.name.first"]).unwrap();
        let document = doc! {"region": null, "owner": {"id": 7, "age": 3, "name": {"first": "a", "last": "b"}}, "x": 1};
        let mut stored = doc! {"_id": 1};
        key.copy(&document, &mut stored).unwrap();
        assert_eq!(stored, doc! {"_id": 1, "region": null, "owner": {"id": 7, "name": {"first": "a"}}});
        assert_eq!(key.of(&stored), key.of(&document));
        let mut nothing = doc! {"_id": 1};
        key.copy(&doc! {"x": 1}, &mut nothing).unwrap();
        assert_eq!(key.of(&nothing), key.of(&doc! {}));
    }
}
