//! Handshakes: which party calls, and whether it may (the second step in `crate::wire`).

use std::cmp::Ordering;

use mio::Token;

use super::NetworkStage;
use super::accepting::MOST_GONE;
use super::connection::{Over, Party};
use crate::cluster::{MapId, PeerId};
use crate::core::machine::TranxEvent;
use crate::core::{ClientId, StoreId};
use crate::server::identity::Met;
use crate::server::member_event::Restart;
use crate::wire::{Caller, Hello, Nonce, Proof, Secret, Side, Told, Welcome, WireError};

/// Store that a server or member names when it calls.
struct Named<'a> {
    peer: PeerId,
    store: StoreId,
    /// Lost stores whose place it takes.
    replaces: &'a [StoreId],
    /// True if it is to be noted.
    is_noted: bool,
    /// The configuration that is in force there, from a member of the same group.
    told: Option<&'a Told>,
}

impl NetworkStage {
    /// Handles the hello of a caller, which says who it is.
    pub(super) fn meet(&mut self, token: Token, hello: Hello, now_ms: u64) -> Result<(), Over> {
        let Some(secret) = self.secret_for(&hello) else {
            self.answer(token, &hello, now_ms);
            return Ok(());
        };
        let nonce: Nonce = rand::random();
        let proof = secret.prove(Side::Called, &hello, &nonce)?;
        self.challenged.insert(token, (hello, nonce));
        self.push(token, &Welcome::Challenge { nonce, proof }, now_ms);
        Ok(())
    }

    /// Takes the proof of a caller that it knows the secret.
    pub(super) fn prove(&mut self, token: Token, proof: &Proof, now_ms: u64) -> Result<(), Over> {
        let Some((hello, nonce)) = self.challenged.remove(&token) else { return Ok(()) };
        let Some(secret) = self.secret_for(&hello) else { return Ok(()) };
        if secret.is_proven(Side::Caller, &hello, &nonce, proof)? {
            self.answer(token, &hello, now_ms);
        } else {
            self.closing.insert(token);
            self.push(token, &refused("the caller does not know the secret".to_owned(), false), now_ms);
        }
        Ok(())
    }

    fn secret_for(&self, hello: &Hello) -> Option<Secret> {
        match hello.from {
            Caller::Server { .. } | Caller::Member { .. } => self.server_secret.clone(),
            Caller::Client(_) => self.client_secret.clone(),
        }
    }

    fn answer(&mut self, token: Token, hello: &Hello, now_ms: u64) {
        let welcome = self.decide(token, hello, now_ms);
        if let Welcome::Refused { .. } | Welcome::NotLeading { .. } | Welcome::Removed { .. } = welcome {
            // Closed as soon as it is sent.
            self.closing.insert(token);
        }
        self.push(token, &welcome, now_ms);
    }

    fn decide(&mut self, token: Token, hello: &Hello, now_ms: u64) -> Welcome {
        let is_client = matches!(hello.from, Caller::Client(_));
        if hello.cluster != self.cluster.name && !(is_client && hello.cluster.is_empty()) {
            return refused(format!("this is the cluster {:?}, not {:?}", self.cluster.name, hello.cluster), false);
        }
        let agrees = match &hello.map {
            Some(map) if is_client => self.map.serves(map),
            Some(map) => self.map.compare(map).is_some(),
            None => is_client,
        };
        if !agrees {
            let why = format!("server {} has other servers, or another map of keys, in its configuration", self.me);
            return refused(why, false);
        }
        if let Some(to) = hello.to.filter(|to| *to != self.me) {
            return refused(format!("this is server {}, not {to}", self.me), false);
        }
        match hello.from.clone() {
            Caller::Server { server, store, is_new } => {
                let named = Named { peer: server.into(), store, replaces: &[], is_noted: !is_new, told: None };
                self.answer_peer(token, &named, hello.map.as_ref(), now_ms)
            }
            Caller::Member { server, member, store, replaces, told } => {
                let (peer, replaces, told) = (PeerId::member(server, member), &replaces[..], told.as_ref());
                let named = Named { peer, store, replaces, is_noted: true, told };
                self.answer_peer(token, &named, hello.map.as_ref(), now_ms)
            }
            Caller::Client(before) => self.welcome_client(token, before, now_ms),
        }
    }

