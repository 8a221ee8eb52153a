//! Connections of this library's own to a deployment that is one server: no other task stands
//! between a caller and the server.
//!
//! The official driver finds the server and checks that it takes writes; it does so when a
//! connection cannot be made, and waits as long as its options say. Where several servers keep the
//! data, or the server demands a protocol that `mongowire` does not know, all commands go over the
//! driver.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bson::{Document, RawArray, RawDocument, RawDocumentBuf, doc, oid::ObjectId};
use mongodb::options::ClientOptions as DriverOptions;
use mongowire::{Address, Failure, Pool, PoolLimits, PooledConnection, Refusal, Settings};
use tokio::runtime::Handle;

use super::{
    LONGEST_ANSWER,
    failures::{from_wire, refused_answer},
    in_time, longest_answer,
};
use crate::{
    backoff::Backoff,
    coordinator::stored::nodes::Nodes,
    error::{Error, ErrorKind, Result},
    metrics::Counters,
    scoped,
};

/// As many as the driver's pool has by default.
const MOST: usize = 10;
/// Time that an unused connection is kept.
const IDLE: Duration = Duration::from_secs(60);
/// The driver's default time limit for finding a server that can be used.
const SERVER_SELECTION: Duration = Duration::from_secs(30);
/// Pauses after the driver has found the server, and it cannot be used nevertheless.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(500));

/// The use of a pool of connections, which decides how many there may be.
pub(crate) enum Purpose {
    /// All commands on data: as many connections as the options say.
    Data,
    /// The records of clients: one, which stays.
    Records,
}

/// A pool of lean connections to the one server that keeps the data.
pub(crate) struct Lean {
    pool: Pool,
    /// Rises before a connection is opened, and again when it is ([`Pool::new`]).
    begun: Arc<AtomicU64>,
    /// Discovers which server that is, and follows elections.
    driver: mongodb::Client,
    nodes: Arc<Nodes>,
    /// Time limit for finding the server.
    server_selection: Duration,
    /// The server is a member of a set, which says where it is.
    follows_set: bool,
    /// Counts the commands that are sent.
    counters: Option<Arc<Counters>>,
}

impl Lean {
    /// A pool without a connection. `hello`: the server's answer to the driver. `begun`: see
    /// [`Pool::new`]. `None`: these options, or this server, are for the driver.
    pub(crate) fn new(
        options: &DriverOptions,
        hello: &Document,
        driver: &mongodb::Client,
        nodes: &Arc<Nodes>,
        purpose: &Purpose,
        begun: &Arc<AtomicU64>,
    ) -> Option<Self> {
        let settings = Settings::from_driver_options(options)?;
        let follows_set = hello.contains_key("setName") && options.direct_connection != Some(true);
        let settings = if follows_set { settings.at(primary(hello)?) } else { settings };
        let limits = match purpose {
            Purpose::Data => PoolLimits {
                most: options.max_pool_size.map_or(MOST, |most| if most == 0 { usize::MAX } else { most as usize }),
                wait: LONGEST_ANSWER,
                idle: Some(options.max_idle_time.filter(|idle| !idle.is_zero()).unwrap_or(IDLE)),
            },
            Purpose::Records => PoolLimits { most: 1, wait: LONGEST_ANSWER, idle: None },
        };
        Some(Self {
            pool: Pool::new(settings, limits, Arc::clone(begun)),
            begun: Arc::clone(begun),
            driver: driver.clone(),
            nodes: Arc::clone(nodes),
            server_selection: options.server_selection_timeout.unwrap_or(SERVER_SELECTION),
            follows_set,
            counters: None,
        })
    }

    /// The pool, with these counters for its commands.
    #[must_use]
    pub(crate) fn counted(self, counters: Option<&Arc<Counters>>) -> Self {
        Self { counters: counters.cloned(), ..self }
    }

