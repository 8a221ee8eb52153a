//! Commands to the server: sending, counting, and sorting what comes back.
//!
//! Every command of this crate is sent once. The driver's own retries of writes are off: a lock
//! write that arrived twice could lock a document again after its transaction was finished.
//! Commands go over connections of this library's own ([`lean`]) where that can be, and else over
//! the driver.
//!
//! Commands that change documents go through one of three interfaces, and there is no other:
//! - [`live`]: whatever a transaction that is not decided changes. It is in doubt while the command
//!   is under way.
//! - [`repair`]: what decided transactions have left. Its statements take decided writers only.
//! - [`direct`]: outside transactions, and the records of transactions. What is outside
//!   transactions is counted, and other clients have notice of it ([`plain`]).
//!
//! [`documents`] reads the state of single documents, [`time`] the server's clock.
//!
//! [`guarded`] tries a server out with documents in a collection of its own, which no transaction
//! writes to.

pub(crate) mod clustered;
pub(crate) mod direct;
mod documents;
pub(crate) mod guarded;
pub(crate) mod lean;
pub(crate) mod live;
pub(crate) mod plain;
pub(crate) mod repair;
pub(crate) mod stream;
mod time;

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::{
    Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc,
    raw::{CStr, cstr},
    rawdoc,
};
use futures_util::{StreamExt, TryStreamExt};
use mongodb::{Client, Cursor, error::ErrorKind as DriverKind};
use mongowire::{Failure, Refusal};
use sd2v::{guard::refused_field, index, validator, words::shown};
use tokio::runtime::Handle;

use self::{
    clustered::Clustered,
    guarded::Trust,
    lean::{Lean, Line},
    plain::Plain,
    stream::{LeanCursor, Stream},
};
use super::stored::nodes::Nodes;
use crate::{
    document,
    error::{DuplicateKey, Error, ErrorKind, Progress, Result, Unreplicated, driver_words},
    metrics::Counters,
    numbers::as_i64,
    options::Namespace,
    scoped,
    steps::{Hook, Step},
};

/// Number of MongoDB's error `DocumentValidationFailure`.
const BREAKS_VALIDATOR: i32 = 121;
/// Number of MongoDB's error `BSONObjectTooLarge`.
const TOO_LARGE: i32 = 10_334;

/// The option of commands that validators do not judge.
const BYPASS_VALIDATION: &CStr = cstr!("bypassDocumentValidation");
/// Commands that have the field `bypassDocumentValidation`.
const JUDGED: [&str; 4] = ["insert", "update", "findAndModify", "aggregate"];

/// The answer to an `update`, `insert` or `delete` command.
#[derive(Debug, Default)]
pub(crate) struct WriteAnswer {
    /// Documents matched (inserted, deleted), over all statements.
    pub(crate) n: i64,
    /// Documents changed, over all statements.
    pub(crate) modified: i64,
    /// The places of the statements that have inserted a document, and its `_id`.
    pub(crate) upserted: Vec<(usize, Bson)>,
    /// Statements that the server refused: place, code, words.
    pub(crate) errors: Vec<(usize, Error)>,
}

impl WriteAnswer {
    /// The answer to a write that stores both versions of a document: where they are too large, it
    /// says so.
    fn of_held(self) -> Self {
        let errors = self.errors.into_iter().map(|(place, error)| (place, too_large_with_both(error)));
        Self { errors: errors.collect(), ..self }
    }

