//! The server that an example runs against: the one whose connection string is its first argument,
//! or a standalone `mongod` that is started for it and ends with it.

use std::error::Error;

/// A server, and what keeps it running.
pub(crate) struct Store {
    /// Connection string of the server.
    pub(crate) uri: String,
    _started: Option<local_mongod::Server>,
}

/// The server that the command line names, or a new one.
pub(crate) async fn store() -> Result<Store, Box<dyn Error>> {
    if let Some(uri) = std::env::args().nth(1) {
        return Ok(Store { uri, _started: None });
    }
    let server = local_mongod::Server::standalone().await?;
    Ok(Store { uri: server.uri(), _started: Some(server) })
}
