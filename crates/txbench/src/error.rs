//! Errors of a measurement (it cannot go on), and failures of one operation of a session (the
//! client tries again, or counts it).

use std::fmt;

/// Reason why a benchmark could not be run to its end. A conflict is none: it is counted.
#[derive(Debug)]
#[non_exhaustive]
pub enum BenchError {
    /// A server could not be started.
    Server(local_mongod::Error),
    /// The driver, or a server through it.
    Driver(mongodb::error::Error),
    /// An error of the target MongoTx.
    MongoTx(mongotx::Error),
    /// An argument is wrong, or demands something that cannot be done. Names the target, the
    /// workload or the option.
    Refused(String),
    /// Any other error, with its message.
    Failed(String),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => write!(f, "no server: {error}"),
            Self::Driver(error) => write!(f, "{error}"),
            Self::MongoTx(error) => write!(f, "{error}"),
            Self::Refused(reason) | Self::Failed(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<local_mongod::Error> for BenchError {
    fn from(error: local_mongod::Error) -> Self {
        Self::Server(error)
    }
}

impl From<mongodb::error::Error> for BenchError {
    fn from(error: mongodb::error::Error) -> Self {
        Self::Driver(error)
    }
}

impl From<benchkit::Error> for BenchError {
    fn from(error: benchkit::Error) -> Self {
        match error {
            benchkit::Error::Refused(reason) => Self::Refused(reason),
            benchkit::Error::Failed(reason) => Self::Failed(reason),
        }
    }
}

impl From<mongotx::Error> for BenchError {
    fn from(error: mongotx::Error) -> Self {
        Self::MongoTx(error)
    }
}

/// Failure of one operation of a [`crate::targets::Session`].
#[derive(Debug)]
pub enum OpError {
    /// A rival was in the way. The transaction is rolled back, nothing of it is left: try it again.
    /// The reason is a short constant text of the target's ("write conflict", "lock timeout", …),
    /// for counting.
    Conflict(&'static str),
    /// A value that a unique index, `_id` included, has already. The transaction is rolled back.
    Duplicate,
    /// The commit was sent and its answer did not come: the transaction may have happened.
    Unknown(BenchError),
    /// The run cannot go on.
    Fatal(BenchError),
}

/// The result of one operation.
pub type OpResult<T> = Result<T, OpError>;

impl OpError {
    /// The error of a target that cannot do something, which it names.
    pub fn unsupported(target: &str, what: impl fmt::Display) -> Self {
        Self::Fatal(BenchError::Refused(format!("{target} cannot {what}")))
    }
}

impl<E: Into<BenchError>> From<E> for OpError {
    fn from(error: E) -> Self {
        Self::Fatal(error.into())
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(reason) => write!(f, "conflict: {reason}"),
            Self::Duplicate => f.write_str("a value that is there already"),
            Self::Unknown(error) => write!(f, "the outcome of a commit is not known: {error}"),
            Self::Fatal(error) => write!(f, "{error}"),
        }
    }
}
