//! Failures of a command, sorted by whether the server may have run it.

use std::{fmt, io, sync::Arc, time::Duration};

use bson::RawDocument;

use crate::{scram, settings::Address, wire::WireError};

/// Why a command has no answer.
///
/// [`Failure::is_maybe_done`] says whether the server may have carried the command out.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// All connections were in use until the wait for one was over. Nothing was sent.
    #[error("all {most} connections to the server are in use, and none was free within {wait:?}")]
    Busy {
        /// The pool's limit of connections, all of which are in use.
        most: usize,
        /// Time for which a connection was waited for, the limit of [`crate::PoolLimits::wait`].
        wait: Duration,
    },
    /// No connection can be made within the limit. Nothing was sent, so the command may be sent
    /// again.
    #[error("no connection to {address} can be made: {reason}")]
    Unreachable {
        /// Address of the server that could not be reached.
        address: Address,
        /// Cause of the failed connection: the network, TLS, the greeting or the time limit.
        reason: UnreachableReason,
    },
    /// The server refuses user, password or mechanism. Nothing was sent; trying again does not
    /// help.
    #[error("the server {address} does not let this user log in: {reason}")]
    Login {
        /// Address of the server that refused the login.
        address: Address,
        /// Message of the server, or what is wrong with its message.
        reason: String,
    },
    /// A message of this command would be longer than any may be. Nothing was sent.
    #[error("a command of {bytes} bytes: a message has at most {most}")]
    TooLong {
        /// Length of the message that was to be sent, in bytes.
        bytes: usize,
        /// Length of the longest message that the server takes, in bytes, as its greeting says.
        most: usize,
    },
    /// The connection broke before all of the command was on its way: the server cannot have
    /// carried it out.
    #[error("the connection was lost before the command was sent: {0}")]
    Unsent(Arc<io::Error>),
    /// The connection broke after the command was sent: it may or may not have been carried out.
    #[error("the connection was lost and the answer with it: {0}")]
    Lost(Arc<io::Error>),
    /// No answer came within the limit: the command may or may not have been carried out.
    #[error("the server did not answer within {0:?}: the command was lost, or the answer with it")]
    Late(Duration),
    /// The bytes received are no valid answer, so the connection was closed. The command may have
    /// been carried out.
    #[error("the server's answer cannot be understood: {0}")]
    Garbled(#[from] WireError),
    /// An answer came to another request, so the connection was closed. The command may have been
    /// carried out.
    #[error("the server answers another message than was sent")]
    OutOfStep,
    /// The connection was used before, and its answer was not waited for. Nothing was sent.
    #[error("the connection is of no use any more")]
    Broken,
    /// The pool was closed by [`crate::Pool::close`]. Nothing was sent; use another pool.
    #[error("the connections are closed")]
    Closed,
}

/// Reason why a connection cannot be made.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnreachableReason {
    /// The network, or TLS, says so.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// The server did not answer within the time limit.
    #[error("it did not answer within {0:?}")]
    Slow(Duration),
    /// The answer to `hello` is not one that a server gives.
    #[error("{0}")]
    Greeting(String),
}

impl Failure {
    /// Returns true if the command may have been carried out. False only where it is certain that
    /// it was not.
    pub fn is_maybe_done(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Late(_) | Self::Garbled(_) | Self::OutOfStep)
    }

    pub(crate) fn unsent(error: io::Error) -> Self {
        Self::Unsent(Arc::new(error))
    }

    pub(crate) fn lost(error: io::Error) -> Self {
        Self::Lost(Arc::new(error))
    }

    /// The same of a connection that is being made: nothing was sent that matters.
    pub(crate) fn while_opening(self, address: &Address) -> Self {
        let reason = match self {
            Self::Lost(error) | Self::Unsent(error) => UnreachableReason::Io(error),
            Self::Late(limit) => UnreachableReason::Slow(limit),
            Self::Garbled(_) | Self::OutOfStep => UnreachableReason::Greeting(self.to_string()),
            other => return other,
        };
        Self::Unreachable { address: address.clone(), reason }
    }

    pub(crate) fn login(address: &Address, reason: impl fmt::Display) -> Self {
        Self::Login { address: address.clone(), reason: reason.to_string() }
    }

    pub(crate) fn scram(address: &Address) -> impl Fn(scram::ScramError) -> Self {
        move |refused| Self::login(address, refused)
    }
}

/// An answer that says that the server has not carried a command out, or not to its end (`ok: 0`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Error code that the server returned, or 8 (UnknownError) if its answer has none.
    pub code: i32,
    /// Error message that the server returned, for people; programs decide by the code.
    pub message: String,
}

impl Refusal {
    /// The server's refusal of a command, if this answer is one. An answer without a readable `ok`
    /// counts as a refusal.
    pub fn of(answer: &RawDocument) -> Option<Self> {
        let ok = answer.get("ok").ok().flatten();
        let is_one = |ok: bson::RawBsonRef<'_>| {
            ok.as_f64() == Some(1.0) || ok.as_i32() == Some(1) || ok.as_i64() == Some(1) || ok.as_bool() == Some(true)
        };
        if ok.is_some_and(is_one) {
            return None;
        }
        let code = answer.get("code").ok().flatten();
        let code = code.and_then(|code| code.as_i32().or_else(|| code.as_f64().map(|code| code as i32)));
        let message = answer.get_str("errmsg").unwrap_or("the server gave no reason").to_owned();
        // UnknownError.
        Some(Self { code: code.unwrap_or(8), message })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn answers_are_refusals_unless_they_are_ok() {
        for ok in [rawdoc! {"ok": 1.0}, rawdoc! {"n": 1, "ok": 1}, rawdoc! {"ok": true}] {
            assert_eq!(Refusal::of(&ok), None);
        }
        let refused = rawdoc! {"ok": 0.0, "errmsg": "no", "code": 20};
        assert_eq!(Refusal::of(&refused), Some(Refusal { code: 20, message: "no".to_owned() }));
        assert_eq!(Refusal::of(&rawdoc! {}).unwrap().code, 8);
        assert_eq!(Refusal::of(&rawdoc! {"ok": "1"}).unwrap().code, 8);
    }
}
