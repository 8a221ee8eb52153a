//! Accepting and closing connections: they are accepted within the limits of descriptors, and
//! closed when their time is over.
//!
//! | limit | beyond it |
//! | --- | --- |
//! | connections of clients | a client is refused by name of the limit, and may try again |
//! | connections of callers that have not said who they are | the oldest is closed: so a caller that greets at once gets in, a server in any case |
//! | connections of a server | one: a new one takes the place of the old one |
//! | time for a greeting, for the rest of a message | the connection is closed |
//! | time without a request of a client | the connection is closed; the client calls again when it has one |

use std::io::ErrorKind;

use mio::net::TcpStream;
use mio::{Interest, Token};

use super::connection::{Connection, Party};
use super::{NetworkStage, requests};
use crate::core::ClientId;
use crate::core::machine::TranxEvent;
use crate::remark;
use crate::server::descriptors::HANDSHAKES;
use crate::server::member_event::FromMembers;
use crate::wire::{ConnectionStats, Hello};

/// Number of connections that are accepted before the open ones are read again.
const ACCEPTED_AT_ONCE: usize = HANDSHAKES as usize / 2;
/// Pause before accepting again when the system has no descriptor, in milliseconds.
const PAUSE_MS: u64 = 100;
/// Time between two looks at the clocks of connections, in milliseconds.
const HOUSEKEEPING_MS: u64 = 100;
/// Clients that have gone without the transaction stage knowing; with more, no new ones are let in.
pub(super) const MOST_GONE: usize = 1024;
/// Time that a request may be under way, beside its wait for locks, before its bytes are no longer
/// counted, in milliseconds.
const UNANSWERED_MS: u64 = 60_000;

/// Reason why a connection's time is over.
enum Overdue {
    Greeting,
    Message,
    Request,
}