    /// # Errors
    /// [`ErrorKind::Unavailable`] when a statement was not carried out because the server ceased to
    /// be the primary.
    fn parse_write(answer: &Document) -> Result<Self> {
        let number = |field| answer.get(field).map_or(0, as_i64);
        let place = |of: &Document| usize::try_from(of.get("index").map_or(0, as_i64)).unwrap_or(0);
        let upserted = answer.get_array("upserted").into_iter().flatten().filter_map(Bson::as_document);
        let upserted = upserted.filter_map(|one| Some((place(one), one.get("_id")?.clone()))).collect();
        let errors = answer.get_array("writeErrors").into_iter().flatten().filter_map(Bson::as_document);
        let errors = errors.map(|error| {
            let code = error.get("code").map_or(0, as_i64) as i32;
            let message = error.get_str("errmsg").unwrap_or("the server gave no reason");
            let info = error.get_document("errInfo").ok().map(validator::explain);
            let refused = refused_by_server(code, message);
            let refused = refused.with_duplicate_key(DuplicateKey::read(error)).with_info(info);
            (place(error), refused)
        });
        let errors: Vec<(usize, Error)> = errors.collect();
        match errors.iter().find(|(_, error)| error.kind() == ErrorKind::Unavailable) {
            Some((_, away)) => Err(away.clone()),
            None => Ok(Self { n: number("n"), modified: number("nModified"), upserted, errors }),
        }
    }

    /// The counts of a write by the command of this name.
    fn progress(&self, command: &str) -> Progress {
        let n = u64::try_from(self.n).unwrap_or(0);
        let upserted = self.upserted.len() as u64;
        match command {
            "insert" => Progress { inserted: n, ..Progress::default() },
            "delete" => Progress { deleted: n, ..Progress::default() },
            _ => Progress {
                matched: n.saturating_sub(upserted),
                modified: u64::try_from(self.modified).unwrap_or(0),
                upserted,
                ..Progress::default()
            },
        }
    }

    fn breaks_validator(&self) -> bool {
        self.errors.iter().any(|(_, error)| error.code() == Some(BREAKS_VALIDATOR))
    }

    /// The answer, or the first statement's error.
    pub(crate) fn ok(mut self) -> Result<Self> {
        if self.errors.is_empty() { Ok(self) } else { Err(self.errors.swap_remove(0).1) }
    }
}

/// The connection of one client, with its counters and its hook.
pub(crate) struct Server {
    driver: Client,
    /// `None`: everything goes over the driver.
    lean: Option<Lean>,
    pub(crate) counters: Arc<Counters>,
    hook: Hook,
    /// Rises with every connection that the driver begins, and that is begun and made beside it.
    connections: Arc<AtomicU64>,
    /// Number of servers that keep the data.
    pub(crate) nodes: Arc<Nodes>,
    /// Verdict about the server: whether it was seen to refuse updates of documents that are held.
    trust: Trust,
    /// Writes of this client outside transactions.
    pub(crate) plain: Arc<Plain>,
    /// The clustered collections that the catalog has met.
    pub(crate) clustered: Clustered,
}

impl Server {
    pub(crate) fn new(
        driver: Client,
        lean: Option<Lean>,
        counters: Arc<Counters>,
        hook: Hook,
        connections: Arc<AtomicU64>,
        nodes: Arc<Nodes>,
        plain: Arc<Plain>,
    ) -> Self {
        let (trust, clustered) = (Trust::default(), Clustered::default());
        Self { driver, lean, counters, hook, connections, nodes, trust, plain, clustered }
    }

