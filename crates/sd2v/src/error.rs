//! What this crate refuses, and why.

/// Why a document, filter, update or projection was refused, or could not be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The application used a field name that MongoTx stores its own data under.
    #[error("the field {field:?} is reserved by MongoTx{at}")]
    Reserved {
        /// The reserved name.
        field: String,
        /// Where it was found, empty or starting with a space.
        at: String,
    },
    /// A construct that cannot be rewritten so that its meaning is kept.
    #[error("{construct} is not supported {context}: {reason}")]
    Unsupported {
        /// The operator or form, as MongoDB names it.
        construct: String,
        /// Where: `in a filter`, `in an update`, …
        context: &'static str,
        /// Why it is refused.
        reason: &'static str,
    },
    /// The server would refuse it too; `code` is the server's.
    #[error("{message}")]
    Invalid {
        /// MongoDB's error code.
        code: i32,
        /// What is wrong, naming the field.
        message: String,
    },
    /// A stored document whose reserved fields have a shape that MongoTx never writes.
    #[error(
        "the stored document with _id {id} has a malformed field {field:?}: {found}; \
         `mongotx doctor` names such documents, and strips them with --repair"
    )]
    Corrupt {
        /// Its `_id`, printed.
        id: String,
        /// The reserved field.
        field: &'static str,
        /// What stands there.
        found: String,
    },
}
