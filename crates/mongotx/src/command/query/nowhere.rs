//! Filters that match nothing: a command that is sent with one is checked by the server as with any
//! other, and changes nothing.

use bson::{Document, doc, oid::ObjectId};

/// The filter, narrowed to nothing.
pub(crate) fn nowhere(filter: &Document) -> Document {
    doc! {"$and": [{"_id": ObjectId::new()}, filter.clone()]}
}
