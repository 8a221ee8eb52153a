//! Errors, sorted by what the caller has to do about them.
//!
//! ```no_run
//! use mongotx::{ErrorKind, Session};
//!
//! # async fn example(mut session: Session) -> mongotx::Result<()> {
//! if let Err(error) = session.commit().await {
//!     match error.kind() {
//!         ErrorKind::Conflict | ErrorKind::Expired | ErrorKind::Unavailable => println!("not committed, run it again: {error}"),
//!         ErrorKind::Indeterminate => println!("ask Client::outcome about {:?}", error.transaction()),
//!         _ => return Err(error),
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! | kind | what the caller does | label | code |
//! | --- | --- | --- | --- |
//! | [`ErrorKind::Conflict`] | run the transaction again | `TransientTransactionError` | 112 WriteConflict |
//! | [`ErrorKind::Expired`] | run it again: it is known not to be committed | `TransientTransactionError` | 251 NoSuchTransaction |
//! | [`ErrorKind::Indeterminate`] | ask [`crate::Client::outcome`] by id before doing anything again | `UnknownTransactionCommitResult` | - |
//! | [`ErrorKind::Unavailable`] | wait for the server, run it again | `TransientTransactionError` | 89 NetworkTimeout |
//! | [`ErrorKind::Invalid`] | mend the request | - | the server's |
//! | [`ErrorKind::Unsupported`] | do it another way | - | 263 OperationNotSupportedInTransaction |
//! | [`ErrorKind::Corruption`] | look at the document with `mongotx doctor` | - | - |
//! | [`ErrorKind::Closed`] | begin a new transaction, or connect again | - | 251 NoSuchTransaction |

use std::{fmt, sync::Arc};

use bson::{Bson, Document};
use protocol::TxId;
use sd2v::index::shown_key;

use crate::{coordinator::server::as_i64, options::Namespace};

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Label of errors after which the whole transaction may be run again.
pub const TRANSIENT_TRANSACTION_ERROR: &str = "TransientTransactionError";
/// Label of errors after which it is not known whether the transaction is committed.
pub const UNKNOWN_TRANSACTION_COMMIT_RESULT: &str = "UnknownTransactionCommitResult";
/// Name of the option that limits the documents of a transaction, as errors mention it.
pub const MAX_DOCUMENTS: &str = "ClientOptions::max_documents";
/// MongoDB's code `TransactionTooLarge`: too many documents for one transaction.
const TRANSACTION_TOO_LARGE: i32 = 257;

/// The kind of an error, which says what the caller has to do: see the table of [`crate::error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another transaction holds a document, or has changed what was read. This transaction is
    /// rolled back: run it again.
    Conflict,
    /// The transaction was open for longer than its lease, its maximum life or its idle limit, or
    /// another client rolled it back. It is not committed: run it again, and keep it shorter if
    /// that happens often.
    Expired,
    /// The server did not answer, and what was asked may have happened. Ask
    /// [`crate::Client::outcome`] with [`Error::transaction`] before anything is run again; outside
    /// a transaction, read the documents.
    Indeterminate,
    /// The server cannot be reached, or not in time. Nothing was committed: wait for the server,
    /// then run the transaction again.
    Unavailable,
    /// The request is wrong, and the message names the field or the limit. Correct the request: run
    /// again, it is refused again.
    Invalid,
    /// The request is valid MongoDB, but MongoTx does not support it. The message says why;
    /// `docs/limits.md` says what to do instead.
    Unsupported,
    /// A stored document or record has a form that MongoTx never writes: another program has
    /// changed it. Look at it with `mongotx doctor`.
    Corruption,
    /// The transaction has ended, or the client is shut down: begin a new transaction, or connect
    /// again.
    Closed,
}

/// The document and the other transaction of an [`ErrorKind::Conflict`].
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// Namespace of the document that both transactions want.
    pub namespace: Namespace,
    /// `_id` of the document that both want.
    pub id: Bson,
    /// Transaction that holds the document.
    pub rival: TxId,
}

/// The key of a duplicate-key error: another document has it already.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DuplicateKey {
    /// Key pattern of the unique index.
    pub pattern: Document,
    /// Values of the key, by field.
    pub value: Document,
    /// Whether the mirrored index found the key in another document's unsafe version.
    pub(crate) pending: bool,
}

impl DuplicateKey {
    #[cfg(test)]
    pub(crate) fn of_value(value: Document) -> Self {
        Self { value, ..Self::default() }
    }