    /// Answers another server or member, whose list may have other servers behind this one's, or
    /// lack some.
    fn answer_peer(&mut self, token: Token, named: &Named<'_>, map: Option<&MapId>, now_ms: u64) -> Welcome {
        let (peer, me) = (named.peer, self.me);
        let Some(map) = map else { return refused("it names no servers".to_owned(), false) };
        if let Some(refused) = self.hear_of_members(peer, named.store, named.replaces, named.told) {
            return refused;
        }
        if !self.peers.contains(peer) {
            if let Some(number) = self.removed(peer) {
                let why = format!("member {number} was removed from the group of server {me}");
                return refused(format!("{why}: a new store joins with `dtranx serve --join`"), false);
            }
            let hint = if map.has(peer.server) && peer.server != me && !self.map.has(peer.server) {
                format!(": if it joins, server {me} has to be started with it in its list")
            } else {
                String::new()
            };
            return refused(format!("server {peer} is not one of the cluster's others{hint}"), false);
        }
        let met = self.port.identity.judge(peer, named.store, named.replaces);
        let is_other = peer.member.is_some() && met != Met::Known;
        if is_other && self.map.compare(map) == Some(Ordering::Greater) {
            let why = format!("server {peer} has a new store, and its list of servers lacks some that have joined");
            return refused(why, false);
        }
        if let Some(why) = self.unlisted(peer).filter(|_| met == Met::First && named.is_noted) {
            return refused(why, true);
        }
        let welcome = self.welcome_peer(token, named, now_ms);
        if let Welcome::Server { .. } | Welcome::Member { .. } = welcome {
            self.lists.insert(peer, map.clone());
        }
        welcome
    }

    /// Reason why the store of a server that joins is not noted now: some member of this group may
    /// not have that server in its list (0087, J7).
    fn unlisted(&self, joins: PeerId) -> Option<String> {
        let peers = self.cluster.peers().into_iter().map(|(peer, _)| peer);
        let mut of_group = peers.filter(|other| other.server == self.me && other.member != self.member);
        let is_listed = |member: &PeerId| self.lists.get(member).is_some_and(|map| map.has(joins.server));
        let member = of_group.find(|member| joins.member.is_none() && !is_listed(member))?;
        Some(format!("server {member} has not said yet that server {joins} is in its list"))
    }

    /// Welcomes another server or member, with its store and the lost one whose place that takes.
    fn welcome_peer(&mut self, token: Token, named: &Named<'_>, now_ms: u64) -> Welcome {
        let Named { peer, store, replaces, is_noted, .. } = *named;
        let met = if is_noted {
            self.meet_store(peer, store, replaces)
        } else {
            self.port.identity.judge(peer, store, replaces)
        };
        match met {
            Met::Refused(why) => return refused(why, false),
            Met::Replaced if peer.server == self.me => {
                self.start_again(peer);
                return refused(format!("server {} starts again, to know the store", self.me), true);
            }
            // Nothing more goes to the lost store.
            Met::Replaced => self.peers.ready(peer).into_iter().for_each(|old| self.close(old, now_ms)),
            Met::Known | Met::First => {}
        }
        self.become_caller(token, peer, now_ms);
        let store = self.port.identity.store;
        match self.member {
            Some(member) => Welcome::Member { member, store, told: self.told_to(peer) },
            None => Welcome::Server { store },
        }
    }

    /// Notes the store that a server or member names.
    fn meet_store(&mut self, peer: PeerId, store: StoreId, replaces: &[StoreId]) -> Met {
        self.port.identity.meet(peer, store, replaces).unwrap_or_else(|error| {
            let why = error.to_string();
            self.failure = Some(why.clone());
            Met::Refused(why)
        })
    }

