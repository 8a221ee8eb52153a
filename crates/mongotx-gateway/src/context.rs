//! What every command may use.

use std::time::Instant;

use crate::{options::Options, passthrough::Upstream};

/// The gateway's parts that outlive every connection.
pub struct Context {
    /// MongoTx itself: every command that reads or writes documents goes through it.
    pub client: mongotx::Client,
    /// The backing server as it is, for commands that MongoTx need not touch.
    pub upstream: Upstream,
    /// What was asked for when the gateway was started.
    pub options: Options,
    /// When it was started.
    pub started: Instant,
}

impl Context {
    pub(crate) fn new(client: mongotx::Client, upstream: Upstream, options: Options) -> Self {
        Self { client, upstream, options, started: Instant::now() }
    }
}
