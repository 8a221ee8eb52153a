//! A command that failed, as the server would report it: code, message, labels, and the other
//! fields of the reply.
//!
//! | file | |
//! | --- | --- |
//! | this one | the failure and its reply |
//! | [`codes`] | MongoDB's numbers and their names |
//! | [`table`] | what each kind of MongoTx's errors becomes |

pub(crate) mod codes;
mod table;

use bson::{Bson, Document, doc};
use mongotx::{
    TxId,
    error::{TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT},
};

use crate::{error::CommandError, reply::Reply};

/// The label on what a driver may send again.
pub(crate) const RETRYABLE_WRITE_ERROR: &str = "RetryableWriteError";

/// The label on what ends a change stream that a driver may open anew where it was.
pub(crate) const RESUMABLE_CHANGE_STREAM_ERROR: &str = "ResumableChangeStreamError";

/// The label on what ends one for good.
pub(crate) const NOT_RESUMABLE_CHANGE_STREAM_ERROR: &str = "NonResumableChangeStreamError";

/// Message of an error in the gateway itself.
pub(crate) const PANICKED: &str = "a defect of the gateway itself; please report the message that led to it";

/// A command that was not carried out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    /// MongoDB's code of the error.
    pub(crate) code: i32,
    /// Message of the error (`errmsg`), for people.
    pub(crate) message: String,
    /// Labels of the error (`errorLabels`).
    pub(crate) labels: Vec<&'static str>,
    /// Further fields of the reply: `keyPattern`, `keyValue`, …
    pub(crate) details: Box<Document>,
    /// The server's `writeConcernError` for a command that was carried out, and whose effects may
    /// be lost again.
    pub(crate) unreplicated: Option<Box<Document>>,
    /// The transaction that was in the way.
    pub(crate) rival: Option<TxId>,
    /// True if the command was to be passed on, and certainly did not reach the server.
    pub(crate) is_unsent: bool,
}

/// Result of a command, or of a part of it.
pub(crate) type Answer<T> = Result<T, Failure>;

impl Failure {
    /// A failure with this code and message, without labels.
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        let (labels, details) = (Vec::new(), Box::default());
        let message = message.into();
        Self { code, message, labels, details, unreplicated: None, rival: None, is_unsent: false }
    }

    /// The failure with one more label.
    #[must_use]
    pub(crate) fn labelled(mut self, label: &'static str) -> Self {
        if !self.labels.contains(&label) {
            self.labels.push(label);
        }
        self
    }

    /// The transaction may be run again as a whole.
    #[must_use]
    pub(crate) fn transient(self) -> Self {
        self.labelled(TRANSIENT_TRANSACTION_ERROR)
    }

    /// The failure of a commit whose outcome is unknown.
    #[must_use]
    pub(crate) fn unknown_result(self) -> Self {
        self.labelled(UNKNOWN_TRANSACTION_COMMIT_RESULT)
    }

    /// The failure as the reply document.
    pub(crate) fn to_document(&self) -> Document {
        let mut reply = Document::new();
        if !self.labels.is_empty() {
            let labels: Vec<Bson> = self.labels.iter().map(|label| Bson::from(*label)).collect();
            reply.insert("errorLabels", labels);
        }
        reply.extend(doc! {
            "ok": 0.0, "errmsg": self.message.as_str(), "code": self.code, "codeName": codes::name(self.code),
        });
        reply.extend(Document::clone(&self.details));
        reply
    }
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        failure.to_document().into()
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        Self { labels: error.labels, ..Self::new(error.code.number, error.message) }
    }
}