impl NetworkStage {
    pub(super) fn accept(&mut self, now_ms: u64) {
        if !self.is_called || self.accept_at_ms > now_ms {
            return;
        }
        self.accept_at_ms = 0;
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => drop(self.open(stream, Party::Unknown, now_ms)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_called = false;
                    break;
                }
                Err(_) => {
                    self.accept_at_ms = now_ms + PAUSE_MS;
                    break;
                }
            }
        }
        let most = self.most_clients + HANDSHAKES as usize;
        while self.strangers.len() + self.connection_stats.client_connections as usize > most {
            let Some(oldest) = self.strangers.first().copied() else { return };
            self.connection_stats.closed_strangers += 1;
            self.close(oldest, now_ms);
        }
    }

    pub(super) fn open(&mut self, mut stream: TcpStream, party: Party, now_ms: u64) -> Option<Token> {
        let token = Token(self.next_token);
        self.next_token += 1;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, token, interest).ok()?;
        self.connections.insert(token, Connection::new(stream, party, now_ms));
        if party == Party::Unknown {
            self.strangers.insert(token);
        }
        self.unsent.insert(token);
        self.readable.insert(token);
        Some(token)
    }

    pub(super) fn close(&mut self, token: Token, now_ms: u64) {
        let Some(mut connection) = self.connections.remove(&token) else { return };
        self.unsent.remove(&token);
        self.readable.remove(&token);
        self.closing.remove(&token);
        self.challenged.remove(&token);
        self.greeted.remove(&token);
        self.strangers.remove(&token);
        self.budget.recount(connection.counted, 0);
        // The socket is closed in any case.
        let _ = self.poll.registry().deregister(&mut connection.stream);
        match connection.party {
            Party::Client(client) => {
                self.connection_stats.client_connections -= 1;
                self.sessions.lose(client, token, now_ms);
            }
            Party::Called(peer, _) => self.peers.lost(peer, now_ms),
            Party::Caller(peer) => {
                if self.callers.get(&peer) == Some(&token) {
                    self.callers.remove(&peer);
                    // Members that follow have no transactions here.
                    let is_speaker = peer.member.is_none() || self.leaders.of(peer.server) == Some(peer);
                    self.gone_servers.extend(Some(peer.server).filter(|_| is_speaker));
                    self.tell_gone_servers();
                }
            }
            Party::Unknown => {}
        }
    }

    /// Connects servers, forgets clients, closes what is overdue.
    pub(super) fn keep_house(&mut self, now_ms: u64) {
        self.take_roster(now_ms);
        self.close_outdated(now_ms);
        self.call_servers(now_ms);
        self.tell_members();
        self.join(now_ms);
        self.announce(now_ms);
        if self.housekeeping_at_ms > now_ms {
            return;
        }
        self.housekeeping_at_ms = now_ms + HOUSEKEEPING_MS;
        let overdue: Vec<_> =
            self.connections.iter().filter_map(|(token, c)| Some((*token, self.overdue(*token, c, now_ms)?))).collect();
        for (token, why) in overdue {
            self.close_overdue(token, &why, now_ms);
        }
        self.connections.values_mut().for_each(|connection| connection.rest(now_ms));
        while let Some((client, bytes)) = self.sessions.expire(now_ms) {
            self.forget(client, bytes);
        }
        self.tell_gone_servers();
        let entry = &self.port.entry;
        self.gone.retain(|client| entry.offer(TranxEvent::ClientGone { client: *client }).is_err());
        if self.recount_at_ms <= now_ms {
            self.recount_at_ms = now_ms + UNANSWERED_MS / 10;
            let before_ms = now_ms.saturating_sub(UNANSWERED_MS + self.lock_wait_ms);
            self.budget.end(self.sessions.forget_unanswered(before_ms));
        }
        self.note_connections();
    }

    /// Ends the waits for locks of transactions whose server has gone.
    fn tell_gone_servers(&mut self) {
        let peers = &self.port.peers;
        self.gone_servers.retain(|server| peers.offer(TranxEvent::ServerGone { server: *server }).is_err());
    }

    /// Tells the stage `group` once who the members are: the stores of all are known.
    fn tell_members(&mut self) {
        if self.has_told_members {
            return;
        }
        let (identity, addresses) = (&self.port.identity, self.cluster.addresses(self.me));
        if let (Some(ways), Some(stores)) = (&self.port.members, identity.members())
            && let Some(before) = identity.before(&addresses)
        {
            let rejoins = identity.rejoins();
            self.has_told_members = ways.group.offer(FromMembers::Met { stores, before, rejoins }).is_ok();
        }
        let unmet = self.port.identity.unmet();
        if unmet != self.said_unmet {
            if !unmet.is_empty() {
                remark::say(format_args!(
                    "server {}: this store takes a lost one's place, and has not met the members {unmet:?}",
                    self.me
                ));
            }
            self.said_unmet = unmet;
        }
    }

    /// Lets a new server be noted by the others once all have welcomed it, tells its node when all
    /// have noted it, and lets its store be in use once that has joined (0087, J3).
    fn join(&mut self, now_ms: u64) {
        let identity = &mut self.port.identity;
        if !identity.is_new() || self.member.is_some() || identity.is_tentative() {
            return;
        }
        if !identity.waits_for().is_empty() {
            // The others are called again, now to note the store.
            let is_new = |(_, (hello, _)): &(&Token, &(Hello, bool))| hello.from.is_new();
            let tokens: Vec<Token> = self.greeted.iter().filter(is_new).map(|(token, _)| *token).collect();
            tokens.into_iter().for_each(|token| self.close(token, now_ms));
        } else if !self.has_told_met {
            self.has_told_met = self.port.peers.offer(TranxEvent::Met).is_ok();
        } else if self.port.stats.has_joined()
            && let Err(error) = identity.settle()
        {
            self.failure = Some(error.to_string());
        }
    }

    fn call_servers(&mut self, now_ms: u64) {
        for (peer, address) in self.peers.due(now_ms) {
            let opened = TcpStream::connect(address).ok();
            let token = opened.and_then(|stream| self.open(stream, Party::Called(peer, false), now_ms));
            match token {
                Some(token) => {
                    self.peers.called(peer, token);
                    self.greet(peer, token);
                }
                None => self.peers.lost(peer, now_ms),
            }
        }
    }

    fn overdue(&self, token: Token, connection: &Connection, now_ms: u64) -> Option<Overdue> {
        let is_over = |since_ms: u64, limit_ms: u64| now_ms.saturating_sub(since_ms) > limit_ms;
        let waits = matches!(connection.party, Party::Unknown | Party::Called(_, false));
        if waits && is_over(connection.opened_ms, self.handshake_ms) {
            return Some(Overdue::Greeting);
        }
        if connection.incoming.begun_ms().is_some_and(|begun_ms| is_over(begun_ms, self.frame_ms)) {
            return Some(Overdue::Message);
        }
        let Party::Client(client) = connection.party else { return None };
        let is_idle = self.client_idle_ms != 0 && is_over(connection.active_ms, self.client_idle_ms);
        // Requests under the client's name came over this connection, unless it has another one.
        let is_waited_for = self.sessions.token(client) == Some(token) && !self.sessions.is_idle(client);
        (is_idle && !is_waited_for).then_some(Overdue::Request)
    }

    fn close_overdue(&mut self, token: Token, why: &Overdue, now_ms: u64) {
        match why {
            Overdue::Greeting => self.connection_stats.closed_strangers += 1,
            Overdue::Message => {
                self.connection_stats.closed_slow += 1;
                let limit = format!("limits.frame_ms: the rest of it did not come within {} ms", self.frame_ms);
                let remark = format!("server {}: a connection is closed in a message: {limit}", self.me);
                self.remarks.say(remark, now_ms);
                self.refuse_part(token, limit, now_ms);
            }
            Overdue::Request => self.connection_stats.closed_idle += 1,
        }
        self.close(token, now_ms);
    }

    /// Answers a client in the middle of a request that the request is refused, if the answer can
    /// be sent at once.
    fn refuse_part(&mut self, token: Token, limit: String, now_ms: u64) {
        let of_client = self.connections.get(&token).filter(|connection| matches!(connection.party, Party::Client(_)));
        let head = of_client.and_then(|connection| connection.incoming.head());
        if let Some(response) = head.and_then(|head| requests::refusal_of_head(&head, limit)) {
            self.push(token, &response, now_ms);
        }
        if let Some(connection) = self.connections.get_mut(&token) {
            let _ = connection.send(now_ms);
        }
    }

    /// Notes that a client is no longer remembered; what it had under way is not counted any more.
    pub(super) fn forget(&mut self, client: ClientId, bytes: usize) {
        self.budget.end(bytes);
        self.gone.push(client);
    }

    pub(super) fn note_connections(&mut self) {
        self.connection_stats.client_bytes = self.budget.held() as u64;
        let stats = &self.port.stats;
        stats.clients.store(self.sessions.len() as u64, std::sync::atomic::Ordering::Relaxed);
        stats.note_connections(ConnectionStats { ..self.connection_stats });
    }
}
