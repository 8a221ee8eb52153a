//! Errors, sorted by what the caller has to do about them.
//!
//! ```
//! # use bson::doc;
//! # #[tokio::main]
//! # async fn main() -> mongotx::Result<()> {
//! # local_mongod::example!(client, accounts);
//! use mongotx::ErrorKind;
//!
//! let (mut first, mut second) = (client.session(), client.session());
//! first.begin()?;
//! second.begin()?;
//! accounts.insert_one(&doc! {"_id": 1}).session(&mut first).await?;
//! let error = accounts.insert_one(&doc! {"_id": 1}).session(&mut second).await.expect_err("both insert it");
//! match error.kind() {
//!     ErrorKind::Conflict | ErrorKind::Expired | ErrorKind::Unavailable => println!("run it again: {error}"),
//!     ErrorKind::Indeterminate => println!("ask Client::outcome about {:?}", error.transaction()),
//!     _ => return Err(error),
//! }
//! let conflict = error.conflict().expect("a conflict names the document");
//! assert_eq!((conflict.id.clone(), Some(conflict.rival)), (1.into(), first.id()));
//! # Ok(()) }
//! ```
//!
//! | kind | what the caller does | label | code |
//! | --- | --- | --- | --- |
//! | [`ErrorKind::Conflict`] | run the transaction again | `TransientTransactionError` | 112 WriteConflict |
//! | [`ErrorKind::Expired`] | run it again: it is known not to be committed | `TransientTransactionError` | 251 NoSuchTransaction |
//! | [`ErrorKind::Indeterminate`] | ask [`crate::Client::outcome`] by id before doing anything again | `UnknownTransactionCommitResult` | - |
//! | [`ErrorKind::Unavailable`] | wait for the server, run it again | `TransientTransactionError` | 89 NetworkTimeout |
//! | [`ErrorKind::Invalid`] | correct the request | - | the server's |
//! | [`ErrorKind::Unsupported`] | do it another way | - | 263 OperationNotSupportedInTransaction |
//! | [`ErrorKind::Corruption`] | look at the document with `mongotx doctor` | - | - |
//! | [`ErrorKind::Closed`] | begin a new transaction, or connect again | - | 251 NoSuchTransaction |

use std::{fmt, sync::Arc};

use bson::Document;
use protocol::TxId;

mod convert;
mod details;
mod make;

pub use self::{
    convert::driver_words,
    details::{Conflict, DuplicateKey, Progress, Unreplicated, WriteError},
};

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Label of errors after which the whole transaction may be run again.
pub const TRANSIENT_TRANSACTION_ERROR: &str = "TransientTransactionError";
/// Label of errors after which it is not known whether the transaction is committed.
pub const UNKNOWN_TRANSACTION_COMMIT_RESULT: &str = "UnknownTransactionCommitResult";
/// Name of the option that limits the documents of a transaction, as errors mention it.
pub const MAX_DOCUMENTS: &str = "ClientOptions::max_documents";

/// The kind of an error, which says what the caller has to do: see the table of [`crate::error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another transaction holds a document, or has changed what was read. This transaction is
    /// rolled back: run it again.
    Conflict,
    /// The transaction has reached its maximum life or its idle limit; or its client gave no sign
    /// of life for a lease, and another client rolled the transaction back; or the answer to one of
    /// its writes was lost. It is not committed: run it again. If that happens often, keep it
    /// shorter, or raise the limit that the message names.
    Expired,
    /// The server did not answer, and the command may have been carried out. Call
    /// [`crate::Client::outcome`] with [`Error::transaction`] before anything is run again; outside
    /// a transaction, read the documents.
    Indeterminate,
    /// The server cannot be reached, or not in time. Nothing was committed: wait for the server,
    /// then run the transaction again.
    Unavailable,
    /// The request is wrong, and the message names the field or the limit. Correct the request: run
    /// again, it is refused again.
    Invalid,
    /// The request is valid MongoDB, but MongoTx does not support it, here or in a transaction. The
    /// message names the construct and says why. Nothing was changed; run again, the request is
    /// refused again.
    Unsupported,
    /// A stored document or record has a form that MongoTx never writes: another program has
    /// changed it. Look at it with `mongotx doctor`.
    Corruption,
    /// The transaction has ended, or the client is shut down: begin a new transaction, or connect
    /// again.
    Closed,
}

