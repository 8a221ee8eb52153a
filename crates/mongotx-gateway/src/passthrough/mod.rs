//! Clients' commands that MongoTx need not touch go to the backing server as they are
//! (`upstream/`), but for fields that a server without sessions and transactions refuses (`strip`).

mod strip;

use crate::{
    connection::Connection,
    context::Context,
    error::{CommandError, code},
    reply::Reply,
    request::Request,
    upstream::Lane,
};

/// Passes a request on, over the connections of this lane. It is given up when the client is gone.
pub(crate) async fn pass_through(
    context: &Context,
    connection: &Connection,
    request: &Request,
    lane: Lane,
) -> Result<Reply, CommandError> {
    let body = strip::strip(request.body())?;
    tokio::select! {
        reply = context.upstream.run_command_on(lane, request.database(), &body, request.sequences()) => Ok(reply?),
        () = connection.gone() => Err(CommandError::new(code::CLIENT_DISCONNECT, "the client is gone: no answer is expected")),
    }
}
