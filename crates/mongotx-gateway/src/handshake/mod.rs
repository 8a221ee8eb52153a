//! Commands that the gateway answers by itself: who it is, what it can do, and whether it is there.

use bson::doc;

use crate::{
    connection::Connection,
    context::Context,
    error::{CommandError, code},
    reply::Reply,
    request::Request,
};

/// Answers one of them.
pub(crate) async fn run(
    _context: &Context,
    _connection: &Connection,
    request: &Request,
) -> Result<Reply, CommandError> {
    match request.name() {
        "ping" => Ok(doc! {"ok": 1.0}.into()),
        other => {
            Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, format!("{other} is not answered by the gateway yet")))
        }
    }
}
