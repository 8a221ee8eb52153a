//! The network stage: all connections of a server on one thread (ClientService and TranxService of the paper's figure 2).
//!
//! It turns frames into events for the entry and read queues, and outgoing events into frames; many are written at once.
//! Nothing here waits: a full entry queue refuses the client; a message from a server is dropped, its sender repeats it.

mod connection;
mod handshake;
mod peers;
mod sessions;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use self::connection::{CHUNK_BYTES, Connection, Over, Party};
use self::peers::Peers;
use self::sessions::Sessions;
use super::door;
use super::engine::Port;
use super::event::{ToClient, ToServer};
use super::stages::BATCH;
use super::{ServerConfig, ServerError};
use crate::cluster::{Cluster, MapId};
use crate::core::tranx_service::TranxEvent;
use crate::core::{ClientId, CommitAnswer, Message, MessageId, Refusal, ServerId};
use crate::stage::Stage;
use crate::wire::{Ask, Hello, Nonce, Reply, Request, Response, Secret, decode};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const FIRST_CONNECTION: usize = 2;
/// More connections are closed at once.
const MAX_CONNECTIONS: usize = 4096;
/// Who has not said who it is for so long is disconnected.
const HANDSHAKE_MS: u64 = 5000;

pub(super) struct NetworkStage {
    cluster: Cluster,
    map: MapId,
    client_secret: Option<Secret>,
    server_secret: Option<Secret>,
    /// What those said who have to prove that they know a secret, and what was drawn for them.
    challenged: HashMap<Token, (Hello, Nonce)>,
    /// What was said to the servers that were called, and whether they have proven that they know the secret.
    greeted: HashMap<Token, (Hello, bool)>,
    /// Why the server cannot go on.
    failure: Option<String>,
    me: ServerId,
    window: u32,
    port: Port,
    poll: Poll,
    events: Events,
    listener: TcpListener,
    address: SocketAddr,
    connections: HashMap<Token, Connection>,
    next_token: usize,
    peers: Peers,
    sessions: Sessions,
    /// Clients that the node must be told are gone: it had no room.
    gone: Vec<ClientId>,
    /// Connections with something to send.
    unsent: BTreeSet<Token>,
    /// Connections with something to read.
    readable: BTreeSet<Token>,
    /// Is somebody calling?
    is_called: bool,
    /// What is read goes through here.
    chunk: Vec<u8>,
    to_servers: Vec<ToServer>,
    to_clients: Vec<ToClient>,
    housekeeping_at_ms: u64,
    /// Clients that were told to come later; closed once they have been told.
    closing: BTreeSet<Token>,
}

