//! `distinct`.

use bson::{Document, doc};

use super::{
    body::Body,
    call::{Call, within},
};
use crate::failure::Answer;

pub(super) async fn run(call: &mut Call<'_>) -> Answer<Body> {
    let namespace = call.namespace()?;
    let mut fields = call.fields("distinct");
    let key = fields.text("key")?;
    let key = fields.required("key", key)?;
    let filter = fields.document("query")?.unwrap_or_default();
    let collation = fields.filled("collation")?;
    fields.finish()?;
    let collection = call.collection::<Document>(&namespace);
    let mut action = collection.distinct(&key, filter);
    if let Some(collation) = collation {
        action = action.collation(collation);
    }
    let values = within!(call, action).await?;
    Body::of(&doc! {"values": values})
}