    /// Reads the key from `keyPattern` and `keyValue` of the server's error.
    pub(crate) fn read(error: &Document) -> Option<Self> {
        let (pattern, pending) = shown_key(error.get_document("keyPattern").ok()?);
        let (value, _) = error.get_document("keyValue").map(shown_key).unwrap_or_default();
        Some(Self { pattern, value, pending })
    }
}

/// One refused document of a write of several, as in MongoDB's `writeErrors`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WriteError {
    /// Position of the document or write in the request, from 0.
    pub index: usize,
    /// Error code of the server, 0 if there is none.
    pub code: i32,
    /// Message that says why the write was refused.
    pub message: String,
    /// The error itself, with its kind.
    pub error: Error,
}

impl WriteError {
    pub(crate) fn new(index: usize, error: Error) -> Self {
        Self { index, code: error.code().unwrap_or(0), message: error.to_string(), error }
    }
}

/// The one error type of this crate.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    code: Option<i32>,
    labelled: bool,
    conflict: Option<Conflict>,
    transaction: Option<TxId>,
    write_errors: Vec<WriteError>,
    progress: Option<Progress>,
    duplicate: Option<DuplicateKey>,
    info: Option<Document>,
    unfinishable: bool,
    frozen: bool,
    /// Whether the command may have been carried out in spite of the error.
    maybe_done: bool,
    unreplicated: Option<Unreplicated>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// A write that a server has done and may lose again, because too few members of its replica set
/// have it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Unreplicated {
    /// The server's document `writeConcernError`.
    pub concern_error: Document,
    /// The server's whole answer, with the counts of what it has done.
    pub answer: Document,
}

