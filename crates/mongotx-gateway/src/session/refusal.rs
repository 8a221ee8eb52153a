//! Refusals of the state machine, with the server's codes and words.

use crate::failure::{Failure, codes};

/// A command that does not fit the state of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The session has a newer number.
    TooOld {
        /// The number that the client has sent.
        number: i64,
        /// The newest number of the session.
        newest: i64,
    },
    /// No such transaction is open.
    NotInProgress {
        /// The number that the client has sent.
        number: i64,
        /// The newest number of the session.
        newest: i64,
    },
    /// `startTransaction` with a number that was used.
    AlreadyBegun,
    /// A retryable write with the number of a transaction.
    IsTransaction,
    /// The transaction was committed before.
    Committed {
        /// Number of the transaction in its session.
        number: i64,
    },
    /// The transaction was rolled back before.
    Aborted {
        /// Number of the transaction in its session.
        number: i64,
    },
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::TooOld { number, newest } => {
                let message = format!(
                    "Cannot start transaction with {{ txnNumber: {number} }}, because a newer transaction with {{ txnNumber: {newest} }} has already started on this session."
                );
                Failure::new(codes::TRANSACTION_TOO_OLD, message)
            }
            Refusal::NotInProgress { number, newest } => {
                let message = format!(
                    "Given transaction number {number} does not match any in-progress transactions. The active transaction number is {newest}"
                );
                Failure::new(codes::NO_SUCH_TRANSACTION, message).transient()
            }
            Refusal::AlreadyBegun => Failure::new(
                codes::CONFLICTING_OPERATION_IN_PROGRESS,
                "Only servers in a sharded cluster can start a new transaction at the active transaction number",
            ),
            Refusal::IsTransaction => Failure::new(
                codes::INCOMPLETE_TRANSACTION_HISTORY,
                "Cannot retry a retryable write that has been converted into a transaction",
            ),
            Refusal::Committed { number } => {
                let message = format!("Transaction with {{ txnNumber: {number} }} has been committed.");
                Failure::new(codes::TRANSACTION_COMMITTED, message)
            }
            Refusal::Aborted { number } => {
                let message = format!("Transaction with {{ txnNumber: {number} }} has been aborted.");
                Failure::new(codes::NO_SUCH_TRANSACTION, message).transient()
            }
        }
    }
}
