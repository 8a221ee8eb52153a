//! Members of a group that come and go: whom this one calls, and whom it hears (decision 0088, C6
//! and C7). The stage `group` says which members there are; a caller may know of later ones.

use mio::Token;

use super::NetworkStage;
use super::connection::{Connection, Over, Party};
use super::handshake::refused;
use crate::cluster::{Cluster, PeerId};
use crate::core::{ClientId, StoreId};
use crate::server::identity::Met;
use crate::server::member_event::{Change, FromMembers, Restart};
use crate::server::roster::Roster;
use crate::wire::{MemberMessage, Reply, Told, Welcome, WireError};

/// Time that a client whose connection is to be closed has for what is under way, in milliseconds.
const OUTDATED_MS: u64 = 1_000;

impl NetworkStage {
    /// Takes over the members that the stage `group` knows, when they have changed: calls new ones,
    /// and ends the connections of those that are heard no longer.
    pub(super) fn take_roster(&mut self, now_ms: u64) {
        let rosters = self.port.stats.rosters();
        if rosters == self.rosters {
            return;
        }
        self.rosters = rosters;
        let Some(roster) = self.port.stats.roster() else { return };
        if let Err(error) = self.port.identity.learn_settled(&roster.settled.1) {
            self.failure = Some(error.to_string());
        }
        let member = |number: &u8| PeerId::member(self.me, *number);
        let heard: Vec<_> = roster.heard.iter().map(|(number, address)| (member(number), *address)).collect();
        for gone in self.peers.of(self.me).into_iter().filter(|peer| !heard.iter().any(|(kept, _)| kept == peer)) {
            let calls = self.callers.get(&gone).copied();
            let connections = self.peers.remove(gone).into_iter().chain(calls);
            connections.for_each(|token| self.close(token, now_ms));
        }
        let listed = self.cluster.addresses(self.me).len();
        for (peer, address) in heard {
            let known = self.peers.address(peer);
            // Addresses of the list are those of the configuration; others are those of the log.
            let is_moved = peer.member.is_some_and(|number| usize::from(number) > listed) && known != Some(address);
            if known.is_some() && is_moved {
                let calls = self.callers.get(&peer).copied();
                let connections = self.peers.remove(peer).into_iter().chain(calls);
                connections.for_each(|token| self.close(token, now_ms));
            }
            if !self.peers.contains(peer) {
                self.peers.add(peer, address);
            }
        }
        self.describe(&roster, now_ms);
        self.roster = Some(roster);
    }

    /// Takes the addresses that clients are told from the settled configuration (C13).
    fn describe(&mut self, roster: &Roster, now_ms: u64) {
        let (at, places) = &roster.settled;
        let addresses = places.addresses();
        if at.index == 0 {
            return;
        }
        self.addresses_of = at.index;
        let before = self.described.addresses(self.me);
        self.described.move_members(self.me, &Cluster::of_group("", self.me, addresses));
        if self.described.addresses(self.me) != before {
            self.outdate_clients(now_ms);
        }
    }

    /// The clients that are connected know other addresses than those of now. Their connections are
    /// to be closed, so that they greet again, and hear of these.
    fn outdate_clients(&mut self, now_ms: u64) {
        if self.outdated.is_empty() {
            self.outdated_until_ms = now_ms + OUTDATED_MS;
        }
        let is_client = |connection: &Connection| matches!(connection.party, Party::Client(_));
        let clients = self.connections.iter().filter(|(_, connection)| is_client(connection));
        self.outdated.extend(clients.map(|(token, _)| *token));
    }

    /// Closes outdated connections on which nothing is under way, and each after a while: what is
    /// under way then is answered over the client's next connection.
    pub(super) fn close_outdated(&mut self, now_ms: u64) {
        let is_late = now_ms >= self.outdated_until_ms;
        let is_over = |token: &Token| {
            let Some(connection) = self.connections.get(token) else { return true };
            let Party::Client(client) = connection.party else { return true };
            let is_quiet = !connection.has_unsent() && connection.incoming.begun_ms().is_none();
            is_late || is_quiet && self.sessions.is_idle(client)
        };
        let over: Vec<Token> = self.outdated.iter().filter(|token| is_over(token)).copied().collect();
        for token in over {
            self.outdated.remove(&token);
            self.close(token, now_ms);
        }
    }

    /// Place of a member's address among those that clients are told, from 1 on.
    pub(super) fn place_of(&self, number: u8) -> Option<u8> {
        let Some(roster) = &self.roster else { return Some(number) };
        let at = roster.settled.1.places.iter().position(|place| place.number == number)?;
        u8::try_from(at + 1).ok()
    }

    /// Number of a member of this group that was removed.
    pub(super) fn removed(&self, peer: PeerId) -> Option<u8> {
        let (_, settled) = &self.roster.as_ref()?.settled;
        peer.member.filter(|number| peer.server == self.me && settled.has_removed(*number))
    }

    /// The configuration in force here, for a member of the same group. What the stage `group` has
    /// noted last is told, so that nothing is missed between this and its next message.
    pub(super) fn told_to(&self, peer: PeerId) -> Option<Told> {
        let told = self.port.stats.roster().filter(|_| peer.server == self.me).map(|roster| roster.told.clone());
        told.map(|told| self.port.identity.complete_told(told))
    }

