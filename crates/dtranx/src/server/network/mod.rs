//! The network stage: all connections of a server on one thread (ClientService and TranxService of
//! the paper's figure 2).
//!
//! It turns frames into events for the entry and read queues, and outgoing events into frames; many
//! are written at once. Nothing here waits: a full entry queue refuses the client; a message from a
//! server is dropped, its sender repeats it.

mod accepting;
mod budget;
mod changes;
mod connection;
mod handshake;
mod incoming;
mod leaders;
mod peers;
mod remarks;
mod requests;
mod sessions;
mod turns;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};

use self::budget::Budget;
use self::connection::{CHUNK_BYTES, Connection, Over, Party};
use self::leaders::Leaders;
use self::peers::Peers;
use self::remarks::Remarks;
use self::sessions::Sessions;
use super::descriptors;
use super::engine::Port;
use super::event::{ToClient, ToServer};
use super::member_event::ToMember;
use super::roster::Roster;
use super::stages::BATCH;
use super::{ServerConfig, ServerError};
use crate::cluster::{Cluster, MapId, PeerId};
use crate::core::{ClientId, Message, ServerId};
use crate::stage::{Signal, Stage};
use crate::wire::{ConnectionStats, GroupMessage, Hello, Nonce, Secret};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const FIRST_CONNECTION: usize = 2;

pub(super) struct NetworkStage {
    cluster: Cluster,
    /// The same, as clients are told: with the addresses of the group's members of now.
    described: Cluster,
    /// Index of the configuration from which these addresses are.
    addresses_of: u64,
    /// Connections of clients that were told other addresses, and the time at which the last of
    /// them is closed.
    outdated: BTreeSet<Token>,
    outdated_until_ms: u64,
    /// The members of the group, and the number of their changes that was looked at last.
    roster: Option<Arc<Roster>>,
    rosters: u64,
    allow_remote: bool,
    map: MapId,
    client_secret: Option<Secret>,
    server_secret: Option<Secret>,
    /// Greetings of callers that have to prove that they know a secret, and the nonce drawn for
    /// each.
    challenged: HashMap<Token, (Hello, Nonce)>,
    /// Greetings that were sent to the servers that were called, and whether they have proven that
    /// they know the secret.
    greeted: HashMap<Token, (Hello, bool)>,
    /// Reason why the server cannot go on.
    failure: Option<String>,
    /// True if the node of this new server has been told that all others know it.
    has_told_met: bool,
    /// Servers and maps that other servers and members have named in this life.
    lists: BTreeMap<PeerId, MapId>,
    me: ServerId,
    /// Number of this member, if the server is a group.
    member: Option<u8>,
    /// True if the stage `group` knows who the members are.
    has_told_members: bool,
    /// Members that a store in a lost one's place was last said not to have met.
    said_unmet: Vec<u8>,
    /// Term in which the other servers have heard that this member leads.
    announced: Option<u64>,
    /// The leaders of the groups among the other servers.
    leaders: Leaders,
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
    /// Clients that have gone and that the node does not know of yet: its queue was full.
    gone: Vec<ClientId>,
    /// Servers that have gone, of which the transaction stage has not heard.
    gone_servers: BTreeSet<ServerId>,
    /// Connections with something to send.
    unsent: BTreeSet<Token>,
    /// Connections with something to read.
    readable: BTreeSet<Token>,
    /// True if a caller waits to be accepted.
    is_called: bool,
    /// Buffer into which sockets are read.
    chunk: Vec<u8>,
    to_servers: Vec<ToServer>,
    to_clients: Vec<ToClient>,
    to_members: Vec<ToMember>,
    housekeeping_at_ms: u64,
    /// Clients that are refused because of the load; closed once the refusal is sent.
    closing: BTreeSet<Token>,
    /// Connections of callers that have not said who they are, the oldest first.
    strangers: BTreeSet<Token>,
    /// The connections that other servers and members speak over.
    callers: HashMap<PeerId, Token>,
    /// Greatest number of connections of clients.
    most_clients: usize,
    /// The bytes that clients hold.
    budget: Budget,
    connection_stats: ConnectionStats,
    remarks: Remarks,
    handshake_ms: u64,
    frame_ms: u64,
    client_idle_ms: u64,
    lock_wait_ms: u64,
    /// Time before which no connection is accepted: there was no descriptor.
    accept_at_ms: u64,
    /// Time of the next look for requests that get no answer.
    recount_at_ms: u64,
    /// The client that is read from first.
    first: Token,
}

