//! Events of the library as MongoDB's change streams show them, and which of them belong to a
//! stream. Pure: events are read in `stream`.

use bson::{Bson, Document};
use mongotx::Event;

use super::{
    Image, Scope, StreamOptions,
    token::{Kind, Token},
};
use crate::failure::{Answer, Failure, NOT_RESUMABLE_CHANGE_STREAM_ERROR, codes};

impl Scope {
    /// Returns true if this event belongs to the stream.
    pub(super) fn has(&self, event: &Document) -> bool {
        let Ok(ns) = event.get_document("ns") else { return false };
        let (db, coll) = (ns.get_str("db").unwrap_or_default(), ns.get_str("coll").ok());
        match self {
            Self::Deployment => true,
            Self::Database(name) => db == name,
            Self::Collection(namespace) => {
                db == namespace.db && coll == Some(&namespace.coll) || renamed_to(event, &namespace.db, &namespace.coll)
            }
        }
    }

    /// Returns true if this event, one of the stream's, ends the stream.
    pub(super) fn is_ended_by(&self, event: &Document) -> bool {
        let kind = event.get_str("operationType").unwrap_or_default();
        matches!((self, kind), (Self::Collection(_), "drop" | "rename") | (Self::Database(_), "dropDatabase"))
    }
}

fn renamed_to(event: &Document, db: &str, coll: &str) -> bool {
    let is = |to: &Document, field: &str, name: &str| to.get_str(field).is_ok_and(|found| found == name);
    event.get_document("to").is_ok_and(|to| is(to, "db", db) && is(to, "coll", coll))
}

/// The event for the client. Of an update that is looked up, `fullDocument` is filled in later.
///
/// # Errors
/// 47 where a version is required that was not kept.
pub(super) fn shaped(asked: &StreamOptions, event: &Event) -> Answer<Document> {
    let mut content = event.document.clone();
    let kind = content.get_str("operationType").unwrap_or_default().to_owned();
    let token = Token { position: event.position, kind: Kind::Event };
    let mut shaped = bson::doc! {"_id": token.to_document()};
    let mut take = |shaped: &mut Document, field: &str| {
        if let Some(value) = content.remove(field) {
            shaped.insert(field, value);
        }
    };
    for field in ["operationType", "clusterTime", "wallTime"] {
        take(&mut shaped, field);
    }
    if let Some(Bson::Document(origin)) = event.document.get("origin") {
        shaped.extend(origin.clone());
    }
    take(&mut shaped, "fullDocument");
    for field in ["ns", "to", "documentKey", "updateDescription"] {
        take(&mut shaped, field);
    }
    if kind == "update" {
        image(&mut shaped, "fullDocument", asked.after, event.document.get("postImage"), "post-image")?;
    }
    if ["update", "replace", "delete"].contains(&kind.as_str()) {
        let before = event.document.get("fullDocumentBeforeChange");
        image(&mut shaped, "fullDocumentBeforeChange", asked.before, before, "pre-image")?;
    }
    Ok(shaped)
}

fn image(shaped: &mut Document, field: &str, asked: Image, kept: Option<&Bson>, name: &str) -> Answer<()> {
    match (asked, kept) {
        (Image::Off, _) => {}
        (Image::Lookup, _) => drop(shaped.insert(field, Bson::Null)),
        (Image::Required, None) => {
            let message = format!(
                "Change stream was configured to require a {name} for all update, delete and replace events, but the {name} was not \
                 found: the collection was not created with changeStreamPreAndPostImages, or not when this was written"
            );
            return Err(Failure::new(codes::NO_MATCHING_DOCUMENT, message).labelled(NOT_RESUMABLE_CHANGE_STREAM_ERROR));
        }
        (Image::WhenAvailable | Image::Required, kept) => {
            shaped.insert(field, kept.cloned().unwrap_or(Bson::Null));
        }
    }
    Ok(())
}

/// The event `invalidate`, which follows an event that ends the stream.
pub(super) fn invalidate(event: &Event) -> Document {
    let token = Token { position: event.position, kind: Kind::Invalidate };
    let mut shaped = bson::doc! {"_id": token.to_document(), "operationType": "invalidate"};
    for field in ["clusterTime", "wallTime"] {
        shaped.extend(event.document.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    shaped
}
