//! `killOp`: ends a command that runs at this gateway, by the number that `currentOp` shows. Users
//! may end their own, and `root` those of others.
//!
//! A number that belongs to no command of the gateway may be an operation of the server, as the
//! server's log shows them: for `root` the command is passed on.

use bson::doc;

use super::parts::{
    body::{Body, HandlerReply},
    call::Call,
};
use crate::{
    access::User,
    failure::{Answer, Failure, codes},
    state::Interrupted,
    upstream::Lane,
};

pub(super) async fn answer_kill_op(call: &mut Call<'_>) -> Answer<HandlerReply> {
    let whole = call.body.clone();
    let mut fields = call.fields("killOp");
    let opid = fields.number("op")?;
    let opid = fields.required("op", opid)?;
    fields.finish()?;
    let is_root = call.user.is_none_or(User::is_root);
    let own = call.user.map(|user| &user.name);
    match call.context.tx.interrupt(opid, |who| is_root || who.user.as_ref() == own) {
        Interrupted::Notified(_) => Body::of(&doc! {"info": "attempting to kill op"}).map(HandlerReply::from),
        Interrupted::Cannot => {
            let message = "the command has no session, or is short: it cannot be interrupted";
            Err(Failure::new(codes::COMMAND_NOT_SUPPORTED, message))
        }
        Interrupted::NotHere if is_root => {
            call.body = whole;
            Ok(HandlerReply::from(call.send_on_by(Lane::Own).await?))
        }
        Interrupted::NotHere | Interrupted::NotAllowed => {
            Err(Failure::new(codes::UNAUTHORIZED, "not authorized on admin to execute command killOp"))
        }
    }
}
