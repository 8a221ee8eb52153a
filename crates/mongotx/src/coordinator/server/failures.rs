//! Failures of commands, sorted into kinds: those of the driver, of connections of this library's
//! own, and what the server refuses, in the application's terms.

use bson::{Document, RawDocument};
use mongodb::error::ErrorKind as DriverKind;
use mongowire::{Failure, Refusal};
use sd2v::{guard::refused_field, index, validator, words::shown};

use crate::error::{DuplicateKey, Error, ErrorKind, Result, Unreplicated, driver_words};

/// Number of MongoDB's error `BSONObjectTooLarge`.
const TOO_LARGE: i32 = 10_334;

/// Sorts the driver's errors into kinds.
pub(crate) fn from_driver(error: mongodb::error::Error) -> Error {
    let kind = error.kind.as_ref();
    let sorted = match kind {
        DriverKind::Command(refused) => {
            let details = error.server_response().and_then(|raw| Document::try_from(raw.as_ref()).ok());
            refused_command(refused.code, &refused.message, details.as_ref())
        }
        // The driver answers so for commands that are under way, too.
        DriverKind::ConnectionPoolCleared { .. } => {
            let message = format!("the connection was given up, and the answer with it: {}", driver_words(&error));
            Error::new(ErrorKind::Unavailable, message).maybe_done()
        }
        DriverKind::ServerSelection { .. } | DriverKind::DnsResolve { .. } => {
            Error::new(ErrorKind::Unavailable, format!("the server cannot be reached: {}", driver_words(&error)))
        }
        DriverKind::Authentication { .. } => Error::invalid(18, driver_words(&error)),
        DriverKind::Io(_) | DriverKind::InvalidResponse { .. } => {
            let message = format!("the connection was lost and the answer with it: {}", driver_words(&error));
            Error::new(ErrorKind::Unavailable, message).maybe_done()
        }
        DriverKind::InvalidArgument { message, .. } => Error::invalid(2, message.clone()),
        DriverKind::Shutdown => Error::new(ErrorKind::Closed, "the client is shut down"),
        _ => Error::invalid(8, driver_words(&error)),
    };
    sorted.because_of(error)
}

/// Sorts what a connection of this library's own has to say.
pub(super) fn from_wire(failure: &Failure) -> Error {
    let message = failure.to_string();
    let sorted = match failure {
        Failure::Login { .. } => Error::invalid(18, message),
        Failure::TooLong { .. } => Error::invalid(TOO_LARGE, message),
        Failure::Closed => Error::new(ErrorKind::Closed, "the client is shut down"),
        _ if failure.is_maybe_done() => Error::new(ErrorKind::Unavailable, message).maybe_done(),
        _ => Error::new(ErrorKind::Unavailable, format!("the server cannot be reached: {message}")),
    };
    sorted.because_of(failure.clone())
}

/// Sorts an answer that says that the server has not carried out a command.
pub(super) fn refused_answer(refusal: &Refusal, answer: &RawDocument) -> Error {
    refused_command(refusal.code, &refusal.message, Document::try_from(answer).ok().as_ref())
}

/// The error for a command that the server refused. `details`: the server's answer.
fn refused_command(code: i32, message: &str, details: Option<&Document>) -> Error {
    let sorted = refused_by_server(code, message);
    let sorted = if REFUSED_AT_ONCE.contains(&code) { sorted } else { sorted.maybe_done() };
    sorted
        .with_duplicate_key(details.and_then(DuplicateKey::read))
        .with_info(details.and_then(|details| details.get_document("errInfo").ok().map(validator::explain)))
}

/// Codes of a server that is not the primary and has not begun to carry out the command.
const REFUSED_AT_ONCE: [i32; 4] = [10_058, 10_107, 13_435, 13_436];

