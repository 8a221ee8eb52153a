//! The connections to the other servers, and to the other members of a group: each is called, and
//! called again when it is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use mio::Token;

use crate::backoff::Backoff;
use crate::cluster::PeerId;
use crate::core::ServerId;

/// Pauses before a server is called again, the first and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A server or member that is to be connected.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    pub(super) token: Option<Token>,
    pub(super) is_welcome: bool,
    call_at_ms: u64,
    backoff: Backoff,
}

#[derive(Default)]
pub(super) struct Peers {
    peers: BTreeMap<PeerId, Peer>,
}

impl Peers {
    pub(super) fn add(&mut self, id: PeerId, address: SocketAddr) {
        let backoff = Backoff::new(RETRY.0, RETRY.1);
        let peer = Peer { address, token: None, is_welcome: false, call_at_ms: 0, backoff };
        self.peers.insert(id, peer);
    }

    /// A server or member is called no longer. Returns the connection to it.
    pub(super) fn remove(&mut self, id: PeerId) -> Option<Token> {
        self.peers.remove(&id).and_then(|peer| peer.token)
    }

    /// The members of a server that is a group.
    pub(super) fn of(&self, server: ServerId) -> Vec<PeerId> {
        self.peers.keys().copied().filter(|peer| peer.server == server).collect()
    }

    pub(super) fn address(&self, peer: PeerId) -> Option<SocketAddr> {
        self.peers.get(&peer).map(|peer| peer.address)
    }

    pub(super) fn contains(&self, peer: PeerId) -> bool {
        self.peers.contains_key(&peer)
    }

    /// The connection that messages for a server or member go over, if it is ready.
    pub(super) fn ready(&self, peer: PeerId) -> Option<Token> {
        self.peers.get(&peer).filter(|peer| peer.is_welcome).and_then(|peer| peer.token)
    }

    /// Servers and members that have welcomed this one.
    pub(super) fn all_welcome(&self) -> Vec<PeerId> {
        self.peers.iter().filter(|(_, peer)| peer.is_welcome).map(|(id, _)| *id).collect()
    }

    /// Servers that are connected, `me` not among them; of a group, any member.
    pub(super) fn all_ready(&self, me: ServerId) -> Vec<ServerId> {
        let servers: BTreeSet<ServerId> = self.all_welcome().into_iter().map(|peer| peer.server).collect();
        servers.into_iter().filter(|server| *server != me).collect()
    }

    /// Servers and members that are to be called now.
    pub(super) fn due(&self, now_ms: u64) -> Vec<(PeerId, SocketAddr)> {
        let due = self.peers.iter().filter(|(_, peer)| peer.token.is_none() && peer.call_at_ms <= now_ms);
        due.map(|(id, peer)| (*id, peer.address)).collect()
    }

    pub(super) fn next_call_ms(&self) -> Option<u64> {
        self.peers.values().filter(|peer| peer.token.is_none()).map(|peer| peer.call_at_ms).min()
    }

    pub(super) fn called(&mut self, id: PeerId, token: Token) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.token = Some(token);
            peer.is_welcome = false;
        }
    }

    pub(super) fn welcomed(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.is_welcome = true;
            peer.backoff.restart();
        }
    }

    /// Notes that the connection is gone, or could not be made.
    pub(super) fn lost(&mut self, id: PeerId, now_ms: u64) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.token = None;
            peer.is_welcome = false;
            peer.call_at_ms = now_ms + peer.backoff.next().as_millis() as u64;
        }
    }
}
