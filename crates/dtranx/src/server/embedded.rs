//! The engine of a server within a program, without sockets: requests go straight into the queues.
//! It is a cluster of one server. [`Embedded::client`] makes clients that behave as those over the
//! network (`client/`); a stage of its own answers them in the place of the network's.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::admission;
use super::engine::{self, Engine, Port};
use super::event::ToClient;
use super::reads::Reads;
use super::stages::BATCH;
use super::stats::ServerStats;
use super::{ConfigError, LogMedium, ServerConfig, ServerError, StorageKind};
use crate::client::{Answer, Client, ClientOptions, Done, Generation, Link, MAX_WAITING, Ticket};
use crate::cluster::{Cluster, Server};
use crate::core::machine::TranxEvent;
use crate::core::{ClientId, CommitAnswer, MessageId, Partition, Refusal, ServerId};
use crate::stage::{Inlet, Source, Stage};
use crate::wire::{Ask, Reply};

const ME: ServerId = ServerId(1);
/// Time that the engine may take to reserve its first numbers.
const OPENING: Duration = Duration::from_secs(10);
/// Time between two looks at deadlines, in milliseconds, when there is something to do; otherwise
/// the longest sleep of a stage.
const EXPIRE_MS: u64 = 100;

/// An engine in this process. Dropping it ends it; what was committed is durable.
pub struct Embedded {
    engine: Engine,
    cluster: Cluster,
    link: Arc<LocalLink>,
}

impl Embedded {
    /// Opens a store in a folder.
    ///
    /// # Errors
    /// Log or storage cannot be opened.
    pub fn open(folder: &Path) -> Result<Self, ServerError> {
        Self::start(&ServerConfig::new(cluster(), ME, folder))
    }

    /// A store in memory, which ends with the process.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn in_memory() -> Result<Self, ServerError> {
        let mut config = ServerConfig::new(cluster(), ME, Path::new(""));
        config.medium = LogMedium::Memory;
        config.storage = StorageKind::Memory;
        config.segment_bytes = 16 << 20;
        Self::start(&config)
    }

    /// Starts an engine as configured. Its cluster has one server: this one.
    ///
    /// # Errors
    /// The configuration is wrong; log or storage cannot be opened.
    pub fn start(config: &ServerConfig) -> Result<Self, ServerError> {
        config.validate()?;
        if config.member.is_some() {
            let what = "a store within a program is no member of a group";
            return Err(ConfigError::Field { field: "member".to_owned(), what: what.to_owned() }.into());
        }
        let waiting = Arc::new(Waiting::default());
        let mut ways = None;
        let engine = engine::start(config, |port| {
            let Port { entry, reads, to_clients, .. } = port;
            ways = Some((entry, reads));
            Ok(Box::new(LocalStage { to_clients, waiting: waiting.clone(), batch: Vec::new(), expired_at_ms: 0 }))
        })?;
        let client = name(&engine.stats)?;
        let Some((entry, reads)) = ways else {
            return Err(ServerError::Io { action: "open the queues".into(), source: std::io::ErrorKind::Other.into() });
        };
        // The first of all entries: there is room.
        let _ = entry.offer(TranxEvent::ClientConnected { client });
        let stats = engine.stats.clone();
        let partition = config.cluster.partition.clone();
        let link = Arc::new(LocalLink { client, stats, partition, entry, reads, waiting, next_id: Mutex::new(1) });
        Ok(Self { engine, cluster: config.cluster.clone(), link })
    }

    /// Makes a client of this server.
    pub fn client(&self, options: ClientOptions) -> Client {
        let link: Arc<dyn Link> = self.link.clone();
        Client::with_links(self.cluster.clone(), BTreeMap::from([(self.cluster.servers[0].id, link)]), options)
    }

    /// Status of the server: its stages, queues and log.
    pub fn status(&self) -> crate::wire::ServerStatus {
        self.engine.stats.status(Vec::new())
    }
}

fn cluster() -> Cluster {
    Cluster::hashed("embedded", vec![Server { id: ME, address: SocketAddr::from(([127, 0, 0, 1], 0)) }])
}

