//! A replacement: the unsafe version becomes the given document, with `_id` first.

use bson::{Bson, Document, doc};

use super::CONTEXT;
use crate::{
    error::Error,
    expression::{literal, path},
    names::UNSAFE,
};

/// One stage that replaces `_unsafe`, and that changes `_id`, for the server to refuse, if the
/// document brings another.
pub(super) fn rewrite(document: &Document) -> Result<Vec<Document>, Error> {
    refuse_empty_timestamp(document)?;
    let content = literal(&Bson::Document(document.clone()));
    let mut set = doc! { UNSAFE: { "$mergeObjects": [{ "_id": "$_id" }, content] } };
    if let Some(id) = document.get("_id") {
        set.insert("_id", changed_id(literal(id).into(), path::is_number_or_bool(id)));
    }
    Ok(vec![doc! { "$set": set }])
}

/// The server lets an equal number of another type replace a number; the stored `_id` takes it when
/// it is finished.
fn changed_id(id: Bson, is_number: bool) -> Bson {
    if !is_number {
        return id;
    }
    Bson::Document(doc! { "$cond": [{ "$eq": ["$_id", id.clone()] }, "$_id", id] })
}

/// The server fills an empty timestamp at the top level of a replacement; within `_unsafe` it would
/// not.
fn refuse_empty_timestamp(document: &Document) -> Result<(), Error> {
    let empty = |value: &Bson| matches!(value, Bson::Timestamp(at) if at.time == 0 && at.increment == 0);
    match document.values().any(empty) {
        true => Err(path::unsupported("Timestamp(0, 0)", CONTEXT, "the server would put its own time there")),
        false => Ok(()),
    }
}
