//! Errors of this crate: the construct that is refused, with its field, and the reason. Errors of
//! servers are no matter of it.

/// Why a document, filter, update or projection was refused, or could not be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The application used a field name that MongoTx stores its own data under.
    #[error("the field {field:?} is reserved by MongoTx{at}")]
    Reserved {
        /// The reserved name that was used.
        field: String,
        /// The place where it stands, such as ` in a filter`; empty, or beginning with a space.
        at: String,
    },
    /// A construct that cannot be rewritten so that its meaning is kept.
    #[error("{construct} is not supported {context}: {reason}")]
    Unsupported {
        /// The operator or form, as MongoDB names it.
        construct: String,
        /// The place where it stands: `in a filter`, `in an update`, …
        context: &'static str,
        /// The reason why it is refused.
        reason: &'static str,
    },
    /// The server would refuse it too; `code` is the server's.
    #[error("{message}")]
    Invalid {
        /// MongoDB's code for this error.
        code: i32,
        /// Message that names the field and what is wrong with it.
        message: String,
    },
    /// A stored document whose reserved fields have a shape that MongoTx never writes.
    #[error(
        "the stored document with _id {id} has a malformed field {field:?}: {found}; \
         `mongotx doctor` names such documents, and strips them with --repair"
    )]
    Corrupt {
        /// `_id` of the stored document, printed.
        id: String,
        /// The reserved field whose value is wrong.
        field: &'static str,
        /// The value found there, printed.
        found: String,
    },
}
