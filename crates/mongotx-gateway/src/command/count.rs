//! The command `count`: of everything by the collection's metadata, unless an index is named;
//! otherwise exactly. The library counts.

use bson::{Bson, Document, doc};

use super::parts::{
    body::Body,
    call::{Call, with_options, within},
};
use crate::{failure::Answer, fields::Fields};

/// Arguments of the command, without the collection.
pub(super) struct Count {
    filter: Option<Document>,
    limit: i64,
    skip: u64,
    collation: Option<Document>,
    hint: Option<Bson>,
}

impl Count {
    pub(super) fn parse(mut fields: Fields) -> Answer<Self> {
        let count = Self {
            filter: fields.filled("query")?,
            limit: fields.number("limit")?.unwrap_or(0),
            skip: fields.natural("skip")?.unwrap_or(0),
            collation: fields.filled("collation")?,
            hint: fields.hint()?,
        };
        fields.ignore(&["fields"]);
        fields.finish()?;
        Ok(count)
    }
}

pub(super) async fn answer_count(call: &mut Call<'_>) -> Answer<Body> {
    let namespace = call.namespace()?;
    let Count { filter, limit, skip, collation, hint } = Count::parse(call.fields("count"))?;
    let collection = call.collection::<Document>(&namespace);
    let count = if filter.is_none() && limit == 0 && skip == 0 && hint.is_none() {
        within!(call, collection.estimated_document_count()).await?
    } else {
        let action = collection.count_documents(filter.unwrap_or_default()).skip(skip).limit(limit.unsigned_abs());
        within!(call, with_options!(action, collation: collation, hint: hint)).await?
    };
    call.validate().await?;
    match i32::try_from(count) {
        Ok(count) => Body::of(&doc! {"n": count}),
        Err(_) => Body::of(&doc! {"n": i64::try_from(count).unwrap_or(i64::MAX)}),
    }
}