    /// Number that rises when commands may reach another server process than before.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(SeqCst)
    }

    /// Returns true if a command that is sent over one of its connections, or not at all, proves
    /// that the same server process was there all the time (decision 0039).
    pub(crate) fn is_bound(&self) -> bool {
        self.lean.is_some() && self.nodes.is_one_process()
    }

    pub(crate) async fn at(&self, step: Step) {
        self.hook.at(step).await;
    }

    /// A connection of this library's own, where there are some.
    async fn line(&self) -> Result<Option<Line<'_>>> {
        match &self.lean {
            Some(lean) => lean.line().await,
            None => Ok(None),
        }
    }

    /// Sends one command, and reads the whole answer. For the three interfaces
    /// alone.
    async fn send(&self, db: &str, command: Document) -> Result<Document> {
        let line = self.line().await?;
        self.send_by(line, db, command).await
    }

    /// The same, of a command that is bytes already.
    async fn send_raw(&self, db: &str, command: RawDocumentBuf) -> Result<Document> {
        match self.line().await? {
            Some(mut line) => document::parse(&line.ask_raw(db, &command).await?),
            None => self.send_by(None, db, Document::try_from(&*command)?).await,
        }
    }

    /// The same over this connection, or over the driver's. Whatever this is dropped in may have
    /// been sent.
    async fn send_by(&self, line: Option<Line<'_>>, db: &str, mut command: Document) -> Result<Document> {
        match line {
            Some(mut line) => document::parse(&line.ask(db, &command).await?),
            None => {
                scoped::add_comment(&mut command);
                in_time(self.driver.database(db).run_command(command)).await
            }
        }
    }

    /// The connection is there that was since [`Server::connections`] was `number`.
    pub(crate) fn is_kept_since(&self, number: u64) -> bool {
        self.lean.as_ref().is_some_and(|lean| lean.is_kept_since(number))
    }

    /// The same, over the connection that is there since [`Server::connections`] was `number`, or
    /// not at all.
    async fn send_over(&self, db: &str, command: &Document, number: u64) -> Result<Document> {
        let Some(lean) = self.lean.as_ref().filter(|_| self.is_bound()) else {
            return Err(Error::new(ErrorKind::Unavailable, "no connection leads to one server process for certain"));
        };
        document::parse(&lean.line_since(number).await?.ask(db, command).await?)
    }

    /// Sends one command of an interface. What was done and may be lost again (`writeConcernError`)
    /// counts as unanswered.
    async fn send_kept(&self, db: &str, command: Document) -> Result<Document> {
        kept(self.send(db, command).await?)
    }

    /// A change of documents that carry locks, as durable as it has to be.
    async fn prepare(&self, ns: &Namespace, command: Document) -> Result<WriteAnswer> {
        self.prepare_raw(ns, RawDocumentBuf::try_from(&command)?).await
    }

    /// The same, of a command that is bytes already.
    async fn prepare_raw(&self, ns: &Namespace, command: RawDocumentBuf) -> Result<WriteAnswer> {
        WriteAnswer::parse_write(&self.send_durably(&ns.db, command).await.map_err(interrupted)?)
    }

    async fn send_durably(&self, db: &str, mut command: RawDocumentBuf) -> Result<Document> {
        if self.nodes.are_several() {
            command.append(cstr!("writeConcern"), RawDocumentBuf::try_from(&self.nodes.durable())?);
        }
        kept(self.send_raw(db, command).await?)
    }

    /// The command without the collection's validator.
    fn unjudged(mut command: Document) -> Document {
        command.insert(BYPASS_VALIDATION.as_str(), true);
        command
    }

    /// A command of a live transaction or of none, judged by the collection's validator unless the
    /// application has it bypassed. Repairs take no such option: they judge, and go on where a
    /// document breaks the validator.
    fn judged_as_asked(command: &mut Document) {
        let can_bypass = command.keys().next().is_some_and(|name| JUDGED.contains(&name.as_str()));
        if can_bypass && scoped::bypasses_validation() {
            command.insert(BYPASS_VALIDATION.as_str(), true);
        }
    }

    /// The same, of an `update` or `findAndModify` that is bytes already.
    fn judged_raw_as_asked(command: &mut RawDocumentBuf) {
        if scoped::bypasses_validation() {
            command.append(BYPASS_VALIDATION, true);
        }
    }

    /// The documents that `find` or `aggregate` answers, fetched as the caller needs them.
    pub(crate) async fn cursor(self: &Arc<Self>, db: &str, command: Document) -> Result<Stream> {
        let Some(mut line) = self.line().await? else {
            return Ok(Stream::Driver(Box::new(self.driver_cursor(db, command).await?)));
        };
        let answer = line.ask(db, &command).await?;
        Ok(Stream::Lean(LeanCursor::of(self, line.runtime(), &answer)?))
    }

    /// Queries that are sent in one write: the server begins each when it has answered the one
    /// before it. `None`: there is no connection of this library's own, or they are too long for
    /// that, and nothing was sent.
    pub(crate) async fn cursors_together(
        self: &Arc<Self>,
        queries: &[(&str, &Document)],
    ) -> Result<Option<Vec<Result<Stream>>>> {
        let Some(mut line) = self.line().await? else { return Ok(None) };
        let Some(answers) = line.ask_together(queries).await? else { return Ok(None) };
        Ok(Some(self.streams(line.runtime(), answers)))
    }

    fn streams(
        self: &Arc<Self>,
        runtime: &Handle,
        answers: impl IntoIterator<Item = Result<RawDocumentBuf>>,
    ) -> Vec<Result<Stream>> {
        let stream = |answer: Result<RawDocumentBuf>| Ok(Stream::Lean(LeanCursor::of(self, runtime, &answer?)?));
        answers.into_iter().map(stream).collect()
    }

    /// One command over a connection of this library's own. For [`stream`] alone.
    async fn ask_raw(&self, db: &str, command: &Document) -> Result<RawDocumentBuf> {
        match self.line().await? {
            Some(mut line) => line.ask(db, command).await,
            None => Err(Error::new(
                ErrorKind::Unavailable,
                "the server that has the cursor is a member of a larger set now",
            )),
        }
    }

    /// A cursor of bytes: the driver's cursor of documents reads them through serde, which takes
    /// objects for what they look like (see [`document`]).
    async fn driver_cursor(&self, db: &str, mut command: Document) -> Result<Cursor<RawDocumentBuf>> {
        scoped::add_comment(&mut command);
        Ok(in_time(self.driver.database(db).run_cursor_command(command)).await?.with_type())
    }

    /// All documents of a cursor, at most `limit`.
    pub(crate) async fn collect(&self, db: &str, command: Document, limit: usize) -> Result<Vec<Document>> {
        self.collect_raw(db, command, limit).await?.iter().map(|raw| document::parse(raw)).collect()
    }

    /// Collects the documents as [`Server::collect`] does, as bytes.
    pub(crate) async fn collect_raw(&self, db: &str, command: Document, limit: usize) -> Result<Vec<RawDocumentBuf>> {
        if let Some(line) = self.line().await? {
            return line.collect(db, &command, limit).await;
        }
        let mut cursor = self.driver_cursor(db, command).await?.take(limit);
        let mut found = Vec::new();
        while let Some(next) = in_time(cursor.try_next()).await? {
            found.push(next);
        }
        Ok(found)
    }

    /// The first document that a `find` gives.
    pub(crate) async fn find_first(&self, ns: &Namespace, find: Document) -> Result<Option<Document>> {
        self.find_first_raw(ns, find).await?.map(|raw| document::parse(&raw)).transpose()
    }

    /// The document of one `_id`, as it is stored. The `_id` is neither a document nor a pattern,
    /// which would be a condition.
    pub(crate) async fn find_stored(&self, ns: &Namespace, id: RawBsonRef<'_>) -> Result<Option<RawDocumentBuf>> {
        let Some(mut line) = self.line().await? else {
            let find = doc! {"find": &ns.coll, "filter": {"_id": Bson::try_from(id)?}};
            return self.find_first_raw(ns, find).await;
        };
        let mut filter = RawDocumentBuf::new();
        filter.append(cstr!("_id"), id);
        let find = rawdoc! {"find": &*ns.coll, "filter": filter, "limit": 1, "singleBatch": true};
        line.first(&ns.db, &find).await
    }

    /// The first document that a `find` gives, as bytes.
    pub(crate) async fn find_first_raw(&self, ns: &Namespace, mut find: Document) -> Result<Option<RawDocumentBuf>> {
        find.insert("limit", 1);
        find.insert("singleBatch", true);
        Ok(self.collect_raw(&ns.db, find, 1).await?.pop())
    }
}

