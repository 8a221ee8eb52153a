//! A gateway in this process.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::Relaxed},
};

use crate::{
    connection::{Connection, Peer},
    context::Context,
    dispatch,
    options::Options,
    passthrough::Upstream,
    reply::Reply,
    request::Request,
};

/// A gateway.
pub struct Gateway {
    context: Arc<Context>,
    connections: AtomicI64,
}

/// A gateway could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The backing server cannot be used.
    #[error("the server cannot be used: {0}")]
    Client(#[from] mongotx::Error),
    /// The connection string is not one.
    #[error("the connection string cannot be used: {0}")]
    Uri(#[from] mongodb::error::Error),
}

impl Gateway {
    /// Starts a gateway.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let client = mongotx::Client::connect_with(&options.uri, options.client.clone()).await?;
        let upstream = Upstream::new(&options.uri).await?;
        Ok(Self { context: Arc::new(Context { client, upstream, options }), connections: AtomicI64::new(0) })
    }

    /// A connection of this process itself, for tests of commands.
    pub fn connect(&self) -> Connection {
        Connection::new(self.connections.fetch_add(1, Relaxed) + 1, Peer::Unix)
    }

    /// Carries out a command without the network in between.
    pub async fn run(&self, connection: &Connection, request: &Request) -> Reply {
        dispatch::run(&self.context, connection, request).await
    }

    /// Tells the commands that a connection has ended.
    pub async fn disconnect(&self, connection: &Connection) {
        connection.set_gone();
        crate::command::connection_closed(&self.context, connection).await;
    }
}
