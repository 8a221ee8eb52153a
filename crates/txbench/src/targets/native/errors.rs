//! The meaning of a server error for one of the server's own transactions.

use mongodb::error::{Error, TRANSIENT_TRANSACTION_ERROR};

use crate::{
    error::OpError,
    targets::driver::{error_code, write_error},
};

const NO_SUCH_TRANSACTION: i32 = 251;
const WRITE_CONFLICT: i32 = 112;
const LOCK_TIMEOUT: i32 = 24;
const SNAPSHOT_UNAVAILABLE: i32 = 246;

/// An error of an operation in a transaction.
pub(super) fn op_error(error: Error) -> OpError {
    if error.contains_label(TRANSIENT_TRANSACTION_ERROR) {
        return OpError::Conflict(reason(error_code(&error)));
    }
    write_error(error)
}

/// Reason, by the error's code, why a transaction has to be begun again.
fn reason(code: Option<i32>) -> &'static str {
    match code {
        Some(WRITE_CONFLICT) => "write conflict",
        Some(NO_SUCH_TRANSACTION) => "expired",
        Some(LOCK_TIMEOUT) => "lock timeout",
        Some(SNAPSHOT_UNAVAILABLE) => "snapshot too old",
        Some(_) => "server in transition",
        None => "server not reached",
    }
}