pub(super) fn refused_by_server(code: i32, message: &str) -> Error {
    const NOT_SERVING: [i32; 13] = [6, 7, 89, 91, 189, 262, 9001, 10_058, 10_107, 11_600, 11_602, 13_435, 13_436];
    if NOT_SERVING.contains(&code) {
        Error::new(ErrorKind::Unavailable, format!("the server is not serving (code {code}): {}", shown(message)))
    } else {
        invalid(code, message)
    }
}

/// LockTimeout, MaxTimeMSExpired, CursorKilled, ClientDisconnect, InterruptedDueToStorageChange,
/// Interrupted, ClientMarkedKilled: the server gave the whole command up, wherever it was.
const INTERRUPTED: [i32; 7] = [24, 50, 237, 279, 355, 11_601, 46_841];

/// Some documents may have been changed before the command was given up, so that this is no answer.
pub(super) fn interrupted(error: Error) -> Error {
    match error.code() {
        Some(code) if error.kind() == ErrorKind::Invalid && INTERRUPTED.contains(&code) => {
            Error::interrupted(code, &format!("a write was interrupted, and may be half done: {error}"))
        }
        _ => error,
    }
}

/// The server's error about a stored document that is too large, where a transaction holds it: the
/// application's document is smaller.
pub(super) fn too_large_with_both(error: Error) -> Error {
    let size = error.message().strip_prefix("BSONObj size: ").filter(|_| error.code() == Some(TOO_LARGE));
    let Some((size, rest)) = size.and_then(|size| size.split_once(' ')) else { return error };
    let Some((_, first)) = rest.split_once("First element: ") else { return error };
    let message = format!(
        "the document whose first field is {first} would take {size} bytes while a transaction holds it, and the server stores at most \
         16793600: until the transaction is finished the document is stored with its committed and its new version, so that it may have \
         about 8 MB where it is updated in a transaction, or by a write outside one that is a transaction of its own"
    );
    Error::invalid(TOO_LARGE, message)
}

/// The server's objection to a statement, in the application's terms.
fn invalid(code: i32, message: &str) -> Error {
    if index::is_frozen(code, message) {
        return Error::frozen();
    }
    refused_field(message).map_or_else(|| Error::invalid(code, shown(message)), Error::from)
}

/// The answer, unless its effects may be lost again: only this server has them yet, and it may
/// cease to be the primary.
pub(super) fn kept(answer: Document) -> Result<Document> {
    match answer.get_document("writeConcernError") {
        Err(_) => Ok(answer),
        Ok(concern_error) => {
            let concern_error = concern_error.clone();
            Err(Error::unreplicated(Unreplicated { concern_error, answer }))
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn stepping_down() -> Document {
        doc! {"code": 11_602, "codeName": "InterruptedDueToReplStateChange", "errmsg": "operation was interrupted"}
    }

    #[test]
    fn what_may_be_lost_again_is_no_answer() {
        for done in [
            doc! {"n": 1, "nModified": 1, "ok": 1.0},
            doc! {"lastErrorObject": {"n": 1, "updatedExisting": true}, "value": {"_id": 1}, "ok": 1.0},
            doc! {"cursor": {"id": 0_i64, "ns": "d.c", "firstBatch": []}, "ok": 1.0},
            doc! {"n": 0, "ok": 1.0},
        ] {
            assert_eq!(kept(done.clone()).unwrap(), done);
            let mut answer = done.clone();
            answer.insert("writeConcernError", stepping_down());
            let error = kept(answer.clone()).unwrap_err();
            assert_eq!((error.kind(), error.code()), (ErrorKind::Unavailable, Some(11_602)), "{done}");
            assert!(error.unreplicated_answer().is_none(), "a prepared write is undone, whatever it was");
            let error = error.or_indeterminate();
            assert_eq!(error.kind(), ErrorKind::Indeterminate);
            let unreplicated = error.unreplicated_answer().unwrap();
            assert_eq!((&unreplicated.concern_error, &unreplicated.answer), (&stepping_down(), &answer));
        }
    }
}
