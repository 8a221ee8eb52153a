//! `getMore`: the next documents of an open cursor.

use std::time::Instant;

use bson::{Bson, rawdoc};

use super::parts::{body::Body, call::Call};
use crate::{
    failure::{Answer, Failure, codes},
    fields::{Fields, type_name},
};

/// What it asks.
pub(super) struct GetMore {
    id: i64,
    collection: String,
    size: Option<u64>,
}

impl GetMore {
    /// With its first field.
    pub(super) fn parse(mut fields: Fields) -> Answer<Self> {
        let id = match fields.any("getMore").unwrap_or(Bson::Null) {
            Bson::Int64(id) => id,
            other => {
                let found = type_name(&other);
                let message = format!("BSON field 'getMore.getMore' is the wrong type '{found}', expected type 'long'");
                return Err(Failure::new(codes::TYPE_MISMATCH, message));
            }
        };
        let collection = fields.text("collection")?;
        let collection = fields.required("collection", collection)?;
        let size = fields.natural("batchSize")?.filter(|size| *size > 0);
        fields.ignore(&["term", "lastKnownCommittedOpTime"]);
        fields.finish()?;
        Ok(Self { id, collection, size })
    }
}

pub(super) async fn run(call: &mut Call<'_>) -> Answer<Body> {
    let fields = Fields::new("getMore", std::mem::take(&mut call.body));
    let GetMore { id, collection, size } = GetMore::parse(fields)?;
    let namespace = call.namespace_of(&collection.into())?;
    let cursors = &call.context.tx.cursors;
    let mut open = cursors.check_out(id, &namespace, call.user_digest(), call.mode, call.generic.api)?;
    let batch = match open.batch(size.map(|size| usize::try_from(size).unwrap_or(usize::MAX))).await {
        Ok(batch) => batch,
        Err(failure) => {
            cursors.kill(id);
            return Err(failure);
        }
    };
    let moment = open.moment;
    let id = if batch.is_last {
        cursors.kill(id);
        0
    } else {
        cursors.give_back(id, open, Instant::now());
        id
    };
    let cursor = rawdoc! {"nextBatch": batch.documents, "id": id, "ns": namespace.to_string()};
    Ok(Body::of_cursor(cursor, moment))
}
