//! Commands: the table of all of them, and those that MongoTx gives their meaning, one file each
//! (small ones about the same thing share one).
//!
//! | file | what |
//! | --- | --- |
//! | `table` | a row for each command |
//! | `registry` | what a row says, and how it is found |
//! | `run/` | one command from its arrival to its reply: sessions, transactions, retryable writes |
//! | `allowed` | what a transaction may hold |
//! | `parts/` | what handlers have in common |
//! | `point_read`, `point_write` | commands about one document, as bytes, before all that |
//! | `read` | reading a command without carrying it out |
//! | `unsent` | what becomes of a command whose reply is too large to be sent |
//! | all others | handlers: each reads its own fields, calls the library and makes the reply |
//!
//! `table` knows the handlers, and nothing that they use knows it: a handler that is about other
//! commands (`explain`) is given what it needs of their rows.

mod aggregate;
mod allowed;
mod change_stream;
mod collections;
mod count;
mod current_op;
mod delete;
mod distinct;
mod end_transaction;
mod explain;
mod fail_point;
mod find;
mod find_and_modify;
mod get_more;
mod hidden;
mod indexes;
mod insert;
mod kill_cursors;
mod kill_op;
mod local_sessions;
mod map_reduce;
mod parts;
pub(crate) mod point_read;
pub(crate) mod point_write;
mod read;
mod registry;
mod run;
mod server_status;
mod sessions;
mod table;
mod tailable;
mod unsent;
mod update;

pub use self::read::read;
pub(crate) use self::{
    allowed::{check_outside, check_said},
    registry::{ArrivedCommand, NamedCommand, Route},
    table::{access_of, look_up},
    unsent::undo_read,
};
use crate::{connection::Connection, context::Context};

/// Called once when a connection has ended, whatever ended it. Sessions and cursors belong to no
/// connection: they end when their time is over, as in the server.
pub(crate) async fn connection_closed(_context: &Context, _connection: &Connection) {}
