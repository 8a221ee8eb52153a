//! Options of a gateway, with their defaults, and those of them that can be changed while it runs.
//! They are checked when it starts (`crate::gateway`).

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use mongotx::ClientOptions;

/// Options with which a gateway is started. By default it listens on no address.
#[derive(Clone)]
pub struct GatewayOptions {
    /// Connection string of the backing server, with user and password if it needs them.
    pub uri: String,
    /// Address to listen on for TCP connections. Port 0 takes a free one.
    pub listen: Option<SocketAddr>,
    /// Path of a Unix socket to listen on, for clients on the same machine. `None`: no socket.
    pub unix: Option<PathBuf>,
    /// TLS for TCP connections. `None`: they are not encrypted.
    pub tls: Option<Tls>,
    /// File with the users who may log in, as [`Users::change`](crate::Users::change) writes it.
    /// `None`: clients need not log in, and may do everything.
    pub users: Option<PathBuf>,
    /// True lets other machines connect without TLS.
    pub allow_plaintext: bool,
    /// Address at which metrics and the gateway's health are served, by HTTP and to every client
    /// that can connect. `None`: not served.
    pub metrics: Option<SocketAddr>,
    /// Address at which the page for operators is served, by HTTP, or HTTPS if there is TLS.
    /// `None`: not served.
    pub web: Option<SocketAddr>,
    /// Names by which browsers may call the page's host, besides addresses and `localhost`.
    pub web_names: Vec<String>,
    /// Commands that take so long or longer are logged. `None`: none.
    pub slow: Option<Duration>,
    /// Limits of what clients may hold and how long they may take, of each and together.
    pub limits: Limits,
    /// Limits of the number of sessions, and of the lives of sessions, transactions and cursors.
    pub sessions: SessionLimits,
    /// Time that a write in a transaction waits for another transaction that holds its document.
    pub lock_wait: Duration,
    /// Place where the results of writes with a number are remembered.
    pub retryable_writes: RetryableWrites,
    /// The replica set that drivers see. `None`: they see a router.
    pub replica_set: Option<ReplicaSetFace>,
    /// True if clients may make commands fail (`configureFailPoint`), as the test suites of drivers
    /// do. Only with the feature `testing`, and outside of what versions promise.
    #[cfg(feature = "testing")]
    pub test_commands: bool,
    /// Options of the MongoTx client that all commands share. Its isolation is that of transactions
    /// whose clients send no read concern, or `local` or `majority`; those that send `snapshot` or
    /// `linearizable` get that level, or this one if it is stronger.
    pub client: ClientOptions,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            uri: String::new(),
            listen: None,
            unix: None,
            tls: None,
            users: None,
            allow_plaintext: false,
            metrics: None,
            web: None,
            web_names: Vec::new(),
            slow: None,
            limits: Limits::default(),
            sessions: SessionLimits::default(),
            lock_wait: Duration::from_millis(100),
            retryable_writes: RetryableWrites::default(),
            replica_set: None,
            #[cfg(feature = "testing")]
            test_commands: false,
            client: ClientOptions::default(),
        }
    }
}

impl GatewayOptions {
    /// Returns true if clients may make commands fail.
    pub(crate) fn has_test_commands(&self) -> bool {
        #[cfg(feature = "testing")]
        {
            self.test_commands
        }
        #[cfg(not(feature = "testing"))]
        {
            false
        }
    }
}

/// Place where the results of retryable writes are remembered, so that each is carried out once. A
/// client sends a write again when it has got no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryableWrites {
    /// The gateway, as long as it lives: a write that is sent again to another gateway, or to the
    /// restarted one, may be made twice. It takes no further commands.
    #[default]
    Memory,
    /// The store: every gateway answers a write that another one has carried out. The write and the
    /// record of its result are one transaction, which takes four commands for an update by `_id`
    /// instead of one.
    Durable,
}

/// A replica set, for applications that demand a set's name in their connection string, or look for
/// one before they use transactions. Its members are this gateway alone, or all those that
/// advertise an address under the same name, with the same database of client records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSetFace {
    /// Name of the set, as in `replicaSet=` of a connection string.
    pub name: String,
    /// Host and port to which drivers, and other gateways, connect. `None`: the address of the
    /// gateway that a connection has come to.
    pub advertise: Option<String>,
}

/// TLS of the gateway: its certificate, and whether clients have to show one. All files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The gateway's certificate, and those between it and one that clients know.
    pub certificate: PathBuf,
    /// Private key of the certificate; `None`: in the same file.
    pub key: Option<PathBuf>,
    /// Clients have to show a certificate that one of these has signed. `None`: they show none.
    pub client_ca: Option<PathBuf>,
}

