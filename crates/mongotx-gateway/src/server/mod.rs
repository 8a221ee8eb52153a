//! Clients' connections: accepted, read, answered, limited, ended.
//!
//! | file | what |
//! | --- | --- |
//! | `listener` | sockets that accept connections |
//! | `serve` | one connection, from its first byte to its last |
//! | `read` | one message off a connection |
//! | `answer` | one message to its answer |
//!
//! There is one task per connection and one command at a time on it: what a client does to its own connection is seen by
//! no other.

mod answer;
mod listener;
mod read;
mod serve;

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::Relaxed},
};

use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::{
    listener::{Listener, prepare},
    read::read_payload,
    serve::Socket,
};
use crate::{
    connection::{Connection, Peer},
    context::Context,
};

/// What all connections share.
pub(crate) struct Server {
    pub(crate) context: Arc<Context>,
    /// No new commands: connections end as soon as they have answered.
    pub(crate) closing: CancellationToken,
    /// No waiting for commands any more: connections end now.
    pub(crate) ending: CancellationToken,
    /// Everything that runs.
    pub(crate) tasks: TaskTracker,
    /// One permit per connection that may be open.
    free: Arc<Semaphore>,
    last_id: AtomicI64,
}

impl Server {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let free = Arc::new(Semaphore::new(context.options.limits.connections.min(Semaphore::MAX_PERMITS)));
        let [closing, ending] = [(); 2].map(|()| CancellationToken::new());
        Self { context, closing, ending, tasks: TaskTracker::new(), free, last_id: AtomicI64::new(0) }
    }

    /// A connection with a number of its own.
    pub(crate) fn connection(&self, peer: Peer) -> Connection {
        Connection::new(self.last_id.fetch_add(1, Relaxed) + 1, peer)
    }

    /// Serves a connection in a task of its own, or closes it when there are too many.
    pub(crate) fn admit(self: &Arc<Self>, socket: impl Socket, peer: Peer) {
        let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() else {
            tracing::warn!(%peer, "a connection is closed: there are as many as the limit allows");
            return;
        };
        let server = Arc::clone(self);
        self.tasks.spawn(async move {
            serve::serve(&server, socket, peer).await;
            drop(permit);
        });
    }
}