/// A socket that callers reach, its address, and the poll that reports their calls.
struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    poll: Poll,
}

/// Begins to listen where the configuration says. The signal wakes the poll from now on.
fn listen(config: &ServerConfig, signal: &Signal) -> Result<Listening, ServerError> {
    let address = config.listen.or_else(|| config.address());
    let address = address.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
    let failed = |source| ServerError::Io { action: format!("listen on {address}"), source };
    let mut listener = TcpListener::bind(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let poll = Poll::new().map_err(failed)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE).map_err(failed)?;
    signal.wakes_poll(mio::Waker::new(poll.registry(), WAKER).map_err(failed)?);
    Ok(Listening { listener, address, poll })
}

impl NetworkStage {
    pub(super) fn new(config: &ServerConfig, port: Port) -> Result<Self, ServerError> {
        let descriptors = descriptors::limit();
        let all = config.cluster.peers();
        let most_clients = descriptors::client_connections(descriptors, all.len(), config.client_connections)?;
        let connection_stats = ConnectionStats {
            descriptors,
            most_client_connections: most_clients as u64,
            most_client_bytes: config.client_bytes,
            ..ConnectionStats::default()
        };
        port.stats.note_connections(connection_stats);
        let Listening { listener, address, poll } = listen(config, &port.signal)?;
        let mut peers = Peers::default();
        let me = PeerId { server: config.server, member: config.member };
        for (peer, address) in all.into_iter().filter(|(peer, _)| *peer != me) {
            peers.add(peer, address);
        }
        Ok(Self {
            cluster: config.cluster.clone(),
            described: config.cluster.clone(),
            addresses_of: 0,
            outdated: BTreeSet::new(),
            outdated_until_ms: 0,
            roster: None,
            rosters: 0,
            allow_remote: config.allow_remote,
            map: config.cluster.map_id(),
            client_secret: config.client_secret.clone(),
            server_secret: config.server_secret.clone(),
            challenged: HashMap::new(),
            greeted: HashMap::new(),
            failure: None,
            has_told_met: false,
            lists: BTreeMap::new(),
            me: config.server,
            member: config.member,
            has_told_members: false,
            said_unmet: Vec::new(),
            announced: None,
            leaders: Leaders::default(),
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
            gone_servers: BTreeSet::new(),
            unsent: BTreeSet::new(),
            readable: BTreeSet::new(),
            is_called: false,
            chunk: vec![0; CHUNK_BYTES],
            to_servers: Vec::new(),
            to_clients: Vec::new(),
            to_members: Vec::new(),
            housekeeping_at_ms: 0,
            closing: BTreeSet::new(),
            strangers: BTreeSet::new(),
            callers: HashMap::new(),
            most_clients,
            budget: Budget::new(usize::try_from(config.client_bytes).unwrap_or(usize::MAX)),
            connection_stats,
            handshake_ms: config.handshake_ms,
            frame_ms: config.frame_ms,
            client_idle_ms: config.client_idle_ms,
            lock_wait_ms: config.lock_wait_ms,
            accept_at_ms: 0,
            recount_at_ms: 0,
            first: Token(0),
            remarks: Remarks::default(),
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
                    if let Some(connection) = self.connections.get_mut(&token) {
                        connection.is_readable |= event.is_readable();
                        connection.is_ending |= is_ending;
                    }
                    if event.is_writable() {
                        self.unsent.insert(token);
                    }
                }
            }
        }
    }

    /// Turns outgoing events into frames.
    fn write_batch(&mut self, now_ms: u64) -> usize {
        let mut messages = std::mem::take(&mut self.to_servers);
        let mut handled = self.port.to_servers.take(BATCH, &mut messages);
        for ToServer { to, message } in messages.drain(..) {
            self.tell(to, &message, now_ms);
        }
        self.to_servers = messages;
        handled += self.write_to_members(now_ms);
        let mut responses = std::mem::take(&mut self.to_clients);
        handled += self.port.to_clients.take(BATCH, &mut responses);
        for ToClient { client, response } in responses.drain(..) {
            let bytes = self.sessions.end(client, response.id);
            self.budget.end(bytes);
            if let Some(token) = self.sessions.token(client) {
                self.push(token, &response, now_ms);
            }
        }
        self.to_clients = responses;
        handled
    }

    fn write_to_members(&mut self, now_ms: u64) -> usize {
        let Some(ways) = &self.port.members else { return 0 };
        let mut messages = std::mem::take(&mut self.to_members);
        let handled = ways.to_members.take(BATCH, &mut messages);
        for ToMember { to, message } in messages.drain(..) {
            if let Some(token) = self.peers.ready(PeerId::member(self.me, to)) {
                self.push(token, &message, now_ms);
            }
        }
        self.to_members = messages;
        handled
    }

    /// Sends a message to a server, or to the member that leads a group. One that is not connected,
    /// or not known, misses it, as if it were lost on the way.
    fn tell(&mut self, server: ServerId, message: &Message, now_ms: u64) {
        let is_group = self.cluster.is_group(server);
        let peer = if is_group { self.leaders.of(server) } else { Some(server.into()) };
        let Some(token) = peer.and_then(|peer| self.peers.ready(peer)) else { return };
        match self.member {
            Some(_) => self.push(token, &GroupMessage::Message(message), now_ms),
            None => self.push(token, message, now_ms),
        }
    }

    /// Tells the other servers when this member has begun to lead.
    fn announce(&mut self, now_ms: u64) {
        let leads = self.port.stats.life();
        if leads == self.announced {
            return;
        }
        self.announced = leads;
        for peer in self.peers.all_welcome() {
            self.announce_to(peer, now_ms);
        }
    }

    /// Tells a server that this member leads, if it does.
    fn announce_to(&mut self, peer: PeerId, now_ms: u64) {
        let is_other = peer.server != self.me;
        if let (Some(term), Some(token)) = (self.announced.filter(|_| is_other), self.peers.ready(peer)) {
            self.push(token, &GroupMessage::<&Message>::Leads { term }, now_ms);
        }
    }

    fn push(&mut self, token: Token, message: &impl serde::Serialize, now_ms: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        match connection.push(message) {
            Ok(()) => {
                self.unsent.insert(token);
                self.recount(token);
            }
            Err(over) => {
                if let Over::Wire(error) = &over {
                    let whom = match connection.party {
                        Party::Caller(peer) | Party::Called(peer, _) => format!("server {peer}"),
                        Party::Client(_) | Party::Unknown => "a client".to_owned(),
                    };
                    let remark = format!("server {}: the connection to {whom} is closed: {error}", self.me);
                    self.remarks.say(remark, now_ms);
                }
                self.connection_stats.closed_unread += 1;
                self.close(token, now_ms);
            }
        }
    }

    fn send_all(&mut self, now_ms: u64) {
        for token in std::mem::take(&mut self.unsent) {
            let Some(connection) = self.connections.get_mut(&token) else { continue };
            // The rest is sent when the poll says that there is room.
            let over = connection.send(now_ms).is_err();
            if over || !connection.has_unsent() && self.closing.contains(&token) {
                self.close(token, now_ms);
            } else {
                self.recount(token);
            }
        }
        self.make_room(now_ms);
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
        let has_for_members = self.port.members.as_ref().is_some_and(|ways| !ways.to_members.is_empty());
        has_outgoing || has_for_members || !self.readable.is_empty() || self.is_called && self.accept_at_ms == 0
    }

    fn deadline_ms(&self) -> Option<u64> {
        let accept_ms = self.is_called.then_some(self.accept_at_ms);
        accept_ms.into_iter().chain(self.peers.next_call_ms()).min()
    }

    fn sleep(&mut self, longest: Duration) -> bool {
        self.poll(longest);
        true
    }
}
