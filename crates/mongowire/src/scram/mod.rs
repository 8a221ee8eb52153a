//! Logging in with a password: SCRAM (RFC 5802), with SHA-1 and with SHA-256 (RFC 7677).
//!
//! | file | what |
//! | --- | --- |
//! | `mechanism` | the arithmetic, which both sides do |
//! | `client` | the client's side of an exchange |

#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

mod client;
mod mechanism;

pub use self::{
    client::{ClientFirst, ScramError, ServerFirst, ServerVerifier},
    mechanism::Mechanism,
};
