//! Errors that answer a command: `ok: 0` with MongoDB's error code, the code's name and a message.
//!
//! Errors that end the connection instead are [`crate::wire::WireError`].

#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use bson::{Bson, Document, doc};

/// One of MongoDB's error codes, with the name that drivers show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Number of the error code, by which drivers and programs recognise the error.
    pub number: i32,
    /// Name of the code, the field `codeName` of an answer, as MongoDB spells it.
    pub name: &'static str,
}

/// Error codes of commands that are answered without asking a server.
pub mod code {
    use super::Code;

    macro_rules! codes {
        ($($constant:ident = $number:literal $name:ident, $meaning:literal;)*) => {
            $(#[doc = concat!(stringify!($number), " ", stringify!($name), ": ", $meaning, ".")]
            pub const $constant: Code = Code { number: $number, name: stringify!($name) };)*
        };
    }

    codes! {
        INTERNAL_ERROR = 1 InternalError, "the program that answers has failed, or has met something that it does not expect";
        BAD_VALUE = 2 BadValue, "a field of the command has a value that is out of range or makes no sense";
        HOST_UNREACHABLE = 6 HostUnreachable, "the backing server cannot be reached; the command may be sent again later";
        FAILED_TO_PARSE = 9 FailedToParse, "the command or one of its documents does not have the form that is expected";
        UNAUTHORIZED = 13 Unauthorized, "the user lacks the privilege that the command needs, or has not logged in";
        TYPE_MISMATCH = 14 TypeMismatch, "a field of the command has a value of another type than it must have";
        OVERFLOW = 15 Overflow, "a document nests deeper than the levels that MongoDB allows";
        AUTHENTICATION_FAILED = 18 AuthenticationFailed, "the login failed; the message does not say whether user or password was wrong";
        ILLEGAL_OPERATION = 20 IllegalOperation, "the server is not set up for the command, or cannot carry it out in its state";
        INVALID_BSON = 22 InvalidBSON, "a document is no valid BSON, or a value cannot be written as BSON";
        COMMAND_NOT_FOUND = 59 CommandNotFound, "there is no command of this name; the name is the first field of the body";
        INVALID_OPTIONS = 72 InvalidOptions, "the options of the command contradict each other, or do not fit the collection";
        INVALID_NAMESPACE = 73 InvalidNamespace, "the name of the database or the collection is not one that MongoDB allows";
        NETWORK_TIMEOUT = 89 NetworkTimeout, "the backing server did not answer in time, and the command may have been carried out";
        SHUTDOWN_IN_PROGRESS = 91 ShutdownInProgress, "the server is about to end; send the command again to another server, or later";
        COMMAND_NOT_SUPPORTED = 115 CommandNotSupported, "the command is known and is not supported here; the message says why";
        EXCEEDED_MEMORY_LIMIT = 146 ExceededMemoryLimit, "request or answer needs more memory than the limit leaves; send it again later, or smaller";
        CLIENT_METADATA_MISSING_FIELD = 183 ClientMetadataMissingField, "a field is missing in what the client says about itself in the handshake";
        CLIENT_METADATA_APP_NAME_TOO_LARGE = 184 ClientMetadataAppNameTooLarge, "the name of the application in the handshake is longer than 128 bytes";
        CLIENT_METADATA_DOCUMENT_TOO_LARGE = 185 ClientMetadataDocumentTooLarge, "the document `client` of the handshake is larger than 512 bytes";
        CLIENT_METADATA_CANNOT_BE_MUTATED = 186 ClientMetadataCannotBeMutated, "a connection has described its client before, and sends another description";
        CLIENT_DISCONNECT = 279 ClientDisconnect, "the connection ended while its command was running, so the command was stopped";
        UNSUPPORTED_OP_QUERY_COMMAND = 352 UnsupportedOpQueryCommand, "only the first handshake may be sent as `OP_QUERY`, and this is another command";
        NOT_A_STRING = 13111 Location13111, "a field that has to be a string, such as `$db`, has another type";
        DUPLICATE_FIELD = 40413 Location40413, "a field is in the command twice, so that its meaning is not clear";
        MISSING_DATABASE = 40571 Location40571, "the command does not name its database, which is the field `$db`";
        OP_QUERY_REMOVED = 5739101 Location5739101, "queries by `OP_QUERY` ended with MongoDB 5.1; the client is too old";
    }
}

/// A command that was not carried out: a code for programs, a message for people, and labels for
/// drivers.
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
    /// Code by which programs decide what to do, the fields `code` and `codeName` of an answer.
    pub code: Code,
    /// Reason for people, the field `errmsg` of an answer; it names the field or the limit.
    pub message: String,
    /// Labels that let a driver decide what it may do, `errorLabels` in answers.
    pub labels: Vec<&'static str>,
}

impl CommandError {
    /// Makes an error without labels. [`CommandError::label`] adds those that a driver needs to try
    /// again.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), labels: Vec::new() }
    }

    /// Adds a label, such as `TransientTransactionError`, by which a driver decides whether to try
    /// again.
    #[must_use]
    pub fn label(mut self, label: &'static str) -> Self {
        self.labels.push(label);
        self
    }

    /// The document that answers the command: `{ok: 0, errmsg, code, codeName}`, and `errorLabels`
    /// if there are any.
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
