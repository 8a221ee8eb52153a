//! Translation of MongoTx's errors into MongoDB's codes and labels.
//!
//! | kind | code | label in a transaction |
//! | --- | --- | --- |
//! | `Conflict` | 112 WriteConflict | `TransientTransactionError` |
//! | `Expired`, `Closed` | 251 NoSuchTransaction | `TransientTransactionError` |
//! | `Unavailable` | 89 NetworkTimeout | `TransientTransactionError`: nothing was committed |
//! | `Indeterminate` | 89 NetworkTimeout | at a commit `UnknownTransactionCommitResult` |
//! | `Invalid` | the server's | - |
//! | `Unsupported` | 263 OperationNotSupportedInTransaction; outside 115 CommandNotSupported | - |
//! | `Corruption` | 1 InternalError | - |

use bson::Document;
use mongotx::{
    DuplicateKey, Error, ErrorKind,
    error::{MAX_DOCUMENTS, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT},
};

use super::{Failure, codes};

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Conflict => codes::WRITE_CONFLICT,
            ErrorKind::Expired | ErrorKind::Closed => codes::NO_SUCH_TRANSACTION,
            ErrorKind::Indeterminate | ErrorKind::Unavailable => codes::NETWORK_TIMEOUT,
            ErrorKind::Unsupported => codes::NOT_IN_TRANSACTION,
            ErrorKind::Invalid => error.code().unwrap_or(codes::BAD_VALUE),
            _ => error.code().unwrap_or(codes::INTERNAL_ERROR),
        };
        let unreplicated = error.unreplicated_answer().map(|answer| Box::new(answer.concern_error.clone()));
        let details = Box::new(details(error));
        let rival = error.conflict().map(|conflict| conflict.rival);
        let failure = Failure { details, unreplicated, rival, ..Failure::new(code, words(error)) };
        match error.kind() {
            ErrorKind::Conflict | ErrorKind::Expired | ErrorKind::Unavailable | ErrorKind::Closed => {
                failure.transient()
            }
            ErrorKind::Indeterminate if error.transaction().is_some() => failure.unknown_result(),
            _ => failure,
        }
    }
}

/// The message: conflicts begin as the server's do, and limits have the names of the gateway's
/// options.
fn words(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Conflict => format!("WriteConflict error: {}", error.message()),
        ErrorKind::Invalid if error.code() == Some(codes::TRANSACTION_TOO_LARGE) => {
            error.message().replace(MAX_DOCUMENTS, "--max-transaction-documents")
        }
        ErrorKind::Expired if error.message().contains("lived longer than its maximum") => {
            format!("{} (--transaction-lifetime)", error.message())
        }
        _ => error.message().to_owned(),
    }
}

fn details(error: &Error) -> Document {
    let mut details = error.duplicate_key().map(key_of).unwrap_or_default();
    details.extend(error.info().map(|info| ("errInfo".to_owned(), info.clone().into())));
    details
}

fn key_of(duplicate: &DuplicateKey) -> Document {
    bson::doc! {"keyPattern": duplicate.pattern.clone(), "keyValue": duplicate.value.clone()}
}

impl Failure {
    /// The same failure outside a transaction: it has no label that makes drivers run a transaction
    /// again, and an unsupported operation gets the code that has nothing to do with transactions.
    #[must_use]
    pub(crate) fn outside(mut self) -> Self {
        self.labels.retain(|label| ![TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT].contains(label));
        if self.code == codes::NOT_IN_TRANSACTION {
            self.code = codes::COMMAND_NOT_SUPPORTED;
        }
        self
    }
}
