//! Errors that answer a command: `ok: 0` with MongoDB's error code, the code's name and a message.
//!
//! Errors that end the connection instead are [`crate::wire::WireError`].

#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use bson::{Bson, Document, doc};

/// One of MongoDB's error codes, with the name that drivers show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Number of the error code, as drivers compare it.
    pub number: i32,
    /// Name of the code, `codeName` in answers.
    pub name: &'static str,
}

/// Error codes of commands that are answered without asking a server.
pub mod code {
    use super::Code;

    macro_rules! codes {
        ($($constant:ident = $number:literal $name:ident;)*) => {
            $(#[doc = concat!(stringify!($number), " ", stringify!($name), ".")]
            pub const $constant: Code = Code { number: $number, name: stringify!($name) };)*
        };
    }

    codes! {
        INTERNAL_ERROR = 1 InternalError;
        BAD_VALUE = 2 BadValue;
        HOST_UNREACHABLE = 6 HostUnreachable;
        FAILED_TO_PARSE = 9 FailedToParse;
        UNAUTHORIZED = 13 Unauthorized;
        TYPE_MISMATCH = 14 TypeMismatch;
        OVERFLOW = 15 Overflow;
        AUTHENTICATION_FAILED = 18 AuthenticationFailed;
        ILLEGAL_OPERATION = 20 IllegalOperation;
        INVALID_BSON = 22 InvalidBSON;
        COMMAND_NOT_FOUND = 59 CommandNotFound;
        INVALID_OPTIONS = 72 InvalidOptions;
        INVALID_NAMESPACE = 73 InvalidNamespace;
        NETWORK_TIMEOUT = 89 NetworkTimeout;
        SHUTDOWN_IN_PROGRESS = 91 ShutdownInProgress;
        COMMAND_NOT_SUPPORTED = 115 CommandNotSupported;
        EXCEEDED_MEMORY_LIMIT = 146 ExceededMemoryLimit;
        CLIENT_METADATA_MISSING_FIELD = 183 ClientMetadataMissingField;
        CLIENT_METADATA_APP_NAME_TOO_LARGE = 184 ClientMetadataAppNameTooLarge;
        CLIENT_METADATA_DOCUMENT_TOO_LARGE = 185 ClientMetadataDocumentTooLarge;
        CLIENT_METADATA_CANNOT_BE_MUTATED = 186 ClientMetadataCannotBeMutated;
        CLIENT_DISCONNECT = 279 ClientDisconnect;
        UNSUPPORTED_OP_QUERY_COMMAND = 352 UnsupportedOpQueryCommand;
        NOT_A_STRING = 13111 Location13111;
        DUPLICATE_FIELD = 40413 Location40413;
        MISSING_DATABASE = 40571 Location40571;
        OP_QUERY_REMOVED = 5739101 Location5739101;
    }
}

/// A command that was not carried out.
///
/// ```
/// use mongowire::error::{CommandError, code};
///
/// let refused = CommandError::new(code::FAILED_TO_PARSE, "limit: is no number");
/// let answer = refused.label("TransientTransactionError").to_document();
/// assert_eq!(answer.get_i32("code").unwrap(), 9);
/// assert_eq!(answer.get_str("codeName").unwrap(), "FailedToParse");
/// assert!(answer.contains_key("errorLabels"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    /// Code that programs decide by.
    pub code: Code,
    /// Reason for people, `errmsg` in answers.
    pub message: String,
    /// Labels that let a driver decide what it may do, `errorLabels` in answers.
    pub labels: Vec<&'static str>,
}

impl CommandError {
    /// Makes an error without error labels.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), labels: Vec::new() }
    }

    /// Adds one more label to the error.
    #[must_use]
    pub fn label(mut self, label: &'static str) -> Self {
        self.labels.push(label);
        self
    }

    /// The error as the document that answers the command.
    pub fn to_document(&self) -> Document {
        let mut reply = doc! {
            "ok": 0.0, "errmsg": self.message.as_str(), "code": self.code.number, "codeName": self.code.name,
        };
        if !self.labels.is_empty() {
            let labels: Vec<Bson> = self.labels.iter().map(|label| Bson::from(*label)).collect();
            reply.insert("errorLabels", labels);
        }
        reply
    }
}

/// 22, for what is no BSON.
impl From<bson::error::Error> for CommandError {
    fn from(error: bson::error::Error) -> Self {
        Self::new(code::INVALID_BSON, error.to_string())
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", self.message, self.code.number, self.code.name)
    }
}

impl std::error::Error for CommandError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_shown_only_where_there_are_some() {
        let error = CommandError::new(code::BAD_VALUE, "no");
        assert_eq!(error.to_document(), doc! {"ok": 0.0, "errmsg": "no", "code": 2, "codeName": "BadValue"});
        let labels = error.label("TransientTransactionError").to_document();
        assert_eq!(labels.get_array("errorLabels").ok(), Some(&vec![Bson::from("TransientTransactionError")]));
    }
}
