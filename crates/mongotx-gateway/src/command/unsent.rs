//! Replies that are too large for the memory that is left. The client gets an error instead, so
//! what the error says has to be true: that the command was not carried out.
//!
//! | command | |
//! | --- | --- |
//! | changes documents, collections, sessions | is not undone: its reply is sent nevertheless |
//! | reads in a transaction | the transaction is rolled back, as after any error of a statement |
//! | has a cursor | the cursor ends: the batch in the reply was taken from it |

use super::table::look_up;
use crate::{
    connection::Connection,
    context::Context,
    failure::Failure,
    metrics::AbortReason,
    reply::Reply,
    request::{Request, WholeCommand},
    session::{Lsid, info::Mode, machine::State},
};

/// Undoes a command whose reply is not sent, for the reason that the client gets. False: it cannot
/// be undone, and nothing was.
pub(crate) async fn undo_read(
    context: &Context,
    connection: &Connection,
    request: &Request,
    reply: &Reply,
    reason: &Failure,
) -> bool {
    let Ok(mut body) = request.to_document() else { return true };
    if look_up(request.name()).is_some_and(|known| !known.command.can_be_undone(&body)) {
        return false;
    }
    if let Some(id) = cursor(reply) {
        context.tx.cursors.kill(id);
    }
    let mode = Mode::take(&mut body).and_then(|mode| mode.of_user(connection.user().as_deref()));
    if let Ok(Mode::Transaction { lsid, number, .. }) = mode {
        roll_back(context, &lsid, number, reason).await;
    }
    true
}

/// The cursor that a reply names, if it is open.
fn cursor(reply: &Reply) -> Option<i64> {
    let id = reply.body().get_document("cursor").ok()?.get_i64("id").ok()?;
    Some(id).filter(|id| *id != 0)
}

/// Rolls back a transaction, if it is open.
async fn roll_back(context: &Context, lsid: &Lsid, number: i64, reason: &Failure) {
    let state = &context.tx;
    let Some(entry) = state.sessions.find(lsid) else { return };
    let mut work = entry.check_out().await;
    if work.machine.newest() != number || work.machine.state() != State::Open {
        return;
    }
    let shown = work.roll_back().await;
    state.abort_listeners().report(lsid, number, AbortReason::Refused, Some(reason), shown);
    state.cursors.kill_of_transactions(lsid);
}
