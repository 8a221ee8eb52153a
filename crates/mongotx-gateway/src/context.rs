//! What every command may use.

use std::time::Instant;

use crate::{access::Users, command::State, options::Options, passthrough::Upstream};

/// The gateway's parts that outlive every connection.
pub struct Context {
    /// MongoTx itself: every command that reads or writes documents goes through it.
    pub client: mongotx::Client,
    /// The backing server as it is, for commands that MongoTx need not touch.
    pub upstream: Upstream,
    /// Sessions and cursors.
    pub tx: State,
    /// Who may log in. `None`: nobody has to.
    pub(crate) users: Option<Users>,
    /// What was asked for when the gateway was started.
    pub options: Options,
    /// When it was started.
    pub started: Instant,
}

impl Context {
    pub(crate) fn new(client: mongotx::Client, upstream: Upstream, users: Option<Users>, options: Options) -> Self {
        let tx = State::new(options.sessions);
        Self { client, upstream, tx, users, options, started: Instant::now() }
    }
}
