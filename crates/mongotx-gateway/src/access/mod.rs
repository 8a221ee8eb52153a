//! Access control: users, their credentials, and the privileges that every command needs. Nothing
//! here depends on connections; `handshake/login.rs` logs in.
//!
//! | file | |
//! | --- | --- |
//! | `users`, `user` | all users, and the file with them |
//! | `roster` | the users of a running gateway, which may be read again |
//! | `role` | the privileges of a user, by database |
//! | `credential` | stored instead of a password (RFC 5802, RFC 7677) |
//! | `scram` | the exchange with a client (pure) |
//! | `conversation` | a login between two messages |
//! | `needs`, `pipeline`, `demands` | the privileges that a command needs (pure) |
//! | `check` | checks that a user has them |
//!
//! In a gateway without users, every client that can connect may do everything.

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

#[cfg(test)]
pub(crate) use self::needs::CommandToCheck;
pub(crate) use self::{
    check::check,
    conversation::{Conversation, Stage},
    needs::Access,
    role::Need,
    roster::Roster,
    scram::{ClientFirst, LoginRefused},
    user::User,
};
pub use self::{
    role::Role,
    user::UserName,
    users::{Users, UsersError},
};
