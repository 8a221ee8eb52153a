//! Clients' connections: accepted, read, answered, limited, ended.
//!
//! | file | what |
//! | --- | --- |
//! | `listener` | sockets that accept connections |
//! | `connection_table` | how many connections there may be, and who makes room for whom |
//! | `serve` | one connection, from its first byte to its last |
//! | `tls` | certificates, and the handshake before the first byte |
//! | `read` | one message off a connection |
//! | `reader` | its bytes, without a buffer while none come |
//! | `answer` | one message to its answer |
//! | `web` | the page for operators, on a socket of its own |
//! | `endpoint` | `/metrics` and `/healthz` over HTTP, on a socket of their own |
//!
//! There is one task per connection and one command at a time on it: what a client does to its own
//! connection is seen by no other.

mod answer;
mod connection_table;
mod endpoint;
mod listener;
mod read;
mod reader;
mod serve;
mod tls;
mod web;

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicI64, Ordering::Relaxed},
};

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::connection_table::{ConnectionPlace, ConnectionTable, OpenConnection};
pub use self::tls::TlsError;
pub(crate) use self::{endpoint::Endpoint, listener::Listener, serve::Socket, tls::acceptor, web::Web};
use crate::{
    access::Users,
    connection::{Connection, Peer},
    context::Context,
    metrics::Counted,
    options::Tuning,
};

/// Result of reading the files of users and certificates again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// Users who were removed, or whose password or roles have changed: their connections,
    /// transactions and cursors were ended.
    pub users_changed: usize,
}

/// State that all connections share.
pub(crate) struct Server {
    pub(crate) context: Arc<Context>,
    /// No new commands: connections end as soon as they have answered.
    pub(crate) closing: CancellationToken,
    /// No waiting for commands any more: connections end now.
    pub(crate) ending: CancellationToken,
    /// Tasks of listeners and connections, for which a shutdown waits.
    pub(crate) tasks: TaskTracker,
    /// TCP connections begin with TLS.
    tls: RwLock<Option<TlsAcceptor>>,
    connections: Arc<ConnectionTable>,
    last_id: AtomicI64,
}

impl Server {
    pub(crate) fn new(context: Arc<Context>, tls: Option<TlsAcceptor>) -> Self {
        let connections = Arc::new(ConnectionTable::new(&context.options.limits, context.users.is_some()));
        let [closing, ending] = [(); 2].map(|()| CancellationToken::new());
        Self {
            context,
            closing,
            ending,
            tasks: TaskTracker::new(),
            tls: RwLock::new(tls),
            connections,
            last_id: AtomicI64::new(0),
        }
    }

    /// Puts certificates and users into effect: connections that come later begin with these
    /// certificates; for users who have changed or are gone, all that is open ends.
    pub(crate) async fn reload(&self, tls: Option<TlsAcceptor>, users: Option<Users>) -> Reloaded {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = tls;
        let (Some(roster), Some(users)) = (&self.context.users, users) else { return Reloaded { users_changed: 0 } };
        let changed = roster.replace(users);
        self.connections.revoke(&changed);
        for user in &changed {
            self.context.tx.kill_sessions_of_user(user).await;
            // Reading on from a cursor needs no privilege, so the user's new ones come with new
            // cursors.
            self.context.tx.cursors.kill_all_of_user(user);
        }
        Reloaded { users_changed: changed.len() }
    }

    /// The certificates of new connections.
    fn tls(&self) -> Option<TlsAcceptor> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets new values of the options that can be changed.
    pub(crate) fn tune(&self, tuning: Tuning) {
        self.connections.limit(&tuning.limits);
        self.context.tune(tuning);
    }

    /// A connection with a number of its own.
    pub(crate) fn connection(&self, peer: Peer) -> Connection {
        Connection::listed(self.last_id.fetch_add(1, Relaxed) + 1, peer, &self.context.tx.connections)
    }

    /// Serves a connection in a task of its own, or closes it when there are too many.
    pub(crate) fn admit(self: &Arc<Self>, socket: impl Socket, peer: Peer) {
        let server = Arc::clone(self);
        self.spawn(&peer.clone(), |admitted| async move {
            serve::serve(&server, socket, peer, admitted.open()).await;
        });
    }

    /// As [`Server::admit`], with TLS in between where it is configured.
    pub(crate) fn admit_tcp(self: &Arc<Self>, stream: TcpStream, peer: Peer) {
        let Some(tls) = self.tls() else {
            return self.admit(stream, peer);
        };
        let server = Arc::clone(self);
        self.spawn(&peer.clone(), |admitted| async move {
            let open = admitted.open();
            tokio::select! {
                stream = tls::shake_hands(&tls, stream, &peer, server.context.tuning().limits.first_message) => {
                    let Some(stream) = stream else { return };
                    serve::serve(&server, stream, peer, open).await;
                }
                () = server.closing.cancelled() => {}
                () = open.evicted.cancelled() => {}
            }
        });
    }

    /// A task that takes the place of one connection. It is spawned as it is: a future around it
    /// would have room for it twice.
    fn spawn<F>(&self, peer: &Peer, task: impl FnOnce(Admitted) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let metrics = &self.context.tx.metrics;
        let place = match self.connections.admit(peer) {
            Ok(place) => place,
            Err(refused) => {
                metrics.connections_refused.inc();
                tracing::warn!(%peer, "a connection is closed: {refused}");
                return;
            }
        };
        metrics.connections_accepted.inc();
        self.tasks.spawn(task(Admitted { _counted: Counted::in_gauge(&metrics.connections), place }));
    }
}

/// A connection that is let in, as long as this lives.
struct Admitted {
    place: ConnectionPlace,
    _counted: Counted,
}

impl Admitted {
    fn open(&self) -> &OpenConnection {
        &self.place.connection
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::net::TcpStream;

    use super::{OpenConnection, Server, serve::serve};
    use crate::connection::Peer;

    /// Thousands of connections may be idle: what a command needs that runs is on the heap as long
    /// as it runs, and what is in a future twice is not.
    #[test]
    fn the_future_of_a_connection_is_small() {
        fn bytes<A, B, C, D, F>(_: impl Fn(A, B, C, D) -> F) -> usize {
            size_of::<F>()
        }
        let serving = |server: &'static Arc<Server>, socket: TcpStream, peer: Peer, open: &'static OpenConnection| {
            serve(server, socket, peer, open)
        };
        let bytes = bytes(serving);
        assert!(bytes <= 2_560, "{bytes} bytes");
    }
}
