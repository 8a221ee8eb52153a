//! `count`: of everything by the collection's metadata, otherwise exactly.

use bson::{Document, doc};

use super::{
    body::Body,
    call::{Call, within},
};
use crate::failure::Answer;

pub(super) async fn run(call: &mut Call<'_>) -> Answer<Body> {
    let namespace = call.namespace()?;
    let mut fields = call.fields("count");
    let filter = fields.filled("query")?;
    let (limit, skip) = (fields.number("limit")?.unwrap_or(0), fields.natural("skip")?.unwrap_or(0));
    let (collation, hint) = (fields.filled("collation")?, fields.hint()?);
    fields.ignore(&["fields"]);
    fields.finish()?;
    let collection = call.collection::<Document>(&namespace);
    let count = if filter.is_none() && limit == 0 && skip == 0 {
        within!(call, collection.estimated_document_count()).await?
    } else {
        let mut action = collection.count_documents(filter.unwrap_or_default()).skip(skip).limit(limit.unsigned_abs());
        if let Some(collation) = collation {
            action = action.collation(collation);
        }
        if let Some(hint) = hint {
            action = action.hint(hint);
        }
        within!(call, action).await?
    };
    match i32::try_from(count) {
        Ok(count) => Body::of(&doc! {"n": count}),
        Err(_) => Body::of(&doc! {"n": i64::try_from(count).unwrap_or(i64::MAX)}),
    }
}
