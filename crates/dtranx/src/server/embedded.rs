//! The same engine within a program, without sockets: requests go straight into the queues.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::board::Board;
use super::engine::{self, Engine, Port};
use super::event::{Outgoing, ReadFor};
use super::stages::BATCH;
use super::{LogMedium, ServerConfig, ServerError, StorageKind};
use crate::client::{Answer, Client, ClientOptions, Done, Link, Ticket};
use crate::cluster::{Cluster, Server};
use crate::core::{ClientId, CommitAnswer, Input, MessageId, Refusal, ServerId};
use crate::stage::{Inlet, Source, Stage};
use crate::wire::{Ask, Reply};

const ME: ServerId = ServerId(1);
/// How long the engine may take to reserve its first numbers.
const OPENING: Duration = Duration::from_secs(10);

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
        let waiting = Arc::new(Waiting::default());
        let mut ways = None;
        let engine = engine::start(config, |port| {
            let Port { entry, reads, outgoing, .. } = port;
            ways = Some((entry, reads));
            Ok(Box::new(LocalStage { outgoing, waiting: waiting.clone(), batch: Vec::new() }))
        })?;
        let client = name(&engine.board)?;
        let Some((entry, reads)) = ways else {
            return Err(ServerError::Io { action: "open the queues".into(), source: std::io::ErrorKind::Other.into() });
        };
        // The first of all entries: there is room.
        let _ = entry.offer(Input::ClientConnected { client });
        let link = Arc::new(LocalLink { client, entry, reads, waiting, next_id: AtomicU64::new(1) });
        Ok(Self { engine, cluster: config.cluster.clone(), link })
    }

    /// A client of it.
    pub fn client(&self, options: ClientOptions) -> Client {
        let link: Arc<dyn Link> = self.link.clone();
        Client::with_links(self.cluster.clone(), BTreeMap::from([(self.cluster.servers[0].id, link)]), options)
    }

    /// How it is.
    pub fn status(&self) -> crate::wire::ServerStatus {
        self.engine.board.status(Vec::new())
    }
}

fn cluster() -> Cluster {
    Cluster::hashed("embedded", vec![Server { id: ME, address: SocketAddr::from(([127, 0, 0, 1], 0)) }])
}

fn name(board: &Board) -> Result<ClientId, ServerError> {
    let begun = Instant::now();
    while begun.elapsed() < OPENING {
        if let Some(client) = board.name_client() {
            return Ok(client);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(ServerError::Io { action: "reserve transaction numbers".into(), source: std::io::ErrorKind::TimedOut.into() })
}

#[derive(Default)]
struct Waiting {
    by_id: Mutex<HashMap<u64, Done>>,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Done>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, id: u64, answer: Answer) {
        // Taken out first: whoever is told may ask again at once.
        let done = self.lock().remove(&id);
        if let Some(done) = done {
            done(answer);
        }
    }
}

struct LocalLink {
    client: ClientId,
    entry: Inlet<Input>,
    reads: Inlet<ReadFor>,
    waiting: Arc<Waiting>,
    next_id: AtomicU64,
}

impl LocalLink {
    /// Puts a request into its queue; the answer to give at once if there is no room.
    fn send(&self, id: u64, ask: Ask, done: Done) -> Result<(), Reply> {
        self.waiting.lock().insert(id, done);
        let client = self.client;
        match ask {
            Ask::Commit(transaction) => {
                let input = Input::Commit { client, message: MessageId(id), transaction };
                let limit = "requests that wait at the server".to_owned();
                let refusal = Refusal::Overloaded { limit };
                self.entry.offer(input).map_err(|_| Reply::Commit(CommitAnswer::Refused(refusal)))
            }
            ask => {
                let full = || "the server is at its limit: reads that wait".to_owned();
                self.reads.offer(ReadFor { client, id, ask }).map_err(|_| Reply::Refused(full()))
            }
        }
    }
}

impl Link for LocalLink {
    fn ask(&self, ask: Ask, _: Instant, done: Done) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        if let Err(reply) = self.send(id, ask, done) {
            self.waiting.tell(id, Answer::Reply(reply));
        }
    }

    fn ask_again(&self, ticket: Ticket, ask: Ask, _: Instant, done: Done) {
        // No room says nothing about the earlier copy.
        if self.send(ticket.id, ask, done).is_err() {
            self.waiting.tell(ticket.id, Answer::Silence(ticket));
        }
    }
}

/// Takes the place of the network.
struct LocalStage {
    outgoing: Source<Outgoing>,
    waiting: Arc<Waiting>,
    batch: Vec<Outgoing>,
}

impl Stage for LocalStage {
    fn name(&self) -> &'static str {
        "network"
    }

    fn run(&mut self, _: u64) -> Result<usize, String> {
        let handled = self.outgoing.take(BATCH, &mut self.batch);
        for outgoing in self.batch.drain(..) {
            // There are no other servers.
            if let Outgoing::Client(_, response) = outgoing {
                self.waiting.tell(response.id, Answer::Reply(response.reply));
            }
        }
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.outgoing.is_empty()
    }
}
