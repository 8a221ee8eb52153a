//! A login between two messages of its client, kept with the connection. `handshake/login.rs`
//! carries it on.

use std::sync::Arc;

use mongowire::scram::Mechanism;

use super::{
    scram::Exchange,
    user::{User, UserName},
};

/// A login that has begun.
pub(crate) struct Conversation {
    pub(crate) mechanism: Mechanism,
    pub(crate) name: UserName,
    /// The user who logs in. `None`: there is no user of this name.
    pub(crate) user: Option<Arc<User>>,
    /// The client wants no empty message at the end.
    pub(crate) skips_empty: bool,
    pub(crate) stage: Stage,
}

/// The message that the client has to send next.
pub(crate) enum Stage {
    /// The client has to prove that it knows the password.
    Proof(Exchange),
    /// The client has proved that it knows the password, and has to send an empty message.
    Empty,
}
