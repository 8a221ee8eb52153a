//! Who may do what: users, what proves that a client is one of them, and the privileges that every command needs. Nothing here
//! knows of connections; `handshake/login.rs` logs in.
//!
//! | file | |
//! | --- | --- |
//! | `users`, `user` | who there is, and the file of them |
//! | `roster` | those of a gateway that runs |
//! | `role` | what a user may do, and where |
//! | `credential` | what is kept instead of a password (RFC 5802, RFC 7677) |
//! | `scram` | the exchange with a client (pure) |
//! | `conversation` | a login between two messages |
//! | `needs`, `pipeline`, `demands` | what a command needs (pure) |
//! | `check` | whether a user has it |
//!
//! A gateway without users lets everybody who can connect do everything.

mod base64_text;
mod check;
mod conversation;
mod credential;
mod demands;
mod needs;
mod pipeline;
mod role;
mod roster;
mod scram;
mod user;
mod users;

pub(crate) use self::{
    check::check,
    conversation::{Conversation, Stage},
    needs::Access,
    role::Need,
    roster::Roster,
    scram::{First, Refused},
    user::User,
};
pub use self::{
    role::Role,
    user::UserName,
    users::{Users, UsersError},
};
