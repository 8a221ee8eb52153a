//! Options of a server that is started: a standalone or a replica set, in memory or on disk, and
//! parameters of `mongod`. Starting it is in `server`.

use std::ffi::OsString;
use std::path::PathBuf;

/// A server to be started. The defaults are those of [`crate::Server::standalone`]
/// and [`crate::Server::replica_set`].
///
/// ```no_run
/// # async fn example() -> Result<(), local_mongod::Error> {
/// let server = local_mongod::ServerOptions::standalone().arg("--setParameter").arg("ttlMonitorEnabled=false").start().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub(crate) replica_set: bool,
    /// One of several nodes of a replica set, which is initiated when all of them are there.
    pub(crate) member: bool,
    pub(crate) args: Vec<OsString>,
    pub(crate) dbpath: Option<PathBuf>,
    pub(crate) port: Option<u16>,
    pub(crate) cache_gb: f64,
    pub(crate) mongod: Option<PathBuf>,
    pub(crate) in_memory: bool,
}

impl ServerOptions {
    /// A server that is no member of a replica set, and so refuses native transactions.
    pub fn standalone() -> Self {
        Self {
            replica_set: false,
            member: false,
            args: Vec::new(),
            dbpath: None,
            port: None,
            cache_gb: 0.25,
            mongod: None,
            in_memory: false,
        }
    }

    /// A replica set of one node, which has native transactions.
    pub fn replica_set() -> Self {
        Self { replica_set: true, ..Self::standalone() }
    }

    /// Adds one more argument for mongod, after all others.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// A folder for the data that outlives the server. Without it the data goes with the server.
    ///
    /// A replica set that is to start again on the same data needs the same [`ServerOptions::port`]
    /// too.
    #[must_use]
    pub fn dbpath(mut self, folder: impl Into<PathBuf>) -> Self {
        self.dbpath = Some(folder.into());
        self
    }

    /// The port to listen on. Without it, one that is free; with it, no other one is tried.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// The size of the storage engine's cache in GB, 0.25 unless set, which is the least mongod
    /// takes.
    #[must_use]
    pub fn cache_size_gb(mut self, size_gb: f64) -> Self {
        self.cache_gb = size_gb;
        self
    }

    /// Keeps the data in memory where the machine has plenty of it: the journal costs nothing then,
    /// and a server that is killed finds its data again nevertheless. Not for servers that are
    /// measured.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// The mongod to run. Without it, the one that [`crate::locate()`] finds or fetches.
    #[must_use]
    pub fn mongod(mut self, binary: impl Into<PathBuf>) -> Self {
        self.mongod = Some(binary.into());
        self
    }
}
