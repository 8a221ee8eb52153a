//! A command outside transactions: its handler, within its time limit and its session. Writes that
//! have a number are in `write`, statements of transactions in `statement`.

use std::time::Instant;

use futures_util::FutureExt;

use super::{
    limits::within_limits,
    parsed::{Handler, Parsed, handle_boxed, handle_within},
    validated_read,
};
use crate::{
    command::parts::body::{Body, HandlerReply},
    failure::{Answer, Failure},
    session::{Lsid, entry::SessionEntry},
};

/// Carries it out, perhaps in a session.
pub(super) async fn run_outside_transactions<H: Handler>(
    parsed: &mut Parsed<'_>,
    lsid: Option<Lsid>,
) -> Answer<HandlerReply> {
    parsed.generic.read.check_plain(parsed.name, parsed.command.reads)?;
    let sessions = &parsed.context.tx.sessions;
    // A command that kills sessions does not stop at its own: the others would stay. It works when
    // there is no room for its own, too.
    let interruptible = lsid.filter(|_| !parsed.command.kills_sessions);
    let entry = interruptible.map(|lsid| sessions.get(&lsid, Instant::now())).transpose()?;
    let ends = parsed.ends(entry.as_deref().map(SessionEntry::interruption));
    if let Some(level) = parsed.generic.read.one_moment(parsed.command.reads) {
        let watch = &parsed.connection.doing().watch;
        let running = watch.over(validated_read::run_validated_read(parsed, level, handle_boxed::<H>).boxed());
        return within_limits(ends, running).await.map(HandlerReply::Body).map_err(Failure::outside);
    }
    let mut call = parsed.call();
    match handle_within::<H>(&mut call, ends).await {
        // The command was carried out, so it succeeds, with a `writeConcernError`.
        Err(Failure { unreplicated: Some(error), .. }) => {
            Ok(Body::empty().with_concern_error(Some(*error), &parsed.mode).into())
        }
        made => made.map_err(Failure::outside),
    }
}