    /// A connection. `None`: several servers keep the data now, and commands have to go over the
    /// driver. Nothing was sent after an error.
    pub(crate) async fn line(&self) -> Result<Option<Line<'_>>> {
        let deadline = Instant::now() + self.server_selection;
        let mut backoff = PAUSES;
        while !self.nodes.are_several() {
            let failure = match self.pool.get().await {
                Ok(lent) => match self.admit(lent) {
                    Ok(line) => return Ok(Some(line)),
                    Err(error) => error,
                },
                Err(failure @ Failure::Unreachable { .. }) => from_wire(&failure),
                Err(failure) => return Err(from_wire(&failure)),
            };
            self.find(deadline, failure).await?;
            tokio::time::sleep(backoff.next_pause().min(deadline.saturating_duration_since(Instant::now()))).await;
        }
        Ok(None)
    }

    /// The connection that is there since `begun` was `number`; none is opened. Only for a pool of
    /// one connection. Nothing was sent after an error.
    pub(crate) async fn line_since(&self, number: u64) -> Result<Line<'_>> {
        let lent = self.pool.get_kept().await.map_err(|failure| from_wire(&failure))?;
        // No other caller opens one as long as this one is lent.
        match lent.filter(|_| self.begun.load(SeqCst) == number) {
            Some(lent) => Ok(Line { lean: self, lent }),
            None => Err(Error::new(ErrorKind::Unavailable, "the connection for record writes is another one by now")),
        }
    }

    /// Returns true if the connection is there that was when `begun` was `number`: its last command
    /// was answered.
    pub(super) fn is_kept_since(&self, number: u64) -> bool {
        self.pool.has_idle() && self.begun.load(SeqCst) == number
    }

    /// The connection, if it leads to a server that may be written to and that is alone.
    fn admit<'a>(&'a self, lent: PooledConnection<'a>) -> Result<Line<'a>> {
        if lent.is_new() {
            let greeting = lent.greeting();
            if let Ok(hello) = Document::try_from(&*greeting.hello) {
                self.nodes.note(&hello);
            }
            if !greeting.is_writable || self.nodes.are_several() {
                lent.discard();
                return Err(Error::new(ErrorKind::Unavailable, "the server is not, or not alone, the primary"));
            }
        }
        Ok(Line { lean: self, lent })
    }

    /// Waits until the driver has found a server. `failure`: why that is needed, for when there is
    /// no more time.
    async fn find(&self, deadline: Instant, failure: Error) -> Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(failure);
        }
        let admin = self.driver.database("admin");
        match tokio::time::timeout(left, in_time(admin.run_command(doc! {"hello": 1}))).await {
            Ok(Ok(hello)) => {
                self.nodes.note(&hello);
                self.follow(&hello);
                Ok(())
            }
            // The driver's own connections may be as old as these: it has to try again.
            Ok(Err(error)) if error.kind() == ErrorKind::Unavailable && Instant::now() < deadline => Ok(()),
            Ok(Err(error)) if error.kind() != ErrorKind::Unavailable => Err(error),
            // The fault of the connection says more than that there is no server.
            Ok(Err(_)) | Err(_) => Err(failure),
        }
    }

    fn follow(&self, hello: &Document) {
        let now = self.pool.settings();
        if let Some(address) = primary(hello).filter(|address| self.follows_set && *address != now.address) {
            self.pool.replace_settings(now.at(address));
        }
    }
}

/// The address of the primary, by what a member of the set says.
fn primary(hello: &Document) -> Option<Address> {
    Address::parse(hello.get_str("primary").ok()?)
}

/// A connection for some commands, one after the other.
pub(crate) struct Line<'a> {
    lean: &'a Lean,
    lent: PooledConnection<'a>,
}