/// The longest wait for one answer: a server that stands still, or a network that swallows packets,
/// breaks no connection.
const LONGEST_ANSWER: Duration = Duration::from_secs(300);

/// The longest that this task waits for one answer.
fn longest_answer() -> Duration {
    scoped::longest_answer().map_or(LONGEST_ANSWER, |limit| limit.min(LONGEST_ANSWER))
}

/// The driver's answer, or an error when that takes too long.
pub(crate) async fn in_time<T>(answer: impl IntoFuture<Output = mongodb::error::Result<T>>) -> Result<T> {
    let limit = longest_answer();
    match tokio::time::timeout(limit, answer.into_future()).await {
        Ok(answer) => answer.map_err(from_driver),
        Err(_) => {
            let message =
                format!("the server did not answer within {limit:?}: the command was lost, or the answer with it");
            Err(Error::new(ErrorKind::Unavailable, message).maybe_done())
        }
    }
}

/// The answer, unless its effects may be lost again: only this server has them yet, and it may
/// cease to be the primary.
fn kept(answer: Document) -> Result<Document> {
    match answer.get_document("writeConcernError") {
        Err(_) => Ok(answer),
        Ok(concern_error) => {
            let concern_error = concern_error.clone();
            Err(Error::unreplicated(Unreplicated { concern_error, answer }))
        }
    }
}

