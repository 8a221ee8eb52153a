//! Errors of a client: each says what is known about its transaction.

use super::unknown::Unknown;
use crate::core::{LimitError, Refusal, ServerId};

/// Result of the functions of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a client. Only after [`Error::Unknown`] may the transaction be committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The transaction is not committed, and the refusal says whether to try again
    /// ([`Refusal::advice`]).
    #[error("not committed: {0}")]
    Refused(Refusal),
    /// The transaction is not committed after as many attempts, or as long, as the options allow.
    #[error("not committed after {attempts} attempts: {last}")]
    GivenUp {
        /// Number of attempts that were refused.
        attempts: u32,
        /// Refusal of the last attempt.
        last: Refusal,
    },
    /// The answer to the commit was lost: it may be committed. [`Unknown::ask_again`] finds out.
    #[error("it is not known whether the transaction is committed: {0}")]
    Unknown(Unknown),
    /// A server could not be reached, or did not answer a read. Nothing was committed.
    #[error("server {server}: {why}")]
    Unavailable {
        /// Id of the server that did not answer.
        server: ServerId,
        /// Reason why the server was given up.
        why: String,
    },
    /// No server of the cluster could be reached.
    #[error("no server could be reached: {why}")]
    Unreachable {
        /// Reason of the failure at the last address.
        why: String,
    },
    /// The members of a group are not changed.
    #[error("the members of server {server} are not changed: {why}")]
    Unchanged {
        /// Id of the group's server.
        server: ServerId,
        /// Reason, as the member that leads says it.
        why: String,
    },
    /// A key, value or transaction is beyond a limit. Nothing was committed.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The application gave the transaction up. Nothing was committed; all that it had read held at
    /// one instant.
    #[error("{0}")]
    Aborted(String),
}

impl Error {
    /// Returns true if the error is about a server that did not answer, and not about anything that
    /// was read.
    pub(super) const fn is_of_a_server(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unreachable { .. } | Self::Unknown(_))
    }
}
