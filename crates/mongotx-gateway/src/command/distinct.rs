//! The command `distinct`: the different values of one field, in a transaction with its own writes.
//! The library finds them.

use bson::{Document, doc};

use super::parts::{
    body::Body,
    call::{Call, with_options, within},
};
use crate::{failure::Answer, fields::Fields};

/// Arguments of the command, without the collection.
pub(super) struct Distinct {
    key: String,
    filter: Document,
    collation: Option<Document>,
}

impl Distinct {
    pub(super) fn parse(mut fields: Fields) -> Answer<Self> {
        let key = fields.text("key")?;
        let distinct = Self {
            key: fields.required("key", key)?,
            filter: fields.document("query")?.unwrap_or_default(),
            collation: fields.filled("collation")?,
        };
        fields.finish()?;
        Ok(distinct)
    }
}

pub(super) async fn answer_distinct(call: &mut Call<'_>) -> Answer<Body> {
    let namespace = call.namespace()?;
    let Distinct { key, filter, collation } = Distinct::parse(call.fields("distinct"))?;
    let collection = call.collection::<Document>(&namespace);
    let action = with_options!(collection.distinct(&key, filter), collation: collation);
    let mut answer = doc! {"values": within!(call, action).await?};
    if let Some(moment) = call.validate().await? {
        answer.insert("atClusterTime", moment);
    }
    Body::of(&answer)
}
