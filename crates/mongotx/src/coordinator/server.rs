//! Commands to the server: sending, counting, and sorting what comes back.
//!
//! Every command of this crate is sent once. The driver's own retries of writes are off: a lock write that arrived
//! twice could lock a document again after its transaction was finished.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use bson::{Bson, Document, RawDocumentBuf, doc};
use futures_util::{StreamExt, TryStreamExt};
use mongodb::{Client, Cursor, error::ErrorKind as DriverKind};
use sd2v::{index::shown, validator};

use crate::{
    document,
    error::{DuplicateKey, Error, ErrorKind, Result},
    metrics::Counters,
    options::Namespace,
    steps::{Step, StepHook},
};

/// DocumentValidationFailure.
const BREAKS_VALIDATOR: i32 = 121;

/// What an `update`, `insert` or `delete` command answers.
#[derive(Debug, Default)]
pub(crate) struct WriteAnswer {
    /// Documents matched (inserted, deleted), over all statements.
    pub(crate) n: i64,
    /// Documents changed, over all statements.
    pub(crate) modified: i64,
    /// `_id` of the upserted document.
    pub(crate) upserted: Option<Bson>,
    /// Statements that the server refused: place, code, words.
    pub(crate) errors: Vec<(usize, Error)>,
}

impl WriteAnswer {
    fn parse_write(answer: &Document) -> Self {
        let number = |field| answer.get(field).map_or(0, as_i64);
        let upserted =
            answer.get_array("upserted").ok().and_then(|list| list.first()?.as_document()?.get("_id").cloned());
        let errors = answer.get_array("writeErrors").into_iter().flatten().filter_map(Bson::as_document);
        let errors = errors.map(|error| {
            let index = error.get("index").map_or(0, as_i64);
            let code = error.get("code").map_or(0, as_i64) as i32;
            let message = shown(error.get_str("errmsg").unwrap_or("the server gave no reason"));
            let info = error.get_document("errInfo").ok().map(validator::explain);
            let refused = Error::invalid(code, message).with_duplicate_key(DuplicateKey::read(error)).with_info(info);
            (usize::try_from(index).unwrap_or(0), refused)
        });
        Self { n: number("n"), modified: number("nModified"), upserted, errors: errors.collect() }
    }

    /// The answer, or the first statement's error.
    pub(crate) fn ok(mut self) -> Result<Self> {
        if self.errors.is_empty() { Ok(self) } else { Err(self.errors.swap_remove(0).1) }
    }
}

/// A number of any BSON type.
pub(crate) fn as_i64(value: &Bson) -> i64 {
    match value {
        Bson::Int32(n) => i64::from(*n),
        Bson::Int64(n) => *n,
        Bson::Double(n) => *n as i64,
        _ => 0,
    }
}

/// The connection of one client, with its counters and its hook.
pub(crate) struct Server {
    driver: Client,
    pub(crate) counters: Arc<Counters>,
    hook: Option<Arc<dyn StepHook>>,
    /// Every prepared write, and every finished document, waits for the majority: more than one server keeps the data, so
    /// there is no common log whose order would do instead.
    pub(crate) durable_prepares: bool,
}

impl Server {
    pub(crate) fn new(
        driver: Client,
        counters: Arc<Counters>,
        hook: Option<Arc<dyn StepHook>>,
        durable_prepares: bool,
    ) -> Self {
        Self { driver, counters, hook, durable_prepares }
    }

    pub(crate) async fn at(&self, step: Step) {
        if let Some(hook) = &self.hook {
            hook.at(step).await;
        }
    }

    pub(crate) async fn run(&self, db: &str, command: Document) -> Result<Document> {
        in_time(self.driver.database(db).run_command(command)).await
    }

    pub(crate) async fn write(&self, db: &str, command: Document) -> Result<WriteAnswer> {
        Ok(WriteAnswer::parse_write(&self.run(db, command).await?))
    }

    /// One `update` command with these statements, in order.
    pub(crate) async fn update(&self, ns: &Namespace, statements: Vec<Document>) -> Result<WriteAnswer> {
        self.prepare(ns, doc! {"update": &ns.coll, "updates": statements, "ordered": true}).await
    }

    /// The same for a prepared write, as durable as it has to be.
    pub(crate) async fn prepare(&self, ns: &Namespace, mut command: Document) -> Result<WriteAnswer> {
        if self.durable_prepares {
            command.insert("writeConcern", doc! {"w": "majority", "j": true});
        }
        self.write(&ns.db, command).await
    }

    pub(crate) async fn delete(&self, ns: &Namespace, statements: Vec<Document>) -> Result<WriteAnswer> {
        self.prepare(ns, doc! {"delete": &ns.coll, "deletes": statements}).await
    }

