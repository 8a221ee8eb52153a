//! MongoDB's wire protocol, and lean connections to one server.
//!
//! | module | content |
//! | --- | --- |
//! | [`wire`] | bytes to messages and back, for clients and for servers (pure) |
//! | [`Request`], [`error`] | one command as it came, and what is answered to one that was not carried out (pure) |
//! | [`scram`] | logging in with a password: the arithmetic, and the client's side (pure) |
//! | [`Settings`] | address of a server, and the options of connections to it |
//! | [`Connection`] | sends one message at a time and receives its answer |
//! | [`Pool`] | open connections, kept for later use |
//!
//! On the way of a command there is no other task, no channel and no copy of the command besides
//! the one that is sent: the caller's task writes the message and reads the answer, both as bytes.
//! A command is sent once, whatever happens to it.
//!
//! Deliberately absent: finding servers and following elections, retries, sessions, cursors.
//! Callers that need those use the official driver, or build them on this.

mod check;
mod connection;
pub mod error;
mod failure;
mod pool;
mod request;
pub mod scram;
mod settings;
mod tls;
pub mod wire;

pub use self::{
    connection::{Connection, Greeting, MAX_RUN_TOGETHER_BYTES, read_payload, set_socket_options},
    failure::{Failure, Refusal, UnreachableReason},
    pool::{Pool, PoolLimits, PooledConnection},
    request::{Request, Sequence, is_database_name},
    settings::{Address, Login, Settings},
};