    /// A member that was called has accepted the call: tells it which configuration is in force
    /// here, if that was not known yet when it was called.
    pub(super) fn tell_again(&mut self, peer: PeerId, token: Token, now_ms: u64) {
        let said = self.greeted.get(&token).and_then(|(hello, _)| hello.from.told());
        let told = self.told_to(peer).filter(|told| Some(told) != said);
        if let Some(told) = told {
            self.push(token, &MemberMessage::Told(told), now_ms);
        }
    }

    /// Hears which configuration is in force on a member of this group that calls. Returns the
    /// answer if it is heard no longer, or not yet.
    pub(super) fn hear_of_members(
        &mut self,
        peer: PeerId,
        store: StoreId,
        replaces: &[StoreId],
        told: Option<&Told>,
    ) -> Option<Welcome> {
        let number = peer.member.filter(|_| peer.server == self.me)?;
        let met = self.port.identity.judge(peer, store, replaces);
        if matches!(met, Met::Refused(_)) {
            return None;
        }
        let told = told.filter(|told| self.port.identity.is_of_the_same(told));
        let Some(roster) = self.roster.clone() else {
            let is_heard = told.is_none_or(|told| self.hear_told(peer, told.clone()).is_ok());
            return (!is_heard).then(at_limit);
        };
        let (at, settled) = &roster.settled;
        // A store that is not known in that place may be one of another group.
        if settled.has_removed(number) && matches!(met, Met::Known | Met::Replaced) {
            return Some(Welcome::Removed { at: at.index });
        }
        let told = told.filter(|told| told.is_possible())?;
        let place = told.places.get(number).filter(|_| told.at.index > at.index);
        if let Some(place) = place.filter(|_| !self.peers.contains(peer) && Some(number) != self.member) {
            if place.store != store && !replaces.contains(&place.store) {
                let (first, server) = (place.store, self.me);
                return Some(refused(format!("member {number} of server {server} had the store {first}"), false));
            }
            self.port.identity.learn(peer, place.store);
            self.peers.add(peer, place.address);
        }
        (!self.hand_on_told(number, told.clone())).then(at_limit)
    }

    /// A member of this group tells which configuration is in force there. A store that takes a
    /// lost one's place begins with the latest one.
    ///
    /// # Errors
    /// The message is not taken: the connection ends, and with the next one it comes again.
    pub(super) fn hear_told(&mut self, peer: PeerId, told: Told) -> Result<(), Over> {
        if !self.port.identity.is_of_the_same(&told) {
            return Ok(());
        }
        match self.port.identity.tell(&told) {
            Ok(false) => {}
            Ok(true) => {
                for place in &told.places.places {
                    let other = PeerId::member(self.me, place.number);
                    if place.number != self.member.unwrap_or(0) && !self.peers.contains(other) {
                        self.peers.add(other, place.address);
                    }
                }
                if self.has_told_members {
                    if let Some(ways) = &self.port.members {
                        // Another reason to start again does as well.
                        let _ = ways.restart.set(Restart::Told);
                    }
                    self.failure = Some("the group has another configuration".to_owned());
                }
            }
            Err(error) => self.failure = Some(error.to_string()),
        }
        let is_taken = peer.member.is_some_and(|from| self.hand_on_told(from, told));
        if is_taken { Ok(()) } else { Err(Over::Closed) }
    }

    fn hand_on_told(&self, from: u8, told: Told) -> bool {
        let group = self.port.members.as_ref().map(|ways| &ways.group);
        group.is_some_and(|group| group.offer(FromMembers::Told { from, told }).is_ok())
    }

    /// A member that was called says that this one's place was removed, which it knows for certain.
    pub(super) fn was_removed(&mut self, by: PeerId, token: Token, at: u64) -> Result<(), Over> {
        if by.server != self.me || !self.is_proven(token) {
            return Err(
                WireError::Unreadable { what: format!("server {by} takes this one for a member of its own") }.into()
            );
        }
        if let Some(ways) = &self.port.members {
            // If it starts again for another reason, it hears of this again.
            let _ = ways.restart.set(Restart::Removed { at, by: by.member.unwrap_or_default() });
        }
        self.failure = Some("this member was removed from its group".to_owned());
        Ok(())
    }

    /// Hands a change of the members that a client asks for to the stage `group`.
    pub(super) fn ask_for_change(&self, client: ClientId, id: u64, change: Change) -> Result<(), Reply> {
        let refused = |why: String| Err(Reply::Refused(why));
        let Some(ways) = &self.port.members else {
            return refused(format!("server {} runs alone, and cannot become a group: it has no members", self.me));
        };
        if self.cluster.servers.len() > 1 {
            let why = "the cluster has other servers, which would not reach a new member: the members of a group in it \
                       do not change yet";
            return refused(why.to_owned());
        }
        if let Change::Add { address, .. } = change
            && !self.allow_remote
            && !address.ip().is_loopback()
        {
            return refused(format!("{address} is not of the loopback interface; allow_remote permits it"));
        }
        let full = |_| Reply::Refused("the server is at its limit: messages of members".to_owned());
        ways.group.offer(FromMembers::Asked { client, id, change }).map_err(full)
    }
}

fn at_limit() -> Welcome {
    refused("the server is at its limit: messages of members".to_owned(), true)
}