    /// Ends this member's engine, which is started again with another member's new store: nothing
    /// of the lost one is left in it (0081, R1).
    fn start_again(&mut self, peer: PeerId) {
        if let Some(ways) = &self.port.members {
            // Another reason to start again does as well.
            let _ = ways.restart.set(Restart::Replaced);
        }
        self.failure = Some(format!("another store has taken the place of server {peer}'s"));
    }

    fn welcome_client(&mut self, token: Token, before: Option<ClientId>, now_ms: u64) -> Welcome {
        if self.port.identity.is_new() {
            let unmet: Vec<String> = self.port.identity.waits_for().iter().map(PeerId::to_string).collect();
            let waits = if unmet.is_empty() {
                "the others have said their epochs".to_owned()
            } else {
                format!("it has met server {}", unmet.join(", "))
            };
            return refused(format!("server {} is new: it serves once {waits}", self.me), true);
        }
        if self.member.is_some() && !self.port.stats.is_open() {
            let leads = self.port.stats.leader().filter(|leader| Some(*leader) != self.member);
            let leads = leads.and_then(|leader| self.place_of(leader));
            return Welcome::NotLeading { leads, cluster: self.described.clone(), addresses_of: self.addresses_of };
        }
        if let Some(old) = before.and_then(|client| self.sessions.token(client)) {
            // Its client has given it up, and needs the place.
            self.close(old, now_ms);
        }
        if self.connection_stats.client_connections as usize >= self.most_clients {
            self.connection_stats.refused_clients += 1;
            return refused(format!("limits.client_connections: {} clients are connected", self.most_clients), true);
        }
        let client = match before.filter(|client| self.sessions.resume(*client, token)) {
            Some(client) => client,
            None => {
                if !self.make_room_for_a_name() {
                    return refused("the server is at its limit: clients that left".to_owned(), true);
                }
                let Some(client) = self.port.stats.name_client() else {
                    return refused("the server is recovering".to_owned(), true);
                };
                if self.port.entry.offer(TranxEvent::ClientConnected { client }).is_err() {
                    return refused("the server is at its limit: requests that wait".to_owned(), true);
                }
                self.sessions.add(client, token);
                client
            }
        };
        self.become_party(token, Party::Client(client));
        let (store, cluster, addresses_of) =
            (self.port.identity.client_store(), self.described.clone(), self.addresses_of);
        Welcome::Client { client, server: self.me, store, cluster, addresses_of, window: self.window }
    }

    /// Makes room to remember one more client: if there are too many, the first of those that are
    /// away is forgotten. `false` if that is not possible now.
    fn make_room_for_a_name(&mut self) -> bool {
        if self.sessions.len() >= 2 * self.most_clients
            && let Some((client, bytes)) = self.sessions.forget_first()
        {
            self.forget(client, bytes);
        }
        self.gone.len() < MOST_GONE && self.sessions.len() < 2 * self.most_clients
    }

    /// Notes that another server or member has called: the connection of its last call no longer
    /// counts.
    fn become_caller(&mut self, token: Token, peer: PeerId, now_ms: u64) {
        if let Some(old) = self.callers.insert(peer, token) {
            self.close(old, now_ms);
        }
        self.become_party(token, Party::Caller(peer));
    }

