//! `killCursors`.

use bson::{Bson, doc};

use super::{body::Body, call::Call, fields::type_name};
use crate::failure::{Answer, Failure, codes};

pub(super) async fn run(call: &mut Call<'_>) -> Answer<Body> {
    let namespace = call.namespace()?;
    let mut fields = call.fields("killCursors");
    let cursors = fields.array("cursors")?;
    let cursors = fields.required("cursors", cursors)?;
    fields.finish()?;
    let (mut killed, mut not_found) = (Vec::new(), Vec::new());
    for (n, cursor) in cursors.iter().enumerate() {
        let Bson::Int64(id) = *cursor else {
            let found = type_name(cursor);
            let message =
                format!("BSON field 'killCursors.cursors.{n}' is the wrong type '{found}', expected type 'long'");
            return Err(Failure::new(codes::TYPE_MISMATCH, message));
        };
        let table = &call.context.tx.cursors;
        let is_there = table.owner(id).is_some_and(|owner| owner.namespace == namespace) && table.kill(id);
        if is_there { killed.push(id) } else { not_found.push(id) }
    }
    let none: Vec<i64> = Vec::new();
    Body::of(&doc! {
        "cursorsKilled": killed, "cursorsNotFound": not_found, "cursorsAlive": none.clone(), "cursorsUnknown": none,
    })
}
