//! What may be chosen about a gateway.

use std::{net::SocketAddr, path::PathBuf};

use mongotx::ClientOptions;

/// A gateway that is to be started. It listens nowhere unless told so.
#[derive(Clone, Default)]
pub struct Options {
    /// The backing server.
    pub uri: String,
    /// Where to listen for TCP connections. Port 0 takes a free one.
    pub listen: Option<SocketAddr>,
    /// A Unix socket to listen on.
    pub unix: Option<PathBuf>,
    /// How the MongoTx client works that all commands share.
    pub client: ClientOptions,
}
