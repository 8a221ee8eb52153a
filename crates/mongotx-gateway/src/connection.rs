//! What is known of one client connection.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bson::Document;
use tokio::sync::watch;

/// One client connection. Handlers share it; there is one command at a time on it.
#[derive(Debug)]
pub struct Connection {
    id: i64,
    peer: Peer,
    state: Mutex<State>,
    gone: watch::Sender<bool>,
}

/// Where a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Another process, on this machine or another one.
    Tcp(SocketAddr),
    /// Another process on this machine, over a Unix socket.
    Unix,
}

/// What the client has told.
#[derive(Debug, Default)]
struct State {
    metadata: Option<Document>,
    is_cut: bool,
}

impl Connection {
    /// A new one. Ids are never used twice.
    pub fn new(id: i64, peer: Peer) -> Self {
        Self { id, peer, state: Mutex::default(), gone: watch::Sender::new(false) }
    }

    /// Its number, unique as long as the gateway lives.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Where the client is.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// What the client said about itself in its first `hello` (`client`): its driver, system and application.
    pub fn metadata(&self) -> Option<Document> {
        self.state().metadata.clone()
    }

    /// Keeps what a client says about itself. False when it has said so before: it is never changed.
    pub(crate) fn set_metadata(&self, metadata: Document) -> bool {
        let mut state = self.state();
        let first = state.metadata.is_none();
        if first {
            state.metadata = Some(metadata);
        }
        first
    }

    /// The client has closed the connection, or it is lost: nobody waits for an answer any more.
    pub fn is_gone(&self) -> bool {
        *self.gone.borrow()
    }

    /// Waits until the client is gone: for commands that can be given up.
    pub async fn gone(&self) {
        // The sender lives in `self`: this cannot fail.
        let _ = self.gone.subscribe().wait_for(|gone| *gone).await;
    }

    /// The connection is to be closed instead of an answer.
    pub(crate) fn cut(&self) {
        self.state().is_cut = true;
    }

    /// Is it to be closed?
    pub(crate) fn is_cut(&self) -> bool {
        self.state().is_cut
    }

    pub(crate) fn set_gone(&self) {
        self.gone.send_replace(true);
    }

    /// No code panics while it holds this lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As MongoDB writes addresses in its replies.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix => f.write_str("anonymous unix socket:27017"),
        }
    }
}