/// The one error type of this crate. [`Error::kind`] says what to do about it; the other methods
/// have the details, as far as there are any.
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// use mongotx::ErrorKind;
///
/// accounts.insert_one(&doc! {"_id": 1}).await?;
/// let error = accounts.update_one(doc! {"_id": 1}, doc! {"$add": {"n": 1}}).await.expect_err("an unknown operator");
/// assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, Some(9)));
/// assert!(error.message().contains("$add"));
/// assert!(error.labels().is_empty() && error.transaction().is_none() && error.conflict().is_none());
/// # Ok(()) }
/// ```
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
    /// The transaction is committed.
    committed: bool,
    /// True if the command may have been carried out in spite of the error.
    maybe_done: bool,
    unreplicated: Option<Unreplicated>,
    /// True if nothing of the refused write is left: it changed nothing, or was taken back.
    is_clean: bool,
    /// True if it ends the transaction although its kind does not.
    is_ending: bool,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Message of the error, without its code and its transaction.
    ///
    /// ```
    /// # use bson::doc;
    /// let mut command = doc! {"insert": "logs", "documents": [{"_unsafe": 1}]};
    /// let error = mongotx::guard::guard_command("insert", &mut command).unwrap_err();
    /// assert_eq!(error.message(), error.to_string().trim_end_matches(" (code 2)"));
    /// assert!(error.message().contains("_unsafe")); // the field that is refused
    /// ```
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Details from the server (`errInfo`), such as the rule of the collection's validator that a
    /// document breaks.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let bank = client.database("bank");
    /// let rule = doc! {"balance": {"$gte": 0}};
    /// bank.create_collection("cash").option("validator", rule).await?;
    /// let error = bank.collection("cash").insert_one(&doc! {"balance": -1}).await.expect_err("it breaks the rule");
    /// let details = error.info().expect("the server says why");
    /// assert!(details.to_string().contains("$gte"));
    /// # Ok(()) }
    /// ```
    pub fn info(&self) -> Option<&Document> {
        self.0.info.as_ref()
    }

    /// The key of a duplicate-key error (code 11000), as far as the server reported it.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.insert_one(&doc! {"_id": 1}).await?;
    /// let error = accounts.insert_one(&doc! {"_id": 1}).await.expect_err("the `_id` is taken");
    /// assert_eq!(error.code(), Some(11_000));
    /// let duplicate = error.duplicate_key().expect("the server says which key");
    /// assert_eq!((&duplicate.pattern, &duplicate.value), (&doc! {"_id": 1}, &doc! {"_id": 1}));
    /// # Ok(()) }
    /// ```
    pub fn duplicate_key(&self) -> Option<&DuplicateKey> {
        self.0.duplicate.as_ref()
    }

    /// Kind of the error, which says what the caller has to do.
    ///
    /// ```
    /// # use bson::doc;
    /// let mut command = doc! {"insert": "logs", "documents": [{"_unsafe": 1}]};
    /// let error = mongotx::guard::guard_command("insert", &mut command).unwrap_err();
    /// assert_eq!(error.kind(), mongotx::ErrorKind::Invalid); // correct the request
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// MongoDB's error code, if there is one: 11000 for a duplicate key, 112 for a conflict, …
    ///
    /// ```
    /// # use bson::doc;
    /// let mut command = doc! {"insert": "logs", "documents": [{"_unsafe": 1}]};
    /// let error = mongotx::guard::guard_command("insert", &mut command).unwrap_err();
    /// assert_eq!(error.code(), Some(2)); // BadValue
    /// ```
    pub fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// Collection, document and other transaction of an [`ErrorKind::Conflict`].
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// let (mut first, mut second) = (client.session(), client.session());
    /// first.begin()?;
    /// second.begin()?;
    /// accounts.insert_one(&doc! {"_id": 1}).session(&mut first).await?;
    /// let error = accounts.insert_one(&doc! {"_id": 1}).session(&mut second).await.expect_err("both insert it");
    /// let conflict = error.conflict().expect("a conflict names the document");
    /// println!("{} holds {{_id: {}}} of {}", conflict.rival, conflict.id, conflict.namespace);
    /// assert_eq!(Some(conflict.rival), first.id());
    /// # Ok(()) }
    /// ```
    pub fn conflict(&self) -> Option<&Conflict> {
        self.0.conflict.as_ref()
    }

    /// Id of the transaction in which the error happened, if it had written anything.
    /// [`crate::Client::outcome`] takes it.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// let (mut first, mut second) = (client.session(), client.session());
    /// first.begin()?;
    /// second.begin()?;
    /// accounts.insert_one(&doc! {"_id": 2}).session(&mut second).await?;
    /// accounts.insert_one(&doc! {"_id": 1}).session(&mut first).await?;
    /// let error = accounts.insert_one(&doc! {"_id": 1}).session(&mut second).await.expect_err("both insert it");
    /// let id = error.transaction().expect("it had written");
    /// assert_ne!(client.outcome(id).await?, mongotx::Outcome::Committed);
    /// # Ok(()) }
    /// ```
    pub fn transaction(&self) -> Option<TxId> {
        self.0.transaction
    }

    /// The documents of an `insert_many`, or writes of a `bulk_write`, that were refused, each with
    /// its own error.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// let documents = [doc! {"_id": 1}, doc! {"_id": 1}];
    /// let error = accounts.insert_many(&documents).await.expect_err("two documents have the same `_id`");
    /// let refused = &error.write_errors()[0];
    /// println!("document {}: {}", refused.index, refused.message);
    /// assert_eq!((refused.index, refused.code), (1, 11_000));
    /// # Ok(()) }
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

    /// MongoDB's error labels, by which drivers decide whether to run a transaction again.
    ///
    /// ```
    /// # use bson::doc;
    /// let mut command = doc! {"insert": "logs", "documents": [{"_unsafe": 1}]};
    /// let error = mongotx::guard::guard_command("insert", &mut command).unwrap_err();
    /// assert!(error.labels().is_empty()); // running it again would not help
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
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// use mongotx::error::TRANSIENT_TRANSACTION_ERROR;
    ///
    /// let (mut first, mut second) = (client.session(), client.session());
    /// first.begin()?;
    /// second.begin()?;
    /// accounts.insert_one(&doc! {"_id": 1}).session(&mut first).await?;
    /// let error = accounts.insert_one(&doc! {"_id": 1}).session(&mut second).await.expect_err("both insert it");
    /// assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR)); // run the second transaction again
    /// # Ok(()) }
    /// ```
    pub fn contains_label(&self, label: &str) -> bool {
        self.labels().contains(&label)
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
