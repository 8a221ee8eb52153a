//! `getMore`: the next documents of an open cursor.

use std::time::Instant;

use bson::{Bson, rawdoc};

use super::{body::Body, call::Call, fields::type_name};
use crate::failure::{Answer, Failure, codes};

pub(super) async fn run(call: &mut Call<'_>) -> Answer<Body> {
    let id = match call.body.get(call.name) {
        Some(Bson::Int64(id)) => *id,
        other => {
            let found = type_name(other.unwrap_or(&Bson::Null));
            let message = format!("BSON field 'getMore.getMore' is the wrong type '{found}', expected type 'long'");
            return Err(Failure::new(codes::TYPE_MISMATCH, message));
        }
    };
    let mut fields = call.fields("getMore");
    let collection = fields.text("collection")?;
    let collection = fields.required("collection", collection)?;
    let size = fields.natural("batchSize")?.filter(|size| *size > 0);
    fields.ignore(&["term", "lastKnownCommittedOpTime"]);
    fields.finish()?;
    let namespace = call.namespace_of(&collection.into())?;
    let cursors = &call.context.tx.cursors;
    let mut open = cursors.check_out(id, &namespace, call.mode)?;
    let batch = match open.batch(size.map(|size| usize::try_from(size).unwrap_or(usize::MAX))).await {
        Ok(batch) => batch,
        Err(failure) => {
            cursors.kill(id);
            return Err(failure);
        }
    };
    let id = if batch.is_last {
        cursors.kill(id);
        0
    } else {
        cursors.give_back(id, open, Instant::now());
        id
    };
    Ok(rawdoc! {"cursor": {"nextBatch": batch.documents, "id": id, "ns": namespace.to_string()}}.into())
}
