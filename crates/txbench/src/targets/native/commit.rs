//! The commit, sent again while its outcome is not known, as every application with transactions
//! has to.
//!
//! The driver sends a repeated commit with `w: "majority"`. When too few nodes have confirmed a
//! commit in time it is therefore not repeated: the answer would be about another durability than
//! the one demanded.

use mongodb::{
    ClientSession,
    error::{TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT},
};

use super::errors::op_error;
use crate::{
    error::OpResult,
    targets::driver::{in_doubt, is_not_durable},
};

/// Number of times that a commit is sent.
const ATTEMPTS: usize = 10;

/// Commits. The transaction is over afterwards, whatever the answer is.
pub(super) async fn commit(session: &mut ClientSession) -> OpResult<()> {
    let mut attempt = 1;
    loop {
        let Err(error) = session.commit_transaction().await else { return Ok(()) };
        let unknown = error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT);
        if is_not_durable(&error) || (unknown && attempt == ATTEMPTS) {
            return Err(in_doubt(error));
        }
        if !unknown {
            if !error.contains_label(TRANSIENT_TRANSACTION_ERROR) {
                let _ = session.abort_transaction().await;
            }
            return Err(op_error(error));
        }
        attempt += 1;
    }
}
