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
pub(super) struct ConnectionTable {
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
    by_number: HashMap<u64, Arc<OpenConnection>>,
    by_address: HashMap<IpAddr, usize>,
}

/// An open connection, as the limits see it.
#[derive(Debug)]
pub(super) struct OpenConnection {
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
    table: Arc<ConnectionTable>,
    pub(super) connection: Arc<OpenConnection>,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.table.open().remove(self.connection.number);
    }
}

impl OpenConnection {
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
        let Some(connection) = self.by_number.remove(&number) else { return };
        if let Some((address, count)) =
            connection.address.and_then(|address| Some((address, self.by_address.get_mut(&address)?)))
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
        let strangers = self.by_number.values().filter(|connection| connection.user().is_none());
        let Some(silent) = strangers.min_by_key(|connection| *connection.last_message()).map(Arc::clone) else {
            return false;
        };
        silent.evicted.cancel();
        self.remove(silent.number);
        true
    }
}

impl ConnectionTable {
    /// `logs_in`: clients have to log in.
    pub(super) fn new(limits: &Limits, logs_in: bool) -> Self {
        let table = Self { logs_in, open: Mutex::default() };
        table.limit(limits);
        table
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
        if open.by_number.len() >= open.connections && !(self.logs_in && open.evict()) {
            return Err(ConnectionRefused::Full(open.connections));
        }
        open.last_number += 1;
        let connection = Arc::new(OpenConnection {
            number: open.last_number,
            address,
            last_message: Mutex::new(Instant::now()),
            user: Mutex::default(),
            evicted: CancellationToken::new(),
            revoked: CancellationToken::new(),
        });
        open.by_number.insert(connection.number, Arc::clone(&connection));
        if let Some(address) = address {
            *open.by_address.entry(address).or_default() += 1;
        }
        drop(open);
        Ok(ConnectionPlace { table: Arc::clone(self), connection })
    }

    /// Ends the connections of these users, by their digests.
    pub(super) fn revoke(&self, users: &[Vec<u8>]) {
        for connection in self.open().by_number.values() {
            if connection.user().as_ref().is_some_and(|user| users.contains(user)) {
                connection.revoked.cancel();
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

    fn table(connections: usize, per_address: Option<usize>, logs_in: bool) -> Arc<ConnectionTable> {
        let limits = Limits { connections, connections_per_address: per_address, ..Limits::default() };
        Arc::new(ConnectionTable::new(&limits, logs_in))
    }

    fn peer(host: u8) -> Peer {
        Peer::Tcp(([127, 0, 0, host], 5).into(), ([127, 0, 0, 1], 6).into())
    }

    fn log_in(place: &ConnectionPlace) {
        *place.connection.user() = Some(vec![1]);
    }

    fn refused(table: &Arc<ConnectionTable>, peer: &Peer) -> Option<ConnectionRefused> {
        table.admit(peer).err()
    }

    #[test]
    fn one_more_than_the_limit_is_refused_until_one_has_ended() {
        let table = table(2, None, false);
        let one = table.admit(&peer(1)).ok().unwrap();
        let _two = table.admit(&Peer::Unix).ok().unwrap();
        assert_eq!(refused(&table, &peer(1)), Some(ConnectionRefused::Full(2)));
        drop(one);
        assert_eq!(refused(&table, &peer(1)), None);
        assert!(table.open().by_address.is_empty());
    }

    #[test]
    fn an_address_has_its_own_limit() {
        let table = table(9, Some(1), false);
        let _one = table.admit(&peer(1)).ok().unwrap();
        assert_eq!(refused(&table, &peer(1)), Some(ConnectionRefused::FullForAddress(1)));
        assert_eq!(refused(&table, &peer(2)), None);
        assert_eq!(refused(&table, &Peer::Unix), None);
    }

    #[test]
    fn who_has_not_logged_in_and_says_least_makes_room() {
        let table = table(3, None, true);
        let places = [1, 2, 3].map(|host| table.admit(&peer(host)).ok().unwrap());
        log_in(&places[0]);
        let start = *places[1].connection.last_message();
        // The clock may not have gone on between the two.
        *places[1].connection.last_message() = start + std::time::Duration::from_secs(1);
        let new = table.admit(&peer(4)).ok().unwrap();
        let evicted = places.each_ref().map(|place| place.connection.evicted.is_cancelled());
        assert_eq!(evicted, [false, false, true]);
        log_in(&new);
        log_in(&places[1]);
        assert_eq!(refused(&table, &peer(5)), Some(ConnectionRefused::Full(3)));
        drop(places);
        assert_eq!(table.open().by_number.len(), 1);
    }
}
