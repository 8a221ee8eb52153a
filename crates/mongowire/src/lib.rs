//! MongoDB's wire protocol, and lean connections to one server.
//!
//! | module | what |
//! | --- | --- |
//! | [`wire`] | bytes to messages and back, for clients and for servers (pure) |
//! | [`Request`], [`error`] | one command as it came, and what is answered to one that was not carried out (pure) |
//! | [`scram`] | logging in with a password: the arithmetic, and the client's side (pure) |
//! | [`Settings`] | where a server is and how it wants to be spoken to |
//! | [`Connection`] | a message goes, a message comes |
//! | [`Pool`] | connections that are kept for those who come next |
//!
//! On the way of a command there is no other task, no channel and no copy of the command besides the one that is sent: the
//! caller's task writes the message and reads the answer, both as bytes. A command is sent once, whatever happens to it.
//!
//! Deliberately absent: finding servers and following elections, retries, sessions, cursors. Whoever needs those uses the
//! official driver, or builds on this.

mod connection;
pub mod error;
mod failure;
mod pool;
mod request;
pub mod scram;
mod settings;
pub mod wire;

pub use self::{
    connection::{Connection, Greeting, prepare, read_payload},
    failure::{Failure, Refusal},
    pool::{Lent, Pool, PoolLimits},
    request::{Request, Sequence, is_database_name},
    settings::{Address, Login, Settings},
};
