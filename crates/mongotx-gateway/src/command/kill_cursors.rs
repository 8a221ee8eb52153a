//! The command `killCursors`: closes cursors of the user, and says which were not there. The
//! cursors are in `crate::cursor`.

use bson::{Bson, doc};

use super::parts::{body::Body, call::Call};
use crate::{
    access::User,
    failure::{Answer, Failure, codes},
    fields::{Fields, type_name},
};

/// Ids of the cursors to close.
pub(super) fn parse(mut fields: Fields) -> Answer<Vec<i64>> {
    let cursors = fields.array("cursors")?;
    let cursors = fields.required("cursors", cursors)?;
    fields.finish()?;
    let id = |(n, cursor): (usize, &Bson)| match cursor {
        Bson::Int64(id) => Ok(*id),
        other => {
            let found = type_name(other);
            let message =
                format!("BSON field 'killCursors.cursors.{n}' is the wrong type '{found}', expected type 'long'");
            Err(Failure::new(codes::TYPE_MISMATCH, message))
        }
    };
    cursors.iter().enumerate().map(id).collect()
}

pub(super) async fn answer_kill_cursors(call: &mut Call<'_>) -> Answer<Body> {
    let namespace = call.namespace()?;
    let (mut killed, mut not_found) = (Vec::new(), Vec::new());
    for id in parse(call.fields("killCursors"))? {
        let table = &call.context.tx.cursors;
        let may = |user: &[u8]| user == call.user_digest() || call.user.is_some_and(User::is_root);
        let owner = table.owner(id).filter(|owner| owner.namespace == namespace && may(&owner.user));
        let is_there = owner.is_some() && table.kill(id);
        if is_there { killed.push(id) } else { not_found.push(id) }
    }
    let none: Vec<i64> = Vec::new();
    Body::of(&doc! {
        "cursorsKilled": killed, "cursorsNotFound": not_found, "cursorsAlive": none.clone(), "cursorsUnknown": none,
    })
}
