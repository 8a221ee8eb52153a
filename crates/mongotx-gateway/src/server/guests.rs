//! The open connections: their limits, and which of them makes room for a new one.
//!
//! Where clients have to log in, connections without a login make room for a new one when there are
//! too many, the one that has been silent for the longest time first: idle connections cannot keep
//! out clients that log in.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio_util::sync::CancellationToken;

use crate::{access::User, connection::Peer, options::Limits};

/// All open connections, and their limits.
pub(super) struct Guests {
    /// Clients have to log in; a connection without a user makes room.
    logs_in: bool,
    open: Mutex<OpenConnections>,
}

/// The connections that are open, and their numbers by address.
#[derive(Default)]
struct OpenConnections {
    connections: usize,
    per_address: Option<usize>,
    last_number: u64,
    guests: HashMap<u64, Arc<Guest>>,
    by_address: HashMap<IpAddr, usize>,
}

/// An open connection, as the limits see it.
#[derive(Debug)]
pub(super) struct Guest {
    number: u64,
    address: Option<IpAddr>,
    last_message: Mutex<Instant>,
    /// Digest of the user who has logged in.
    user: Mutex<Option<Vec<u8>>>,
    /// Cancelled when the connection has to make room for another one.
    pub(super) evicted: CancellationToken,
    /// Cancelled when its user was changed or removed.
    pub(super) revoked: CancellationToken,
}

/// Reason why a connection is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ConnectionRefused {
    #[error("{0} connections are open, the limit (--max-connections)")]
    Full(usize),
    #[error("{0} connections of its address are open, the limit (--max-connections-per-address)")]
    FullForAddress(usize),
}

/// A connection's place. Dropping it gives it to others.
pub(super) struct ConnectionPlace {
    guests: Arc<Guests>,
    pub(super) guest: Arc<Guest>,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.guests.open().remove(self.guest.number);
    }
}

impl Guest {
    /// Notes that a message has come.
    pub(super) fn spoke(&self) {
        *self.last_message() = Instant::now();
    }

    /// Notes the user that its client has logged in as, or that it has not yet.
    pub(super) fn note_user(&self, user: Option<&User>) {
        let mut known = self.user();
        if known.as_ref() != user.map(|user| &user.digest) {
            *known = user.map(|user| user.digest.clone());
        }
    }

    fn user(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_message(&self) -> MutexGuard<'_, Instant> {
        self.last_message.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    fn count(&self, address: Option<IpAddr>) -> usize {
        address.and_then(|address| self.by_address.get(&address)).copied().unwrap_or(0)
    }

    fn remove(&mut self, number: u64) {
        let Some(guest) = self.guests.remove(&number) else { return };
        if let Some((address, count)) =
            guest.address.and_then(|address| Some((address, self.by_address.get_mut(&address)?)))
        {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }

    /// Ends the connection that has not logged in and was silent for the longest time. False: there
    /// is none.
    fn evict(&mut self) -> bool {
        let strangers = self.guests.values().filter(|guest| guest.user().is_none());
        let Some(silent) = strangers.min_by_key(|guest| *guest.last_message()).map(Arc::clone) else { return false };
        silent.evicted.cancel();
        self.remove(silent.number);
        true
    }
}

impl Guests {
    /// `logs_in`: clients have to log in.
    pub(super) fn new(limits: &Limits, logs_in: bool) -> Self {
        let guests = Self { logs_in, open: Mutex::default() };
        guests.limit(limits);
        guests
    }

    /// Sets new limits. Connections that are open stay.
    pub(super) fn limit(&self, limits: &Limits) {
        let Limits { connections, connections_per_address: per_address, .. } = *limits;
        let mut open = self.open();
        (open.connections, open.per_address) = (connections, per_address);
    }

    /// A place for a new connection.
    pub(super) fn admit(self: &Arc<Self>, peer: &Peer) -> Result<ConnectionPlace, ConnectionRefused> {
        let address = match peer {
            Peer::Tcp(client, _) => Some(client.ip()),
            Peer::Unix => None,
        };
        let mut open = self.open();
        if let Some(limit) = open.per_address.filter(|limit| open.count(address) >= *limit) {
            return Err(ConnectionRefused::FullForAddress(limit));
        }
        if open.guests.len() >= open.connections && !(self.logs_in && open.evict()) {
            return Err(ConnectionRefused::Full(open.connections));
        }
        open.last_number += 1;
        let guest = Arc::new(Guest {
            number: open.last_number,
            address,
            last_message: Mutex::new(Instant::now()),
            user: Mutex::default(),
            evicted: CancellationToken::new(),
            revoked: CancellationToken::new(),
        });
        open.guests.insert(guest.number, Arc::clone(&guest));
        if let Some(address) = address {
            *open.by_address.entry(address).or_default() += 1;
        }
        drop(open);
        Ok(ConnectionPlace { guests: Arc::clone(self), guest })
    }

    /// Ends the connections of these users, by their digests.
    pub(super) fn revoke(&self, users: &[Vec<u8>]) {
        for guest in self.open().guests.values() {
            if guest.user().as_ref().is_some_and(|user| users.contains(user)) {
                guest.revoked.cancel();
            }
        }
    }

    /// No code panics while it holds this lock.
    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn guests(connections: usize, per_address: Option<usize>, logs_in: bool) -> Arc<Guests> {
        let limits = Limits { connections, connections_per_address: per_address, ..Limits::default() };
        Arc::new(Guests::new(&limits, logs_in))
    }

    fn peer(host: u8) -> Peer {
        Peer::Tcp(([127, 0, 0, host], 5).into(), ([127, 0, 0, 1], 6).into())
    }

    fn log_in(place: &ConnectionPlace) {
        *place.guest.user() = Some(vec![1]);
    }

    fn refused(guests: &Arc<Guests>, peer: &Peer) -> Option<ConnectionRefused> {
        guests.admit(peer).err()
    }

    #[test]
    fn one_more_than_the_limit_is_refused_until_one_has_ended() {
        let guests = guests(2, None, false);
        let one = guests.admit(&peer(1)).ok().unwrap();
        let _two = guests.admit(&Peer::Unix).ok().unwrap();
        assert_eq!(refused(&guests, &peer(1)), Some(ConnectionRefused::Full(2)));
        drop(one);
        assert_eq!(refused(&guests, &peer(1)), None);
        assert!(guests.open().by_address.is_empty());
    }

    #[test]
    fn an_address_has_its_own_limit() {
        let guests = guests(9, Some(1), false);
        let _one = guests.admit(&peer(1)).ok().unwrap();
        assert_eq!(refused(&guests, &peer(1)), Some(ConnectionRefused::FullForAddress(1)));
        assert_eq!(refused(&guests, &peer(2)), None);
        assert_eq!(refused(&guests, &Peer::Unix), None);
    }

    #[test]
    fn who_has_not_logged_in_and_says_least_makes_room() {
        let guests = guests(3, None, true);
        let places = [1, 2, 3].map(|host| guests.admit(&peer(host)).ok().unwrap());
        log_in(&places[0]);
        let start = *places[1].guest.last_message();
        // The clock may not have gone on between the two.
        *places[1].guest.last_message() = start + std::time::Duration::from_secs(1);
        let new = guests.admit(&peer(4)).ok().unwrap();
        let evicted = places.each_ref().map(|place| place.guest.evicted.is_cancelled());
        assert_eq!(evicted, [false, false, true]);
        log_in(&new);
        log_in(&places[1]);
        assert_eq!(refused(&guests, &peer(5)), Some(ConnectionRefused::Full(3)));
        drop(places);
        assert_eq!(guests.open().guests.len(), 1);
    }
}