/// Limits of clients, of each of them and together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at the same time. One more is closed at once; where clients have to log in, one
    /// that has not yet makes room for it.
    pub connections: usize,
    /// Connections of one address at the same time. `None`: as many as there may be.
    pub connections_per_address: Option<usize>,
    /// Time from a connection's opening within which its first message has to come.
    pub first_message: Duration,
    /// Time that a message may take from its first byte to its last.
    pub message: Duration,
    /// Time that a connection may be silent between messages. `None`, the default: for ever, as
    /// drivers' pools expect.
    pub idle: Option<Duration>,
    /// Time that a connection may be silent before login, where clients have to log in. Drivers
    /// watch a server without logging in, with a message every ten seconds.
    pub login: Option<Duration>,
    /// Time that a client may take to accept an answer.
    pub answer: Duration,
    /// The most bytes of requests and answers that are held at a time, of all connections together.
    /// Answers that wait in cursors may take half of it.
    pub memory_bytes: usize,
    /// Connections to the backing server for commands that are passed through, at the same time. It
    /// stays as it was at the start.
    pub upstream: usize,
    /// Time that a command waits for one of these connections. It stays as it was at the start.
    pub upstream_wait: Duration,
}

/// Options that can be changed while the gateway runs, for commands and connections that come
/// later: the fields of [`GatewayOptions`] with the same names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// As in [`GatewayOptions::limits`], but for the pool of connections to the server.
    pub limits: Limits,
    /// As in [`GatewayOptions::sessions`], for sessions and cursors that are opened later.
    pub sessions: SessionLimits,
    /// As in [`GatewayOptions::slow`]: commands that take so long or longer are logged.
    pub slow: Option<Duration>,
    /// As in [`GatewayOptions::lock_wait`], for later transactions.
    pub lock_wait: Duration,
}

impl GatewayOptions {
    /// The options that can be changed while the gateway runs.
    ///
    /// ```
    /// use mongotx_gateway::GatewayOptions;
    ///
    /// let options = GatewayOptions::default();
    /// let mut tuning = options.tuning();
    /// assert_eq!(tuning.limits, options.limits);
    /// tuning.limits.connections = 500; // for `Gateway::tune`
    /// ```
    pub fn tuning(&self) -> Tuning {
        let Self { limits, sessions, slow, lock_wait, .. } = self.clone();
        Tuning { limits, sessions, slow, lock_wait }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_address: None,
            first_message: Duration::from_secs(30),
            message: Duration::from_secs(60),
            idle: None,
            login: Some(Duration::from_secs(120)),
            answer: Duration::from_secs(60),
            memory_bytes: 1024 * 1024 * 1024,
            upstream: 100,
            upstream_wait: Duration::from_secs(10),
        }
    }
}

/// Limits of sessions, transactions, cursors and validated reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Sessions that are kept at a time. Where one more is needed, those that hold no transaction
    /// and remember no write make room; a user who has logged in has half of them at most.
    pub sessions: usize,
    /// Time after which an unused session is removed, and an idle cursor that was opened with
    /// `noCursorTimeout`.
    pub session_timeout: Duration,
    /// Time for which a transaction may be open; one that is open for longer is rolled back.
    pub transaction_lifetime: Duration,
    /// Cursors that are open at a time. A user who has logged in has half of them at most.
    pub cursors: usize,
    /// Time after which an unused cursor is closed; a later `getMore` of it fails.
    pub cursor_timeout: Duration,
    /// Documents that one read with read concern `snapshot` or `linearizable` outside transactions
    /// may answer: the gateway keeps all of them until they are fetched.
    pub validated_read_documents: usize,
    /// Bytes of documents that one such read may answer.
    pub validated_read_bytes: usize,
}

impl Default for SessionLimits {
    /// MongoDB's values where it has them: transactions live for 60 seconds, sessions for 30
    /// minutes, cursors for 10 minutes. The gateway's own: 100,000 sessions, 10,000 cursors;
    /// validated reads of 100,000 documents and 64 MiB.
    fn default() -> Self {
        Self {
            sessions: 100_000,
            session_timeout: Duration::from_secs(30 * 60),
            transaction_lifetime: Duration::from_secs(60),
            cursors: 10_000,
            cursor_timeout: Duration::from_secs(10 * 60),
            validated_read_documents: 100_000,
            validated_read_bytes: 64 * 1024 * 1024,
        }
    }
}
