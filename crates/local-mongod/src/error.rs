//! The one error type of the crate: what is missing, and what the person running the tests can do
//! about it.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Everything that can go wrong between "a test wants a server" and "the server answers".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `MONGOTX_MONGOD` is set to something that cannot be run.
    #[error("MONGOTX_MONGOD is set to {path:?}, which is not an executable file")]
    BadVariable {
        /// The value of the variable.
        path: PathBuf,
    },
    /// There is no mongod and no place to keep a fetched one.
    #[error(
        "no mongod found, and no cache folder to fetch one into: set HOME or XDG_CACHE_HOME to an absolute path, or \
         {ADVICE}"
    )]
    NoCacheFolder,
    /// There is no mongod, and fetching one failed.
    #[error("no mongod found, and fetching one failed: {reason}; to go on, {ADVICE}")]
    Fetch {
        /// The missing tool, with the last output of one that failed.
        reason: String,
    },
    /// A process could not be started, signalled or ended.
    #[error(transparent)]
    Process(#[from] child_processes::Error),
    /// A file or folder operation failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// The action that failed, with its file.
        action: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Each port that was free was taken before mongod could listen on it.
    #[error("every port tried on 127.0.0.1 was taken before mongod could listen on it, {attempts} in all")]
    NoFreePort {
        /// Number of ports that were tried.
        attempts: usize,
    },
    /// mongod ended before it was ready.
    #[error("mongod ended while starting ({status}); its last words:\n{log}")]
    Died {
        /// Exit status of the server.
        status: ExitStatus,
        /// The last lines of its console and its log.
        log: String,
    },
    /// mongod did not become ready in time.
    #[error("mongod is not ready after {limit:?} (last answer: {last}); its last words:\n{log}")]
    NotReady {
        /// Time limit that was exceeded.
        limit: Duration,
        /// Last answer of the server.
        last: String,
        /// The last lines of its console and its log.
        log: String,
    },
    /// The call needs a running mongod.
    #[error("the server is not running")]
    NotRunning,
    /// The call needs a mongod that has ended.
    #[error("the server is running already, as process {pid}")]
    StillRunning {
        /// Id of the process that lives on.
        pid: u32,
    },
    /// Error of the MongoDB driver.
    #[error("the MongoDB driver failed: {0}")]
    Driver(#[source] Box<mongodb::error::Error>),
}

/// Advice for a user who has no mongod.
const ADVICE: &str = "install mongod so that it is on PATH, or set MONGOTX_MONGOD to the path of one";

impl Error {
    /// Gives an I/O error the action it interrupted.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}

impl From<mongodb::error::Error> for Error {
    fn from(source: mongodb::error::Error) -> Self {
        Self::Driver(Box::new(source))
    }
}