impl Line<'_> {
    /// The server process at the other end; `None`: the server does not send its id.
    pub(super) fn process(&self) -> Option<ObjectId> {
        self.lent.greeting().process_id
    }

    /// The runtime that connections live in.
    pub(super) fn runtime(&self) -> &Handle {
        self.lean.pool.runtime()
    }

    /// Sends a command once, and answers what the server has done.
    pub(crate) async fn ask(&mut self, db: &str, command: &Document) -> Result<RawDocumentBuf> {
        self.ask_raw(db, &RawDocumentBuf::try_from(command)?).await
    }

    /// The same, of a command that is bytes already.
    pub(super) async fn ask_raw(&mut self, db: &str, command: &RawDocument) -> Result<RawDocumentBuf> {
        if let (Some(counters), Some(Ok(first))) = (&self.lean.counters, command.iter_elements().next()) {
            counters.count_command(first.key().as_str());
        }
        let commented = scoped::commented(command)?;
        self.exchange(db, commented.as_deref().unwrap_or(command)).await
    }

    /// Sends commands of which only the first may change something in one write; the server carries
    /// them out in this order. `None`: they are too long for that, and nothing was sent.
    pub(super) async fn ask_together(
        &mut self,
        commands: &[(&str, &Document)],
    ) -> Result<Option<Vec<Result<RawDocumentBuf>>>> {
        let mut bodies = Vec::with_capacity(commands.len());
        for (db, command) in commands {
            let body = RawDocumentBuf::try_from(*command)?;
            bodies.push((*db, scoped::commented(&body)?.unwrap_or(body)));
        }
        let bodies: Vec<(&str, &RawDocument)> = bodies.iter().map(|(db, body)| (*db, &**body)).collect();
        let answers = match self.lent.run_together(&bodies, longest_answer()).await {
            Err(Failure::TooLong { .. }) => return Ok(None),
            answers => answers,
        };
        // Also the commands whose answers were lost.
        if let Some(counters) = &self.lean.counters {
            let names = commands.iter().filter_map(|(_, command)| command.keys().next());
            names.for_each(|name| counters.count_command(name));
            counters.add(&counters.sent_along, commands.len().saturating_sub(1) as u64);
        }
        let answers = answers.map_err(|failure| self.lost(&failure))?;
        Ok(Some(answers.into_iter().map(|answer| self.unless_refused(answer)).collect()))
    }

    /// As [`Line::ask`], for what this library wants to know for itself: it is not counted, and no
    /// comment of the application's goes along.
    pub(super) async fn ask_aside(&mut self, db: &str, command: &Document) -> Result<RawDocumentBuf> {
        self.exchange(db, &RawDocumentBuf::try_from(command)?).await
    }

    async fn exchange(&mut self, db: &str, command: &RawDocument) -> Result<RawDocumentBuf> {
        let answer = self.lent.run_command(Some(db), command, &[], longest_answer()).await;
        let answer = answer.map_err(|failure| self.lost(&failure))?;
        self.unless_refused(answer)
    }

    /// The error of a command that was not answered.
    fn lost(&self, failure: &Failure) -> Error {
        if !matches!(failure, Failure::TooLong { .. }) {
            // The others may lead to the same server, which is gone.
            self.lean.pool.clear();
        }
        from_wire(failure)
    }

    fn unless_refused(&self, answer: RawDocumentBuf) -> Result<RawDocumentBuf> {
        match Refusal::of(&answer) {
            None => Ok(answer),
            Some(refusal) => {
                let error = refused_answer(&refusal, &answer);
                if error.kind() == ErrorKind::Unavailable {
                    self.lean.pool.clear();
                }
                Err(error)
            }
        }
    }

    /// The first document that a `find` answers.
    pub(super) async fn first(&mut self, db: &str, find: &RawDocument) -> Result<Option<RawDocumentBuf>> {
        let answer = self.ask_raw(db, find).await?;
        let first = Batch::of(&answer, "firstBatch")?.documents().next();
        Ok(first.transpose()?.map(RawDocument::to_owned))
    }

    /// All documents of a cursor, at most `limit`.
    pub(crate) async fn collect(mut self, db: &str, command: &Document, limit: usize) -> Result<Vec<RawDocumentBuf>> {
        let mut found = Vec::new();
        let mut answer = self.ask(db, command).await?;
        let (mut cursor, (db, coll)) = (Batch::of(&answer, "firstBatch")?, collection_of(&answer)?);
        loop {
            cursor.take(&mut found, limit)?;
            let id = cursor.id;
            if id == 0 {
                return Ok(found);
            }
            if found.len() >= limit {
                // The answer does not matter: cursors that are not used end after a while.
                let _ = self.ask(&db, &doc! {"killCursors": &coll, "cursors": [id]}).await;
                return Ok(found);
            }
            answer = self.ask(&db, &doc! {"getMore": id, "collection": &coll}).await?;
            cursor = Batch::of(&answer, "nextBatch")?;
        }
    }
}

/// A part of a cursor's documents.
pub(super) struct Batch<'a> {
    /// Id of the server's cursor; 0 after its last batch.
    pub(super) id: i64,
    documents: &'a RawArray,
}

impl<'a> Batch<'a> {
    /// The batch in a server's answer to a query (`batch` is `firstBatch`) or to a `getMore`
    /// (`nextBatch`).
    pub(super) fn of(answer: &'a RawDocument, batch: &str) -> Result<Self> {
        let cursor = answer.get_document("cursor").map_err(|_| unreadable())?;
        let id = cursor.get("id").ok().flatten();
        let id = id.and_then(|id| id.as_i64().or_else(|| id.as_i32().map(i64::from))).ok_or_else(unreadable)?;
        Ok(Self { id, documents: cursor.get_array(batch).map_err(|_| unreadable())? })
    }

    pub(super) fn array(&self) -> &'a RawArray {
        self.documents
    }

    pub(super) fn documents(&self) -> impl Iterator<Item = Result<&'a RawDocument>> {
        self.documents.into_iter().map(|one| one.map_err(|_| unreadable())?.as_document().ok_or_else(unreadable))
    }

    fn take(&self, found: &mut Vec<RawDocumentBuf>, limit: usize) -> Result<()> {
        for one in self.documents().take(limit.saturating_sub(found.len())) {
            found.push(one?.to_owned());
        }
        Ok(())
    }
}

/// Database and collection of an answer's cursor, which need not be those of the command.
pub(super) fn collection_of(answer: &RawDocument) -> Result<(String, String)> {
    let cursor = answer.get_document("cursor").map_err(|_| unreadable())?;
    let (db, coll) = cursor.get_str("ns").ok().and_then(|ns| ns.split_once('.')).ok_or_else(unreadable)?;
    Ok((db.to_owned(), coll.to_owned()))
}

pub(super) fn unreadable() -> Error {
    Error::new(ErrorKind::Corruption, "the server has answered a query with what is no cursor")
}
