//! What every command may use.

use std::{sync::Arc, time::Instant};

use crate::{access::Users, command::State, memory::Memory, options::Options, passthrough::Upstream};

/// The gateway's parts that outlive every connection.
pub struct Context {
    /// MongoTx itself: every command that reads or writes documents goes through it.
    pub client: mongotx::Client,
    /// The backing server as it is, for commands that MongoTx need not touch.
    pub upstream: Upstream,
    /// Sessions and cursors.
    pub tx: State,
    /// What requests, answers and cursors take.
    pub(crate) memory: Arc<Memory>,
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
        let memory = Memory::new(options.limits.memory_bytes, tx.metrics.memory_bytes.clone());
        Self { client, upstream, tx, memory, users, options, started: Instant::now() }
    }
}