    fn become_party(&mut self, token: Token, party: Party) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        connection.party = party;
        self.strangers.remove(&token);
        self.connection_stats.client_connections += u64::from(matches!(party, Party::Client(_)));
    }

    /// Sends this server's hello to a server or member that it has called.
    pub(super) fn greet(&mut self, peer: PeerId, token: Token) {
        let (server, store) = (self.me, self.port.identity.store);
        let from = match self.member {
            Some(member) => {
                let (replaces, told) = (self.port.identity.replaces().to_vec(), self.told_to(peer));
                Caller::Member { server, member, store, replaces, told }
            }
            None => Caller::Server { server, store, is_new: self.port.identity.is_tentative() },
        };
        let (cluster, map, nonce) = (self.cluster.name.clone(), Some(self.map.clone()), rand::random());
        let hello = Hello { cluster, map, to: Some(peer.server), from, nonce };
        self.push(token, &hello, 0);
        self.greeted.insert(token, (hello, false));
    }

    /// Handles the answer of a server or member that was called.
    pub(super) fn welcomed(&mut self, server: PeerId, token: Token, welcome: Welcome) -> Result<(), Over> {
        match welcome {
            Welcome::Challenge { nonce, proof } => {
                let unknown = |what: &str| WireError::Unreadable { what: format!("server {server} {what}") };
                let secret = self.server_secret.clone();
                let secret =
                    secret.ok_or_else(|| unknown("asks for a secret, and there is none in the configuration"))?;
                let Some((hello, is_proven)) = self.greeted.get_mut(&token) else { return Err(Over::Closed) };
                if !secret.is_proven(Side::Called, hello, &nonce, &proof)? {
                    return Err(unknown("does not know the secret").into());
                }
                *is_proven = true;
                let proof = secret.prove(Side::Caller, hello, &nonce)?;
                self.push(token, &proof, 0);
                Ok(())
            }
            Welcome::Member { member, .. } if server.member != Some(member) => {
                let what = format!("this is server {}, not {server}", PeerId::member(server.server, member));
                Err(WireError::Unreadable { what }.into())
            }
            Welcome::Server { .. } if server.member.is_some() => {
                let what = format!("server {} is no group", server.server);
                Err(WireError::Unreadable { what }.into())
            }
            Welcome::Removed { at } => self.was_removed(server, token, at),
            Welcome::Waiting { store, .. } => {
                let what = format!("server {server} is a new store, {store}, that waits to be added");
                Err(WireError::Unreadable { what }.into())
            }
            Welcome::Server { .. } | Welcome::Member { .. } => self.accepted(server, token, welcome),
            Welcome::Refused { why, .. } => Err(WireError::Refused { why }.into()),
            Welcome::Client { .. } | Welcome::NotLeading { .. } => {
                Err(WireError::Unreadable { what: "a server was taken for a client".to_owned() }.into())
            }
        }
    }

    /// A server or member that was called has accepted the call.
    fn accepted(&mut self, server: PeerId, token: Token, welcome: Welcome) -> Result<(), Over> {
        let (store, told) = match welcome {
            Welcome::Server { store } => (store, None),
            Welcome::Member { store, told, .. } => (store, told),
            _ => return Ok(()),
        };
        if !self.is_proven(token) {
            let what = format!("server {server} has not shown that it knows the secret");
            return Err(WireError::Unreadable { what }.into());
        }
        // Whose place a store takes is said by its own call, and so is it that the store of
        // a server which runs alone is to be noted.
        let met = match server.member {
            Some(_) => self.meet_store(server, store, &[]),
            None => self.port.identity.judge(server, store, &[]),
        };
        if let Met::Refused(why) = met {
            let what = format!("{why}, unless it calls here and says whose place it takes");
            return Err(WireError::Unreadable { what }.into());
        }
        let is_noted = self.greeted.get(&token).is_some_and(|(hello, _)| !hello.from.is_new());
        if let Err(error) = self.port.identity.welcomed(server, is_noted) {
            self.failure = Some(error.to_string());
        }
        self.peers.welcomed(server);
        self.become_party(token, Party::Called(server, true));
        self.announce_to(server, 0);
        self.tell_again(server, token, 0);
        if let Some(told) = told.filter(|_| server.server == self.me) {
            self.hear_told(server, told)?;
        }
        Ok(())
    }

    /// Returns true if the server or member that was called has proven that it knows the secret, or
    /// need not.
    pub(super) fn is_proven(&self, token: Token) -> bool {
        let is_proven = self.greeted.get(&token).is_some_and(|(_, is_proven)| *is_proven);
        self.server_secret.is_none() || is_proven
    }
}

pub(super) fn refused(why: String, is_temporary: bool) -> Welcome {
    Welcome::Refused { why, is_temporary }
}
