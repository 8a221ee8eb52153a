//! State of one client connection: its peer, its login, and whether it is to end. Its bytes are
//! read in `crate::server`; sessions belong to no connection (`crate::session`).

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bson::Document;
use tokio::sync::watch;

use crate::{
    access::{Conversation, User},
    activity::{
        ConnectionActivity,
        connections::{Connections, ListedConnection},
    },
};

/// One client connection. Handlers share it; there is one command at a time on it.
#[derive(Debug)]
pub struct Connection {
    id: i64,
    peer: Peer,
    state: Mutex<State>,
    gone: watch::Sender<bool>,
    /// Activity of the connection, as others see it.
    doing: Arc<ConnectionActivity>,
    _listed: Option<ListedConnection>,
}

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Another process, on this machine or another one: its address, and the gateway's address that
    /// it has connected to.
    Tcp(SocketAddr, SocketAddr),
    /// Another process on this machine, over a Unix socket.
    Unix,
}

/// State that commands of the client change.
#[derive(Debug, Default)]
struct State {
    metadata: Option<Document>,
    login: Login,
    end: ForcedEnd,
}

/// Login of a connection's client: who it is, and how far a login has come.
#[derive(Default)]
pub(crate) struct Login {
    /// The user, once it is known.
    pub(crate) user: Option<Arc<User>>,
    /// A login that has begun.
    pub(crate) conversation: Option<Conversation>,
    /// Logins that have failed since the last one that has not.
    pub(crate) failures: u32,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Login").field(&self.user.as_ref().map(|user| &user.name)).finish()
    }
}

/// Time at which the gateway itself ends the connection, if it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ForcedEnd {
    #[default]
    Not,
    /// After the answer to the command that runs.
    AfterAnswer,
    /// The gateway ends the connection at once, without an answer.
    Now,
}

impl Connection {
    /// A new connection. Ids are never used twice.
    ///
    /// ```
    /// use mongotx_gateway::{Connection, Peer};
    ///
    /// let connection = Connection::new(7, Peer::Unix);
    /// assert!(connection.id() == 7 && !connection.is_gone());
    /// ```
    pub fn new(id: i64, peer: Peer) -> Self {
        let doing = Arc::new(ConnectionActivity::new(id, peer.to_string()));
        Self { id, peer, state: Mutex::default(), gone: watch::Sender::new(false), doing, _listed: None }
    }

    /// A new connection that is listed among the others.
    pub(crate) fn listed(id: i64, peer: Peer, connections: &Arc<Connections>) -> Self {
        let connection = Self::new(id, peer);
        let listed = connections.list(&connection.doing);
        Self { _listed: Some(listed), ..connection }
    }

    /// Activity of the connection, as others see it.
    pub(crate) fn doing(&self) -> &Arc<ConnectionActivity> {
        &self.doing
    }

    /// Number of the connection, unique as long as the gateway lives.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # local_mongod::example_gateway!(gateway);
    /// let (one, other) = (gateway.connect(), gateway.connect());
    /// assert_ne!(one.id(), other.id());
    /// # Ok(()) }
    /// ```
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The other end of the connection: the client's address, or the Unix socket.
    ///
    /// ```
    /// use mongotx_gateway::{Connection, Peer};
    ///
    /// let peer = Peer::Tcp("192.0.2.7:50000".parse()?, "192.0.2.1:27117".parse()?);
    /// let connection = Connection::new(1, peer);
    /// assert_eq!(connection.peer().to_string(), "192.0.2.7:50000"); // the client's address
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The client's description of itself in its first `hello` (`client`): driver, system and
    /// application.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # local_mongod::example_gateway!(gateway);
    /// use bson::doc;
    /// use mongotx_gateway::Request;
    ///
    /// let connection = gateway.connect();
    /// assert_eq!(connection.metadata(), None);
    /// let client = doc! {
    ///     "application": {"name": "shop"},
    ///     "driver": {"name": "nodejs", "version": "7.5.0"},
    ///     "os": {"type": "Linux"},
    /// };
    /// let hello = Request::of(&doc! {"hello": 1, "client": client.clone(), "$db": "admin"})?;
    /// assert!(gateway.run_command(&connection, &hello).await.is_ok());
    /// assert_eq!(connection.metadata(), Some(client));
    /// # Ok(()) }
    /// ```
    pub fn metadata(&self) -> Option<Document> {
        self.state().metadata.clone()
    }

    /// Keeps what a client says about itself. False when it has said so before: it is never
    /// changed.
    pub(crate) fn set_metadata(&self, metadata: Document) -> bool {
        let mut state = self.state();
        let first = state.metadata.is_none();
        if first {
            self.doing.change_who(|who| who.says(&metadata));
            state.metadata = Some(metadata);
        }
        first
    }

    /// Returns true if the client has closed the connection, or it is lost: an answer would not be
    /// received.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # local_mongod::example_gateway!(gateway);
    /// let connection = gateway.connect();
    /// assert!(!connection.is_gone());
    /// gateway.disconnect(&connection).await;
    /// assert!(connection.is_gone());
    /// # Ok(()) }
    /// ```
    pub fn is_gone(&self) -> bool {
        *self.gone.borrow()
    }

    /// Waits until the client is gone: for commands that can be given up.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # local_mongod::example_gateway!(gateway);
    /// use std::time::Duration;
    ///
    /// let connection = gateway.connect();
    /// let work = tokio::time::sleep(Duration::from_millis(10)); // a command that takes its time
    /// tokio::select! {
    ///     () = work => println!("answer it"),
    ///     () = connection.gone() => println!("give it up"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn gone(&self) {
        // The sender lives in `self`: this cannot fail.
        let _ = self.gone.subscribe().wait_for(|gone| *gone).await;
    }

    /// The user that the client has logged in as.
    pub(crate) fn user(&self) -> Option<Arc<User>> {
        self.state().login.user.clone()
    }

    /// Changes who the client is.
    pub(crate) fn login<T>(&self, change: impl FnOnce(&mut Login) -> T) -> T {
        let mut state = self.state();
        let changed = change(&mut state.login);
        let user = state.login.user.as_ref().map(|user| user.name.clone());
        self.doing.change_who(|who| who.user = user);
        changed
    }

    /// Closes the connection without an answer.
    pub(crate) fn cut(&self) {
        self.state().end = ForcedEnd::Now;
    }

    /// Closes the connection after the answer.
    pub(crate) fn close_after_answer(&self) {
        self.state().end = ForcedEnd::AfterAnswer;
    }

    /// Time at which the gateway itself ends the connection.
    pub(crate) fn end(&self) -> ForcedEnd {
        self.state().end
    }

    pub(crate) fn set_gone(&self) {
        self.gone.send_replace(true);
    }

    /// No code panics while it holds this lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints the address as MongoDB does in its replies.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(client, _) => client.fmt(f),
            Self::Unix => f.write_str("anonymous unix socket:27017"),
        }
    }
}