    /// As [`Server::update`], for what must not fail because a document breaks the collection's validator: it was judged when
    /// it was written, or is older than the validator.
    pub(crate) async fn update_unjudged(&self, ns: &Namespace, statements: Vec<Document>) -> Result<WriteAnswer> {
        let answer = self.update(ns, statements.clone()).await?;
        if !answer.errors.iter().any(|(_, error)| error.code() == Some(BREAKS_VALIDATOR)) {
            return Ok(answer);
        }
        let command = doc! {
            "update": &ns.coll, "updates": statements, "ordered": true, "bypassDocumentValidation": true,
        };
        self.prepare(ns, command).await
    }

    /// A cursor over the answer of `find` or `aggregate`. Of bytes: the driver's cursor of documents reads them through serde,
    /// which takes objects for what they look like (see [`document`]).
    pub(crate) async fn cursor(&self, db: &str, command: Document) -> Result<Cursor<RawDocumentBuf>> {
        Ok(in_time(self.driver.database(db).run_cursor_command(command)).await?.with_type())
    }

    /// All documents of a cursor, at most `limit`.
    pub(crate) async fn collect(&self, db: &str, command: Document, limit: usize) -> Result<Vec<Document>> {
        self.collect_raw(db, command, limit).await?.iter().map(|raw| document::parse(raw)).collect()
    }

    /// The same as bytes.
    pub(crate) async fn collect_raw(&self, db: &str, command: Document, limit: usize) -> Result<Vec<RawDocumentBuf>> {
        let cursor = self.cursor(db, command).await?;
        in_time(cursor.take(limit).try_collect()).await
    }

    /// The first document that a `find` gives.
    pub(crate) async fn find_first(&self, ns: &Namespace, find: Document) -> Result<Option<Document>> {
        self.find_first_raw(ns, find).await?.map(|raw| document::parse(&raw)).transpose()
    }

    /// The same as bytes.
    pub(crate) async fn find_first_raw(&self, ns: &Namespace, mut find: Document) -> Result<Option<RawDocumentBuf>> {
        find.insert("limit", 1);
        find.insert("singleBatch", true);
        let mut cursor = self.cursor(&ns.db, find).await?;
        in_time(cursor.try_next()).await
    }
}

/// The longest that anybody waits for one answer: a server that stands still, or a network that swallows packets, breaks no
/// connection.
const LONGEST_ANSWER: Duration = Duration::from_secs(300);

/// What the driver answers, or an error when that takes too long.
pub(crate) async fn in_time<T>(answer: impl IntoFuture<Output = mongodb::error::Result<T>>) -> Result<T> {
    match tokio::time::timeout(LONGEST_ANSWER, answer.into_future()).await {
        Ok(answer) => answer.map_err(from_driver),
        Err(_) => {
            let message = format!(
                "the server did not answer within {LONGEST_ANSWER:?}: the command was lost, or the answer with it"
            );
            Err(Error::new(ErrorKind::Unavailable, message))
        }
    }
}

/// Sorts the driver's errors into kinds.
pub(crate) fn from_driver(error: mongodb::error::Error) -> Error {
    let kind = error.kind.as_ref();
    let sorted = match kind {
        DriverKind::Command(refused) => {
            let details = error.server_response().and_then(|raw| Document::try_from(raw.as_ref()).ok());
            refused_by_server(refused.code, &shown(&refused.message))
                .with_duplicate_key(details.as_ref().and_then(DuplicateKey::read))
                .with_info(details.and_then(|details| details.get_document("errInfo").ok().map(validator::explain)))
        }
        DriverKind::ServerSelection { .. }
        | DriverKind::DnsResolve { .. }
        | DriverKind::ConnectionPoolCleared { .. } => {
            Error::new(ErrorKind::Unavailable, format!("the server cannot be reached: {error}"))
        }
        DriverKind::Authentication { .. } => Error::invalid(18, error.to_string()),
        DriverKind::Io(_) | DriverKind::InvalidResponse { .. } => {
            Error::new(ErrorKind::Unavailable, format!("the connection was lost and the answer with it: {error}"))
        }
        DriverKind::InvalidArgument { message, .. } => Error::invalid(2, message.clone()),
        DriverKind::Shutdown => Error::new(ErrorKind::Closed, "the client is shut down"),
        _ => Error::invalid(8, error.to_string()),
    };
    sorted.because_of(error)
}

fn refused_by_server(code: i32, message: &str) -> Error {
    const NOT_SERVING: [i32; 12] = [6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436];
    if NOT_SERVING.contains(&code) {
        Error::new(ErrorKind::Unavailable, format!("the server is not serving (code {code}): {message}"))
    } else {
        Error::invalid(code, message)
    }
}