/// Sorts the driver's errors into kinds.
pub(crate) fn from_driver(error: mongodb::error::Error) -> Error {
    let kind = error.kind.as_ref();
    let sorted = match kind {
        DriverKind::Command(refused) => {
            let details = error.server_response().and_then(|raw| Document::try_from(raw.as_ref()).ok());
            refused_command(refused.code, &refused.message, details.as_ref())
        }
        DriverKind::ServerSelection { .. }
        | DriverKind::DnsResolve { .. }
        | DriverKind::ConnectionPoolCleared { .. } => {
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
fn from_wire(failure: &Failure) -> Error {
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
fn refused_answer(refusal: &Refusal, answer: &RawDocument) -> Error {
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

fn refused_by_server(code: i32, message: &str) -> Error {
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
fn interrupted(error: Error) -> Error {
    match error.code() {
        Some(code) if error.kind() == ErrorKind::Invalid && INTERRUPTED.contains(&code) => {
            Error::interrupted(code, &format!("a write was interrupted, and may be half done: {error}"))
        }
        _ => error,
    }
}

/// The server's error about a stored document that is too large, where a transaction holds it: the
/// application's document is smaller.
fn too_large_with_both(error: Error) -> Error {
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

    #[test]
    fn statements_that_the_server_did_not_finish_are_unanswered() {
        let answer = |code| {
            let error = doc! {"index": 0, "code": code, "errmsg": "no"};
            WriteAnswer::parse_write(&doc! {"n": 0, "writeErrors": [error], "ok": 1.0})
        };
        for code in [91, 189, 10_058, 10_107, 11_600, 11_602, 13_435, 13_436] {
            assert_eq!(answer(code).unwrap_err().kind(), ErrorKind::Unavailable, "{code}");
        }
        assert_eq!(answer(11_000).unwrap().errors.len(), 1);
    }

    #[test]
    fn progress_is_what_the_command_has_done() {
        let upserted = doc! {"index": 0, "_id": 7};
        let answer =
            WriteAnswer::parse_write(&doc! {"n": 3, "nModified": 1, "upserted": [upserted], "ok": 1.0}).unwrap();
        let updated = answer.progress("update");
        assert_eq!((updated.matched, updated.modified, updated.upserted), (2, 1, 1));
        assert_eq!((answer.progress("insert").inserted, answer.progress("delete").deleted), (3, 3));
    }
}
