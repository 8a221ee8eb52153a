//! Failure of a command: its message and its exit status.

use std::process::ExitCode;

use dtranx::client::Error;
use dtranx::remark;

pub(crate) enum Failure {
    /// The answer is no: status 1.
    No(String),
    /// The request could not be carried out: exit status 2.
    Failed(String),
    /// The member that runs was removed from its group: exit status [`REMOVED`].
    Removed(String),
}

/// Exit status of a member that was removed from its group. Starting it again is of no use.
pub(crate) const REMOVED: u8 = 3;

impl Failure {
    pub(crate) fn report(self) -> ExitCode {
        let (text, status) = match self {
            Self::No(text) => (text, 1),
            Self::Failed(text) => (text, 2),
            Self::Removed(text) => (text, REMOVED),
        };
        remark::say(text);
        ExitCode::from(status)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(_) | Error::GivenUp { .. } | Error::Unchanged { .. } => Self::No(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}