/// Counts of what a write of several documents had done when it stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of documents that were inserted.
    pub inserted: u64,
    /// Number of documents that matched.
    pub matched: u64,
    /// Number of documents that were modified.
    pub modified: u64,
    /// Number of documents that were deleted.
    pub deleted: u64,
    /// Number of documents inserted by upserts.
    pub upserted: u64,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let code = match kind {
            ErrorKind::Conflict => Some(112),
            ErrorKind::Expired | ErrorKind::Closed => Some(251),
            ErrorKind::Unavailable => Some(89),
            ErrorKind::Unsupported => Some(263),
            ErrorKind::Indeterminate | ErrorKind::Invalid | ErrorKind::Corruption => None,
        };
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            code,
            labelled: true,
            conflict: None,
            transaction: None,
            write_errors: Vec::new(),
            progress: None,
            duplicate: None,
            info: None,
            unfinishable: false,
            frozen: false,
            maybe_done: false,
            unreplicated: None,
            source: None,
        }))
    }

    pub(crate) fn invalid(code: i32, message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorKind::Invalid, message);
        error.0.code = Some(code);
        error
    }

    /// A transaction is about more documents, or reads, than it may be.
    pub(crate) fn too_large(message: impl fmt::Display) -> Self {
        Self::invalid(TRANSACTION_TOO_LARGE, format!("{message} ({MAX_DOCUMENTS})"))
    }

    /// The server began with it, and has ended it.
    pub(crate) fn interrupted(code: i32, message: &str) -> Self {
        let mut error = Self::new(ErrorKind::Unavailable, message).maybe_done();
        error.0.code = Some(code);
        error
    }

    /// Done, and not known to last.
    pub(crate) fn unreplicated(what: Unreplicated) -> Self {
        let code = what.concern_error.get("code").map_or(64, as_i64) as i32;
        let reason = what.concern_error.get_str("errmsg").unwrap_or("the server gave no reason");
        let message =
            format!("the server has done it, but it may be lost again: its write concern was not satisfied: {reason}");
        let mut error = Self::new(ErrorKind::Unavailable, message).maybe_done();
        error.0.code = Some(code);
        error.0.unreplicated = Some(what);
        error
    }

    pub(crate) fn maybe_done(mut self) -> Self {
        self.0.maybe_done = true;
        self
    }

    /// The error of a command outside a transaction, whose effects nothing undoes: it becomes
    /// indeterminate if the command may have been carried out.
    pub(crate) fn or_indeterminate(mut self) -> Self {
        if self.0.kind == ErrorKind::Unavailable && self.0.maybe_done {
            self.0.kind = ErrorKind::Indeterminate;
            if self.0.unreplicated.is_none() {
                self.0.message = self.to_string();
                self.0.code = None;
            }
        }
        self
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// The server takes no locks in a collection that is being renamed.
    pub(crate) fn frozen() -> Self {
        let mut error = Self::new(
            ErrorKind::Conflict,
            "the collection is being renamed, and until that is done none of its documents can be locked; if this lasts, a renaming was \
             interrupted, and mongotx doctor --repair drops what it has left",
        );
        error.0.frozen = true;
        error
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.0.frozen
    }

    /// A committed document that the server refuses to finish is in the way.
    pub(crate) fn not_finishable(message: String, because: &Self) -> Self {
        let mut error = Self::new(ErrorKind::Invalid, message);
        error.0.code = because.0.code;
        error.0.unfinishable = true;
        error
    }

    /// The error for a document, which concerns `others` more.
    pub(crate) fn and_others(mut self, others: usize) -> Self {
        self.0.message.push_str(&format!("; and {others} more documents like it"));
        self
    }

    pub(crate) fn is_unfinishable(&self) -> bool {
        self.0.unfinishable
    }

    pub(crate) fn conflict_with(conflict: Conflict, why: &str) -> Self {
        let Conflict { namespace, id, rival } = &conflict;
        let message = format!("{why}: {namespace}, document {{_id: {id}}}, is held by transaction {rival}");
        let mut error = Self::new(ErrorKind::Conflict, message);
        error.0.conflict = Some(conflict);
        error
    }

    pub(crate) fn for_transaction(mut self, id: Option<TxId>) -> Self {
        self.0.transaction = self.0.transaction.or(id);
        self
    }

    pub(crate) fn because_of(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    pub(crate) fn with_write_errors(mut self, errors: Vec<WriteError>) -> Self {
        self.0.write_errors = errors;
        self
    }

    pub(crate) fn with_progress(mut self, progress: Progress) -> Self {
        self.0.progress = Some(progress);
        self
    }

    pub(crate) fn with_duplicate_key(mut self, duplicate: Option<DuplicateKey>) -> Self {
        self.0.duplicate = duplicate;
        self
    }

    pub(crate) fn with_info(mut self, info: Option<Document>) -> Self {
        self.0.info = info;
        self
    }

    /// Message of the error, without its code and its transaction.
    ///
    /// ```
    /// # fn example(error: mongotx::Error) {
    /// println!("refused: {}", error.message());
    /// # }
    /// ```
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Details from the server (`errInfo`), such as the rule of the collection's validator that a
    /// document breaks.
    ///
    /// ```
    /// # fn example(error: mongotx::Error) {
    /// if let Some(details) = error.info() {
    ///     println!("the validator says: {details}");
    /// }
    /// # }
    /// ```
    pub fn info(&self) -> Option<&Document> {
        self.0.info.as_ref()
    }

    /// The key of a duplicate-key error (code 11000), as far as the server reported it.
    ///
    /// ```
    /// # fn example(error: mongotx::Error) {
    /// if let Some(duplicate) = error.duplicate_key() {
    ///     println!("{} is taken, by the index on {}", duplicate.value, duplicate.pattern);
    /// }
    /// # }
    /// ```
    pub fn duplicate_key(&self) -> Option<&DuplicateKey> {
        self.0.duplicate.as_ref()
    }

    /// Is it the `_id` that another document has? (Servers that do not tell the index: it may be.)
    pub(crate) fn is_duplicate_id(&self) -> bool {
        let of_id = |duplicate: &DuplicateKey| !duplicate.pending && duplicate.pattern.keys().eq(["_id"]);
        self.is_duplicate_key() && self.0.duplicate.as_ref().is_none_or(of_id)
    }

    /// Did a mirrored unique index refuse it?
    pub(crate) fn is_pending_duplicate(&self) -> bool {
        self.is_duplicate_key() && self.0.duplicate.as_ref().is_some_and(|duplicate| duplicate.pending)
    }

    /// Kind of the error, which says what the caller has to do.
    ///
    /// ```
    /// # fn example(error: mongotx::Error) {
    /// if error.kind() == mongotx::ErrorKind::Conflict {
    ///     println!("run the transaction again");
    /// }
    /// # }
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// MongoDB's error code, if there is one.
    ///
    /// ```
    /// # fn example(error: mongotx::Error) {
    /// let is_duplicate = error.code() == Some(11000);
    /// # }
    /// ```
    pub fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// Collection, document and other transaction of an [`ErrorKind::Conflict`].
    ///
    /// ```
    /// # fn example(error: mongotx::Error) {
    /// if let Some(conflict) = error.conflict() {
    ///     println!("{} holds {{_id: {}}} of {}", conflict.rival, conflict.id, conflict.namespace);
    /// }
    /// # }
    /// ```
    pub fn conflict(&self) -> Option<&Conflict> {
        self.0.conflict.as_ref()
    }

    /// Id of the transaction in which the error happened, if it had written anything.
    /// [`crate::Client::outcome`] takes it.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client, error: mongotx::Error) -> mongotx::Result<()> {
    /// if let Some(id) = error.transaction() {
    ///     println!("{:?}", client.outcome(id).await?);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn transaction(&self) -> Option<TxId> {
        self.0.transaction
    }

    /// The documents of an `insert_many`, or writes of a `bulk_write`, that were refused, each with
    /// its own error.
    ///
    /// ```
    /// # fn example(error: mongotx::Error) {
    /// for refused in error.write_errors() {
    ///     println!("document {}: {} ({})", refused.index, refused.message, refused.code);
    /// }
    /// # }
    /// ```
    pub fn write_errors(&self) -> &[WriteError] {
        &self.0.write_errors
    }

    /// The write that the server has done outside a transaction and may lose again. The kind is
    /// [`ErrorKind::Indeterminate`].
    ///
    /// ```
    /// # fn example(error: mongotx::Error) {
    /// if let Some(unreplicated) = error.unreplicated_answer() {
    ///     println!("done, and may be lost again: {}", unreplicated.concern_error);
    /// }
    /// # }
    /// ```
    pub fn unreplicated_answer(&self) -> Option<&Unreplicated> {
        self.0.unreplicated.as_ref().filter(|_| self.0.kind == ErrorKind::Indeterminate)
    }

    /// Counts of what an `insert_many` or `bulk_write` had done when it stopped, or of a single
    /// write that may be lost again.
    ///
    /// ```
    /// # fn example(error: mongotx::Error) {
    /// if let Some(progress) = error.progress() {
    ///     println!("{} documents were inserted before", progress.inserted);
    /// }
    /// # }
    /// ```
    pub fn progress(&self) -> Option<Progress> {
        self.0.progress
    }

    /// MongoDB's error labels.
    ///
    /// ```
    /// # fn example(error: mongotx::Error) {
    /// println!("labels: {:?}", error.labels());
    /// # }
    /// ```
    pub fn labels(&self) -> &'static [&'static str] {
        match self.0.kind {
            ErrorKind::Conflict | ErrorKind::Expired | ErrorKind::Unavailable => &[TRANSIENT_TRANSACTION_ERROR],
            ErrorKind::Indeterminate if self.0.labelled => &[UNKNOWN_TRANSACTION_COMMIT_RESULT],
            _ => &[],
        }
    }

    /// True when the error carries this label.
    ///
    /// ```
    /// # fn example(error: mongotx::Error) {
    /// use mongotx::error::TRANSIENT_TRANSACTION_ERROR;
    ///
    /// let may_run_again = error.contains_label(TRANSIENT_TRANSACTION_ERROR);
    /// # }
    /// ```
    pub fn contains_label(&self, label: &str) -> bool {
        self.labels().contains(&label)
    }

    /// Whether the error has the server's code for a duplicate key.
    pub(crate) fn is_duplicate_key(&self) -> bool {
        self.0.code == Some(11000)
    }

    /// Does it end the transaction in which it happens? What the server refused as invalid does
    /// not.
    pub(crate) fn ends_transaction(&self) -> bool {
        !matches!(self.0.kind, ErrorKind::Invalid | ErrorKind::Unsupported)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(code) = self.0.code {
            write!(f, " (code {code})")?;
        }
        if let Some(id) = self.0.transaction {
            write!(f, " [transaction {id}]")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// The message of an error of the official driver, without its internal states and labels.
pub fn driver_words(error: &mongodb::error::Error) -> String {
    use mongodb::error::ErrorKind as Kind;
    let words = match error.kind.as_ref() {
        Kind::Io(error) => error.to_string(),
        Kind::ConnectionPoolCleared { .. } => "its connections were closed, because one of them has failed".to_owned(),
        kind => kind.to_string(),
    };
    // The message ends where the driver prints what it knows of each server, and the cause of the
    // error, both as they are in memory.
    let end = ["Topology:", "Kind:"].iter().filter_map(|debugged| words.find(debugged)).min().unwrap_or(words.len());
    words[..end].trim_end_matches([' ', ':', '.']).to_owned()
}

impl From<sd2v::Error> for Error {
    fn from(error: sd2v::Error) -> Self {
        let message = error.to_string();
        match error {
            sd2v::Error::Reserved { .. } => Self::invalid(2, message),
            sd2v::Error::Unsupported { .. } => Self::unsupported(message),
            sd2v::Error::Invalid { code, .. } => Self::invalid(code, message),
            sd2v::Error::Corrupt { .. } => Self::new(ErrorKind::Corruption, message),
        }
    }
}

impl From<bson::error::Error> for Error {
    fn from(error: bson::error::Error) -> Self {
        Self::invalid(22, format!("cannot be converted to or from BSON: {error}"))
    }
}
