//! Why a benchmark could not be run to its end.

use std::fmt;

/// The reason, in the words of whoever gave it. A conflict is not one: it is counted.
#[derive(Debug)]
pub(crate) enum BenchError {
    /// A server could not be started.
    Server(testkit::Error),
    /// The driver, or a server through it.
    Driver(mongodb::error::Error),
    /// MongoTx.
    MongoTx(mongotx::Error),
    /// Anything else, a wrong sum of balances above all.
    Failed(String),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => write!(f, "no server: {error}"),
            Self::Driver(error) => write!(f, "{error}"),
            Self::MongoTx(error) => write!(f, "{error}"),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<testkit::Error> for BenchError {
    fn from(error: testkit::Error) -> Self {
        Self::Server(error)
    }
}

impl From<mongodb::error::Error> for BenchError {
    fn from(error: mongodb::error::Error) -> Self {
        Self::Driver(error)
    }
}

impl From<mongotx::Error> for BenchError {
    fn from(error: mongotx::Error) -> Self {
        Self::MongoTx(error)
    }
}
