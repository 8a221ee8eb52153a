//! The commands that MongoTx gives their meaning, one file each.

use crate::{
    connection::Connection,
    context::Context,
    error::{CommandError, code},
    reply::Reply,
    request::Request,
};

/// Carries out one of them.
pub(crate) async fn run(
    _context: &Context,
    _connection: &Connection,
    request: &Request,
) -> Result<Reply, CommandError> {
    let text = format!("{} is not answered by the gateway yet", request.name());
    Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, text))
}

/// Called once when a connection has ended, whatever ended it.
pub(crate) async fn connection_closed(_context: &Context, _connection: &Connection) {}
