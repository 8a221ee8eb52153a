//! Who may do what: users, logging in, and the privileges that every command needs.
//!
//! | file | |
//! | --- | --- |
//! | `users`, `user` | who there is, and the file of them |
//! | `role` | what a user may do, and where |
//! | `credential` | what is kept instead of a password (RFC 5802, RFC 7677) |
//! | `scram` | the exchange with a client (pure) |
//! | `login` | `saslStart`, `saslContinue`, `logout`, and the login inside `hello` |
//! | `needs`, `pipeline` | what a command needs (pure) |
//! | `check` | whether the connection's user has it |
//!
//! A gateway without users lets everybody who can connect do everything.

mod base64_text;
mod check;
mod credential;
mod login;
mod needs;
mod pipeline;
mod role;
mod scram;
mod user;
mod users;

pub(crate) use self::{
    check::{check, is_open},
    login::{Conversation, logout, run, speculate},
    user::User,
};
pub use self::{
    role::Role,
    user::UserName,
    users::{Users, UsersError},
};