impl NetworkStage {
    pub(super) fn new(config: &ServerConfig, port: Port) -> Result<Self, ServerError> {
        let address = config.listen.or_else(|| config.cluster.address(config.server));
        let address = address.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        let failed = |source| ServerError::Io { action: format!("listen on {address}"), source };
        let mut listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let poll = Poll::new().map_err(failed)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE).map_err(failed)?;
        port.signal.wakes_poll(mio::Waker::new(poll.registry(), WAKER).map_err(failed)?);
        let mut peers = Peers::default();
        for server in config.cluster.servers.iter().filter(|server| server.id != config.server) {
            peers.add(server.id, server.address);
        }
        Ok(Self {
            cluster: config.cluster.clone(),
            map: config.cluster.map_id(),
            client_secret: config.client_secret.clone(),
            server_secret: config.server_secret.clone(),
            challenged: HashMap::new(),
            greeted: HashMap::new(),
            failure: None,
            me: config.server,
            window: config.client_window,
            port,
            poll,
            events: Events::with_capacity(256),
            listener,
            address,
            connections: HashMap::new(),
            next_token: FIRST_CONNECTION,
            peers,
            sessions: Sessions::default(),
            gone: Vec::new(),
            unsent: BTreeSet::new(),
            readable: BTreeSet::new(),
            is_called: false,
            chunk: vec![0; CHUNK_BYTES],
            to_servers: Vec::new(),
            to_clients: Vec::new(),
            housekeeping_at_ms: 0,
            closing: BTreeSet::new(),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    fn poll(&mut self, longest: Duration) {
        // Interrupted or failed: the next round tries again.
        if self.poll.poll(&mut self.events, Some(longest)).is_err() {
            return;
        }
        for event in &self.events {
            match event.token() {
                WAKER => {}
                LISTENER => self.is_called = true,
                token => {
                    let is_ending = event.is_read_closed() || event.is_error();
                    if event.is_readable() || is_ending {
                        self.readable.insert(token);
                    }
                    if let Some(connection) = self.connections.get_mut(&token).filter(|_| is_ending) {
                        connection.is_ending = true;
                    }
                    if event.is_writable() {
                        self.unsent.insert(token);
                    }
                }
            }
        }
    }

    fn accept(&mut self, now_ms: u64) {
        if !self.is_called {
            return;
        }
        for _ in 0..64 {
            let Ok((stream, _)) = self.listener.accept() else {
                self.is_called = false;
                return;
            };
            if self.connections.len() < MAX_CONNECTIONS {
                self.open(stream, Party::Unknown, now_ms);
            }
        }
    }

    fn open(&mut self, mut stream: TcpStream, party: Party, now_ms: u64) -> Option<Token> {
        let token = Token(self.next_token);
        self.next_token += 1;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, token, interest).ok()?;
        self.connections.insert(token, Connection::new(stream, party, now_ms));
        self.unsent.insert(token);
        self.readable.insert(token);
        Some(token)
    }

    fn close(&mut self, token: Token, now_ms: u64) {
        let Some(mut connection) = self.connections.remove(&token) else { return };
        self.unsent.remove(&token);
        self.readable.remove(&token);
        self.closing.remove(&token);
        self.challenged.remove(&token);
        self.greeted.remove(&token);
        // The socket is closed in any case.
        let _ = self.poll.registry().deregister(&mut connection.stream);
        match connection.party {
            Party::Client(client) => self.sessions.lose(client, token, now_ms),
            Party::Called(server, _) => self.peers.lost(server, now_ms),
            Party::Unknown | Party::Caller(_) => {}
        }
    }

    /// Connects servers, forgets clients, drops the silent.
    fn keep_house(&mut self, now_ms: u64) {
        for (server, address) in self.peers.due(now_ms) {
            let opened = TcpStream::connect(address).ok();
            let token = opened.and_then(|stream| self.open(stream, Party::Called(server, false), now_ms));
            match token {
                Some(token) => {
                    self.peers.called(server, token);
                    self.greet(server, token);
                }
                None => self.peers.lost(server, now_ms),
            }
        }
        if self.housekeeping_at_ms > now_ms {
            return;
        }
        self.housekeeping_at_ms = now_ms + 100;
        let silent = |connection: &Connection| {
            let waits = matches!(connection.party, Party::Unknown | Party::Called(_, false));
            waits && now_ms.saturating_sub(connection.opened_ms) > HANDSHAKE_MS
        };
        let silent: Vec<_> = self.connections.iter().filter(|(_, c)| silent(c)).map(|(token, _)| *token).collect();
        silent.into_iter().for_each(|token| self.close(token, now_ms));
        while let Some(client) = self.sessions.expire(now_ms) {
            self.gone.push(client);
        }
        let entry = &self.port.entry;
        self.gone.retain(|client| entry.offer(TranxEvent::ClientGone { client: *client }).is_err());
        self.port.board.clients.store(self.sessions.len() as u64, Ordering::Relaxed);
    }

    /// Turns outgoing events into frames.
    fn write_batch(&mut self, now_ms: u64) -> usize {
        let mut messages = std::mem::take(&mut self.to_servers);
        let mut handled = self.port.to_servers.take(BATCH, &mut messages);
        for ToServer { to, message } in messages.drain(..) {
            self.tell(to, &message, now_ms);
        }
        self.to_servers = messages;
        let mut responses = std::mem::take(&mut self.to_clients);
        handled += self.port.to_clients.take(BATCH, &mut responses);
        for ToClient { client, response } in responses.drain(..) {
            if let Some(token) = self.sessions.token(client) {
                self.push(token, &response, now_ms);
            }
        }
        self.to_clients = responses;
        handled
    }

    /// A server that is not connected misses the message, as if it were lost on the way.
    fn tell(&mut self, server: ServerId, message: &Message, now_ms: u64) {
        if let Some(token) = self.peers.ready(server) {
            self.push(token, message, now_ms);
        }
    }

    fn push(&mut self, token: Token, message: &impl serde::Serialize, now_ms: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        match connection.push(message) {
            Ok(()) => drop(self.unsent.insert(token)),
            Err(_) => self.close(token, now_ms),
        }
    }

    fn send_all(&mut self, now_ms: u64) {
        for token in std::mem::take(&mut self.unsent) {
            let Some(connection) = self.connections.get_mut(&token) else { continue };
            // What is left is sent when the poll says that there is room.
            let over = connection.send().is_err();
            if over || !connection.has_unsent() && self.closing.contains(&token) {
                self.close(token, now_ms);
            }
        }
    }

    fn read_all(&mut self, now_ms: u64) -> usize {
        let mut handled = 0;
        for token in std::mem::take(&mut self.readable) {
            match self.read(token, now_ms) {
                Ok(messages) => handled += messages,
                Err(over) => {
                    if let Over::Wire(error) = over {
                        eprintln!("dtranx: server {}: a connection is closed: {error}", self.me);
                    }
                    // Answers to what came before are sent if they can be.
                    if let Some(connection) = self.connections.get_mut(&token) {
                        let _ = connection.send();
                    }
                    self.close(token, now_ms);
                }
            }
        }
        handled
    }

    fn read(&mut self, token: Token, now_ms: u64) -> Result<usize, Over> {
        let Some(connection) = self.connections.get_mut(&token) else { return Ok(0) };
        connection.is_readable = true;
        let ended = connection.receive(&mut self.chunk);
        if connection.is_readable && ended.is_ok() {
            self.readable.insert(token);
        }
        let mut messages = 0;
        while let Some(connection) = self.connections.get_mut(&token) {
            let party = connection.party;
            let Some(payload) = connection.next()? else { break };
            messages += 1;
            match party {
                Party::Client(client) => {
                    let request: Request = decode(payload)?;
                    self.serve(token, client, request, now_ms);
                }
                Party::Caller(from) => {
                    let message: Message = decode(payload)?;
                    if !self.port.identity.is_in_use() {
                        // As if it were lost on the way.
                        continue;
                    }
                    let refused = door::refuse_message(&self.port.board, &message);
                    if let Some(answer) = refused.or_else(|| self.port.receive(from, message)) {
                        self.tell(from, &answer, now_ms);
                    }
                }
                // It was told why, and is not listened to any more.
                Party::Unknown if self.closing.contains(&token) => {}
                Party::Unknown if self.challenged.contains_key(&token) => {
                    let proof = decode(payload)?;
                    self.prove(token, &proof, now_ms)?;
                }
                Party::Unknown => {
                    let hello = decode(payload)?;
                    self.meet(token, hello, now_ms)?;
                }
                Party::Called(server, _) => {
                    let welcome = decode(payload)?;
                    self.welcomed(server, token, welcome)?;
                }
            }
        }
        // What came before the end was still handled.
        ended.map(|()| messages)
    }

    fn serve(&mut self, token: Token, client: ClientId, request: Request, now_ms: u64) {
        let Request { id, is_repeated, ask } = request;
        // Or the answer at once.
        let handed_on = match ask {
            Ask::Commit(transaction) => {
                if let Some(refusal) =
                    door::refuse_commit(&self.port.board, &self.cluster.partition, &transaction, is_repeated)
                {
                    let reply = Reply::Commit(CommitAnswer::Refused(refusal));
                    return self.push(token, &Response { id, reply }, now_ms);
                }
                let input = TranxEvent::Commit { client, message: MessageId(id), transaction };
                let limit = || "requests that wait at the server".to_owned();
                let refusal = |_| Reply::Commit(CommitAnswer::Refused(Refusal::Overloaded { limit: limit() }));
                match self.port.entry.offer(input) {
                    // The earlier copy may be under way: this one is as if it were lost, and will be sent again.
                    Err(_) if is_repeated => return,
                    offered => offered.map_err(refusal),
                }
            }
            Ask::Status => Err(Reply::Status(Box::new(self.port.board.status(self.peers.all_ready())))),
            ask => self.port.reads.ask(client, id, ask),
        };
        if let Err(reply) = handed_on {
            self.push(token, &Response { id, reply }, now_ms);
        }
    }
}

impl Stage for NetworkStage {
    fn name(&self) -> &'static str {
        "network"
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        self.poll(Duration::ZERO);
        self.accept(now_ms);
        self.keep_house(now_ms);
        let read = self.read_all(now_ms);
        let written = self.write_batch(now_ms);
        self.send_all(now_ms);
        self.failure.take().map_or(Ok(read + written), Err)
    }

    fn has_work(&self) -> bool {
        let has_outgoing = !self.port.to_servers.is_empty() || !self.port.to_clients.is_empty();
        has_outgoing || !self.readable.is_empty() || self.is_called
    }

    fn deadline_ms(&self) -> Option<u64> {
        self.peers.next_call_ms()
    }

    fn sleep(&mut self, longest: Duration) -> bool {
        self.poll(longest);
        true
    }
}
