//! Descriptions of collections and indexes, for the answers of `listCollections`, `listIndexes` and
//! others.

use bson::{Document, RawDocumentBuf, doc};
use mongotx::Namespace;

use super::{call::Call, first_batch::FirstBatch};
use crate::failure::{Answer, Failure, codes};

/// The server's description of a collection, if there is one.
pub(crate) async fn describe(call: &Call<'_>, namespace: &Namespace) -> Answer<Option<Document>> {
    let database = call.context.client.database(&namespace.db);
    Ok(database.describe_collections(doc! {"name": &namespace.coll}).await?.pop())
}

/// Lists are answered as a whole unless the client gives a batch size.
pub(crate) fn everything(first: FirstBatch) -> FirstBatch {
    FirstBatch { size: first.size.or(Some(usize::MAX)), ..first }
}

/// The description of a collection or an index, as it is answered.
///
/// # Errors
/// The document cannot be written as BSON.
pub(crate) fn to_raw(document: &Document) -> Answer<RawDocumentBuf> {
    RawDocumentBuf::try_from(document)
        .map_err(|error| Failure::new(codes::INTERNAL_ERROR, format!("a description is no BSON: {error}")))
}
