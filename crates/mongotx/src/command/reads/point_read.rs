//! The committed document of one `_id`, outside transactions, as the server's bytes. A document
//! that a transaction holds, and an `_id` that may match in another way than by its value, are read
//! by `find`.

use bson::{Bson, RawBsonRef, RawDocumentBuf, doc};

use super::find;
use crate::{
    coordinator::{
        Core,
        request::{query::Query, query_options::QueryOptions},
    },
    document,
    error::Result,
    options::Namespace,
};

/// The document of this `_id`: one `find` of bytes. Where a transaction holds the document, or the
/// `_id` may match in another way than by its value, it is read like any other query.
#[tracing::instrument(name = "mongotx.find", level = "debug", skip_all, fields(%ns))]
pub(crate) async fn fetch(core: &Core, ns: &Namespace, id: RawBsonRef<'_>) -> Result<Option<RawDocumentBuf>> {
    let collection = core.catalog.look_up(ns).await?;
    let is_exact = match id {
        RawBsonRef::Document(_) | RawBsonRef::Array(_) | RawBsonRef::RegularExpression(_) => false,
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) => !collection.has_collation,
        _ => true,
    };
    if is_exact && collection.view.is_none() {
        match core.server.find_stored(ns, id).await? {
            Some(found) if document::has_reserved(&found)? => {}
            found => return Ok(found),
        }
    }
    let query = Query { limit: 1, ..Query::of(doc! {"_id": {"$eq": Bson::try_from(id)?}}, QueryOptions::default()) };
    let asked = Box::pin(async { find::find_documents(core, None, ns, &query).await?.next().await.transpose() });
    asked.await
}
