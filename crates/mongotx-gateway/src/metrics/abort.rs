//! Reasons why transactions are rolled back, as metrics and logs name them.

use crate::failure::{Failure, codes};

/// Reason why a transaction was rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AbortReason {
    /// The client has sent `abortTransaction`.
    Asked,
    /// A rival held what it needed.
    Conflict,
    /// A statement was refused, for another reason.
    Refused,
    /// The connection was lost while a statement ran.
    ConnectionLost,
    /// The transaction could not be committed, for another reason.
    NotCommitted,
    /// The transaction was open for too long.
    Lifetime,
    /// The session of the transaction was ended or killed, or not used for too long.
    SessionEnded,
    /// The session began another transaction, or wrote without one.
    Superseded,
    /// The gateway was shut down.
    Shutdown,
}

impl AbortReason {
    pub(crate) const ALL: [Self; 9] = [
        Self::Asked,
        Self::Conflict,
        Self::Refused,
        Self::ConnectionLost,
        Self::NotCommitted,
        Self::Lifetime,
        Self::SessionEnded,
        Self::Superseded,
        Self::Shutdown,
    ];

    /// Name of the reason in metrics and logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::ConnectionLost => "connection_lost",
            Self::NotCommitted => "not_committed",
            Self::Lifetime => "lifetime",
            Self::SessionEnded => "session_ended",
            Self::Superseded => "superseded",
            Self::Shutdown => "shutdown",
        }
    }

    /// The reason that a failure gives; `otherwise` if it was no conflict.
    pub(crate) fn of(failure: Option<&Failure>, otherwise: Self) -> Self {
        if failure.is_some_and(|failure| failure.code == codes::WRITE_CONFLICT) { Self::Conflict } else { otherwise }
    }
}
