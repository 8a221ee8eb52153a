//! Commands to the server: sending, counting, and waiting for the answer. What goes wrong is sorted
//! in [`failures`].
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

mod answer;
pub(crate) mod clustered;
pub(crate) mod direct;
mod documents;
pub(crate) mod failures;
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
use mongodb::{Client, Cursor};
use tokio::runtime::Handle;

pub(crate) use self::answer::WriteAnswer;
use self::{
    answer::read_answer,
    clustered::Clustered,
    failures::{from_driver, interrupted, kept},
    guarded::Trust,
    lean::{Lean, Line},
    plain::Plain,
    stream::{LeanCursor, Stream},
};
use super::stored::nodes::Nodes;
use crate::{
    document,
    error::{Error, ErrorKind, Result},
    metrics::Counters,
    options::Namespace,
    scoped,
    steps::{Hook, Step},
};

/// The option of commands that validators do not judge.
const BYPASS_VALIDATION: &CStr = cstr!("bypassDocumentValidation");
/// Commands that have the field `bypassDocumentValidation`.
const JUDGED: [&str; 4] = ["insert", "update", "findAndModify", "aggregate"];

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
            Some(mut line) => read_answer(name_of(&command), &line.ask_raw(db, &command).await?),
            None => self.send_by(None, db, Document::try_from(&*command)?).await,
        }
    }

    /// The same over this connection, or over the driver's. Whatever this is dropped in may have
    /// been sent.
    async fn send_by(&self, line: Option<Line<'_>>, db: &str, mut command: Document) -> Result<Document> {
        match line {
            Some(mut line) => {
                let name = command.keys().next().map_or("", String::as_str);
                read_answer(name, &line.ask(db, &command).await?)
            }
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
        let name = command.keys().next().map_or("", String::as_str);
        read_answer(name, &lean.line_since(number).await?.ask(db, command).await?)
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
        let answer = self.send_durably(&ns.db, command).await;
        // Refused as a whole, it has changed nothing.
        WriteAnswer::parse_write(&answer.map_err(|error| interrupted(error).clean())?)
    }

    async fn send_durably(&self, db: &str, command: RawDocumentBuf) -> Result<Document> {
        kept(self.send_raw(db, self.durably(command)?).await?)
    }

    /// The command with the write concern that prepared writes have.
    fn durably(&self, mut command: RawDocumentBuf) -> Result<RawDocumentBuf> {
        if self.nodes.are_several() {
            command.append(cstr!("writeConcern"), RawDocumentBuf::try_from(&self.nodes.durable())?);
        }
        Ok(command)
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

fn name_of(command: &RawDocument) -> &str {
    command.iter_elements().next().and_then(|first| Some(first.ok()?.key().as_str())).unwrap_or_default()
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
