//! What every command may use.

use crate::{options::Options, passthrough::Upstream};

/// The gateway's parts that outlive every connection.
pub struct Context {
    /// MongoTx itself: every command that reads or writes documents goes through it.
    pub client: mongotx::Client,
    /// The backing server as it is, for commands that MongoTx need not touch.
    pub upstream: Upstream,
    /// What was asked for when the gateway was started.
    pub options: Options,
}
