//! Checks of documents and updates that are bytes still: they may go to the server as they are,
//! outside transactions.
//!
//! Each check is a sufficient condition, and quick. Whatever does not meet it is read into a
//! `Document` and judged by [`crate::stored::check_document`] or [`crate::update::Update::check`],
//! which have the errors.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, raw::cstr, rawdoc};

use crate::{
    expression::path,
    names::{ABSENT, RESERVED},
};

/// Returns true if the document has no reserved field at its top level. False for bytes that are no
/// fields, too.
pub fn is_storable(document: &RawDocument) -> bool {
    names(document).all(|name| name.is_some_and(|name| !RESERVED.contains(&name)))
}

/// Returns true if the update names all that it changes, nothing reserved and nothing that begins
/// with `$` among it. A pipeline does not, and neither does `$rename`, which has a name as a value.
pub fn is_plain_update(update: &RawDocument) -> bool {
    match names(update).next() {
        Some(Some(first)) if first.starts_with('$') => update.iter().all(|operator| match operator {
            Ok((name, RawBsonRef::Document(targets))) => {
                name.as_str().starts_with('$') && name != cstr!("$rename") && names(targets).all(is_plain_name)
            }
            _ => false,
        }),
        _ => names(update).all(is_plain_name),
    }
}

/// The document with this `_id`. The `_id` is a value that is no condition.
pub fn only(id: RawBsonRef<'_>) -> RawDocumentBuf {
    let mut filter = rawdoc! {};
    filter.append(cstr!("_id"), id);
    filter
}

/// The document with this `_id`, if no transaction holds it: [`crate::statement::unlocked`] as
/// bytes. The `_id` must be a plain value, not a condition.
pub fn unlocked(id: RawBsonRef<'_>) -> RawDocumentBuf {
    let mut filter = only(id);
    for name in ABSENT {
        filter.append(name, rawdoc! {"$exists": false});
    }
    filter
}

/// The names of the fields; `None` for what is no field, after which nothing comes.
fn names(document: &RawDocument) -> impl Iterator<Item = Option<&str>> {
    document.iter_elements().map(|element| element.ok().map(|element| element.key().as_str()))
}

fn is_plain_name(name: Option<&str>) -> bool {
    name.map(path::head).is_some_and(|head| !head.starts_with('$') && !RESERVED.contains(&head))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::{Bson, Document, doc};

    use super::*;
    use crate::{statement, stored::check_document, update::Update};

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    #[test]
    fn documents_are_storable_that_have_no_reserved_field_at_the_top() {
        for document in [doc! {}, doc! {"_id": 1, "a": {"_unsafe": 1}}, doc! {"_id": 1, "_slots": 1, "$a": 1}] {
            assert!(is_storable(&raw(&document)) && check_document(&document).is_ok(), "{document}");
        }
        for name in RESERVED {
            assert!(!is_storable(&raw(&doc! {"_id": 1, name: 1})), "{name}");
        }
        // A field that ends behind the document.
        assert!(!is_storable(RawDocument::from_bytes(b"\x09\0\0\0\x12a\0\x01\0").unwrap()));
    }

    #[test]
    fn updates_are_plain_that_name_what_they_change() {
        for update in [
            doc! {"$set": {"a": 1, "b.c": {"$x": 1}}, "$inc": {"n": 1}},
            doc! {"$push": {"l": {"$each": [1]}}},
            doc! {"$unset": {"a._unsafe": 1}},
            doc! {"a": 1, "b": {"_slot": 1}},
            doc! {},
        ] {
            assert!(is_plain_update(&raw(&update)), "{update}");
            assert!(update.is_empty() || parsed(&update).check().is_ok(), "{update}");
        }
        for update in [
            doc! {"$set": {"_unsafe.a": 1}},
            doc! {"$inc": {"a": 1}, "$set": {"_xTxId": 1}},
            doc! {"$set": {"$a": 1}},
            doc! {"$rename": {"a": "_slot"}},
            doc! {"$set": 5},
            doc! {"$set": {"a": 1}, "b": 1},
            doc! {"_insert": true},
            doc! {"a": 1, "$set": {}},
        ] {
            assert!(!is_plain_update(&raw(&update)), "{update}");
        }
    }

    fn parsed(update: &Document) -> Update {
        match update.keys().next().is_some_and(|first| first.starts_with('$')) {
            true => Update::parse_update(Bson::Document(update.clone())).unwrap(),
            false => Update::Replacement(update.clone()),
        }
    }

    #[test]
    fn the_condition_is_that_of_other_writes() {
        let mut expected = doc! {"_id": "x"};
        expected.extend(statement::unlocked());
        assert_eq!(unlocked(RawBsonRef::String("x")), raw(&expected));
    }
}
