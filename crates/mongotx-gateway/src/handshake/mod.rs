//! Commands that the gateway answers by itself: who it is, what it can do, and whether it is there.
//!
//! | file | commands |
//! | --- | --- |
//! | `hello` | `hello`, `isMaster`: a router, so that drivers offer transactions |
//! | `metadata` | what a client says about itself in them |
//! | `about` | `getCmdLineOpts`, `listCommands` |
//! | `session` | `startSession` |
//! | `whoami` | `whatsmyuri`, `connectionStatus` |
//! | `login` | `saslStart`, `saslContinue`, `logout`, and the login inside `hello` |

mod about;
mod hello;
mod login;
mod metadata;
mod session;
mod whoami;

use bson::doc;

use crate::{
    connection::Connection,
    context::Context,
    error::{CommandError, code},
    reply::Reply,
    request::Request,
};

use self::hello::SESSION_TIMEOUT_MINUTES;

/// Answers one of them.
pub(crate) fn run(context: &Context, connection: &Connection, request: &Request) -> Result<Reply, CommandError> {
    match request.name() {
        "ping" => Ok(doc! {"ok": 1.0}.into()),
        "hello" | "isMaster" | "ismaster" => {
            let mut reply = hello::run(connection, request)?;
            Ok(login::speculate(context, connection, request, &mut reply).map_or_else(Reply::from, |()| reply.into()))
        }
        "saslStart" | "saslContinue" => {
            Ok(login::run(context, connection, request).map_or_else(Reply::from, Reply::from))
        }
        "getCmdLineOpts" => about::command_line(context, request).map(Reply::from),
        "listCommands" => Ok(about::commands().into()),
        "startSession" => Ok(session::start().into()),
        "whatsmyuri" => Ok(whoami::address(connection).into()),
        "connectionStatus" => Ok(whoami::status(connection, request).into()),
        "logout" => Ok(login::logout(connection).into()),
        other => Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, format!("{other} is not answered by the gateway"))),
    }
}
