//! Commands that the gateway answers by itself: about its identity, its abilities and its
//! connections.
//!
//! | file | commands |
//! | --- | --- |
//! | `hello` | `hello`, `isMaster`: a router or a replica set, so that drivers offer transactions |
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

pub(crate) use self::about::{Listed, command_line, commands};
use crate::{connection::Connection, context::Context, error::CommandError, reply::Reply, request::Request};

/// Answers `ping` with `ok`.
pub(crate) fn ping() -> Reply {
    doc! {"ok": 1.0}.into()
}

/// `hello` and `isMaster`, with the login that one of them may begin.
///
/// # Errors
/// The server's, for fields that cannot be.
pub(crate) fn hello(context: &Context, connection: &Connection, request: &Request) -> Result<Reply, CommandError> {
    let (timeout, members) = (context.tx.limits().session_timeout, context.members.as_ref());
    let mut reply = hello::answer_hello(&context.options, timeout, members, connection, request)?;
    Ok(login::speculate(context, connection, request, &mut reply).map_or_else(Reply::from, |()| reply.into()))
}

/// Answers `saslStart`: begins a login.
pub(crate) fn start_login(context: &Context, connection: &Connection, request: &Request) -> Reply {
    login::start(context, connection, request).map_or_else(Reply::from, Reply::from)
}

/// Answers `saslContinue`: goes on with a login.
pub(crate) fn continue_login(context: &Context, connection: &Connection, request: &Request) -> Reply {
    login::proceed(context, connection, request).map_or_else(Reply::from, Reply::from)
}

/// Answers `logout`: the connection has no user.
pub(crate) fn logout(connection: &Connection) -> Reply {
    login::logout(connection).into()
}

/// Answers `startSession` with a session id.
pub(crate) fn start_session(context: &Context) -> Reply {
    session::start(context.tx.limits().session_timeout).into()
}

/// `getnonce`: a new number each time. It belongs to a login mechanism that no server has any more;
/// only old clients send it.
pub(crate) fn nonce() -> Reply {
    doc! {"nonce": format!("{:016x}", rand::random::<u64>()), "ok": 1.0}.into()
}

/// Answers `whatsmyuri` with the client's address.
pub(crate) fn address(connection: &Connection) -> Reply {
    whoami::address(connection).into()
}

/// Answers `connectionStatus` with the connection's user.
pub(crate) fn status(connection: &Connection, request: &Request) -> Reply {
    whoami::status(connection, request).into()
}