fn name(stats: &ServerStats) -> Result<ClientId, ServerError> {
    let begun = Instant::now();
    while begun.elapsed() < OPENING {
        if let Some(client) = stats.name_client() {
            return Ok(client);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(ServerError::Io { action: "reserve transaction numbers".into(), source: std::io::ErrorKind::TimedOut.into() })
}

/// Clients that wait for answers.
#[derive(Default)]
struct Waiting {
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    by_id: HashMap<u64, (Instant, Done)>,
    /// True if the engine has ended: there will be no more answers.
    is_over: bool,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request that waits; gives its receiver back if the engine has ended or too many
    /// requests wait.
    fn add(&self, id: u64, until: Instant, done: Done) -> Result<(), (Done, String)> {
        let mut asked = self.lock();
        if asked.is_over {
            return Err((done, "the engine has ended".to_owned()));
        }
        if asked.by_id.len() >= MAX_WAITING {
            return Err((done, format!("{MAX_WAITING} requests are under way already")));
        }
        asked.by_id.insert(id, (until, done));
        Ok(())
    }

    fn tell(&self, id: u64, answer: Answer) {
        // Called without the lock: the receiver may send its next request.
        if let Some(done) = self.take(id) {
            done(answer);
        }
    }

    /// Removes a request, and returns who waits for its answer.
    fn take(&self, id: u64) -> Option<Done> {
        self.lock().by_id.remove(&id).map(|(_, done)| done)
    }

    /// Ends the requests whose time is over: their receivers get an error. They are called without
    /// the lock, because they may send the next request at once.
    fn expire(&self) {
        let now = Instant::now();
        let late: Vec<_> = self.lock().by_id.extract_if(|_, (until, _)| *until <= now).collect();
        drop(late);
    }

    fn end(&self) {
        let mut asked = self.lock();
        asked.is_over = true;
        let all = std::mem::take(&mut asked.by_id);
        drop(asked);
        drop(all);
    }
}

struct LocalLink {
    client: ClientId,
    stats: Arc<ServerStats>,
    partition: Partition,
    entry: Inlet<TranxEvent>,
    reads: Reads,
    waiting: Arc<Waiting>,
    /// Locked from a commit's number on until it is in its queue: all clients of the link are one
    /// to the server, which ignores a commit that many later ones have overtaken.
    next_id: Mutex<u64>,
}

impl LocalLink {
    /// Numbers a request and puts it into its queue; `Err`: the receiver, and its answer at once.
    fn number(&self, ask: Ask, until: Instant, done: Done) -> Result<(), (Done, Answer)> {
        let mut next_id = self.next_id.lock().unwrap_or_else(PoisonError::into_inner);
        let id = *next_id;
        *next_id += 1;
        // A read may be overtaken.
        let _turn = matches!(ask, Ask::Commit(_) | Ask::CommitAgain { .. } | Ask::Snapshot).then_some(next_id);
        self.waiting.add(id, until, done).map_err(|(done, why)| (done, Answer::NotCarriedOut(why)))?;
        match self.send(id, false, ask) {
            Ok(()) => Ok(()),
            Err(reply) => self.waiting.take(id).map_or(Ok(()), |done| Err((done, Answer::Reply(reply)))),
        }
    }

    /// Puts a request into its queue; or the answer at once, a refusal if there is no room.
    fn send(&self, id: u64, is_repeated: bool, ask: Ask) -> Result<(), Reply> {
        let client = self.client;
        match ask.into_commit() {
            Ok((transaction, mut again)) => {
                admission::limit_keeping(&self.stats, &transaction, &mut again);
                if let Some(refusal) = admission::refuse_commit(&self.stats, &self.partition, &transaction, is_repeated)
                {
                    return Err(Reply::Commit(CommitAnswer::Refused(refusal)));
                }
                let input = TranxEvent::Commit { client, message: MessageId(id), is_repeated, transaction, again };
                let limit = "requests that wait at the server".to_owned();
                let refusal = Refusal::Overloaded { limit };
                self.entry.offer(input).map_err(|_| Reply::Commit(CommitAnswer::Refused(refusal)))
            }
            Err(Ask::Snapshot) => {
                let full = |_| Reply::Refused("the server is at its limit: requests that wait".to_owned());
                self.entry.offer(TranxEvent::Snapshot { client, message: MessageId(id) }).map_err(full)
            }
            Err(ask) => self.reads.ask(client, id, ask),
        }
    }
}

impl Link for LocalLink {
    fn ask(&self, ask: Ask, _: Option<Generation>, until: Instant, done: Done) {
        // Told without the lock: the receiver may send its next request.
        if let Err((done, answer)) = self.number(ask, until, done) {
            done(answer);
        }
    }

    fn ask_again(&self, ticket: Ticket, ask: Ask, until: Instant, done: Done) {
        match self.waiting.add(ticket.id, until, done) {
            Err((done, _)) => done(Answer::Silence(ticket)),
            Ok(()) => {
                // No room says nothing about the earlier copy.
                if self.send(ticket.id, true, ask).is_err() {
                    self.waiting.tell(ticket.id, Answer::Silence(ticket));
                }
            }
        }
    }
}

/// Takes the place of the network.
struct LocalStage {
    to_clients: Source<ToClient>,
    waiting: Arc<Waiting>,
    batch: Vec<ToClient>,
    expired_at_ms: u64,
}

impl Drop for LocalStage {
    fn drop(&mut self) {
        self.waiting.end();
    }
}

impl Stage for LocalStage {
    fn name(&self) -> &'static str {
        "network"
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        if now_ms >= self.expired_at_ms + EXPIRE_MS {
            self.expired_at_ms = now_ms;
            self.waiting.expire();
        }
        let handled = self.to_clients.take(BATCH, &mut self.batch);
        for ToClient { response, .. } in self.batch.drain(..) {
            self.waiting.tell(response.id, Answer::Reply(response.reply));
        }
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.to_clients.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::core::{Incarnation, Key, Transaction, Write};
    use crate::server::holding::Holding;
    use crate::stage::{Counters, Signal, queue};
    use crate::storage::InMemory;

    const THREADS: u64 = 8;
    const COMMITS: u64 = 2_000;

    /// The server would ignore one that comes behind 1024 later ones which are answered.
    #[test]
    fn commits_are_queued_in_the_order_of_their_numbers_whoever_sends_them() {
        let signal = Arc::new(Signal::new());
        let (entry, source) = queue("entry", (THREADS * COMMITS) as usize, &signal, &Counters::new());
        let (reads, _) = queue("reads", 1, &signal, &Counters::new());
        let partition = Partition::Hash(vec![ME]);
        let stats = Arc::new(ServerStats::new(ME, "memory".to_owned(), Counters::new(), u64::MAX));
        let reads = Reads {
            storage: Arc::new(InMemory::new()),
            holding: Holding::new(ME, &partition),
            queue: reads,
            stats: stats.clone(),
        };
        let client = ClientId { incarnation: Incarnation(1), number: 1 };
        let waiting = Arc::new(Waiting::default());
        let link = LocalLink { client, stats, partition, entry, reads, waiting, next_id: Mutex::new(1) };
        std::thread::scope(|threads| {
            for _ in 0..THREADS {
                threads.spawn(|| {
                    let until = Instant::now() + Duration::from_secs(600);
                    for _ in 0..COMMITS {
                        let writes = vec![Write { key: Key::smallest(), value: None }];
                        let ask = Ask::Commit(Transaction { writes, ..Transaction::default() });
                        link.ask(ask, None, until, Box::new(drop));
                    }
                });
            }
        });
        let mut queued = Vec::new();
        source.take((THREADS * COMMITS) as usize, &mut queued);
        let number = |event: &TranxEvent| match event {
            TranxEvent::Commit { message, .. } => message.0,
            other => panic!("{other:?}"),
        };
        assert!(queued.iter().map(number).eq(1..=THREADS * COMMITS));
    }
}
