//! A gateway: starting it, its addresses and figures, and ending it.
//!
//! Ending it, in this order:
//! 1. No connection is accepted any more, and silent connections end. The gateway leaves its
//!    replica set, if it shows itself as a member of one, so that another member is the primary.
//! 2. Running commands are answered, for as long as the caller allows.
//! 3. The connections that are left end as they are.
//! 4. Open transactions are rolled back.
//! 5. The library finishes what is decided.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use mongodb::options::ServerAddress;

use crate::{
    access::{Users, UsersError},
    clock::Clock,
    connection::{Connection, Peer},
    context::Context,
    dispatch,
    metrics::AbortReason,
    options::{GatewayOptions, ReplicaSetFace, Tuning},
    reply::Reply,
    request::Request,
    server::{Endpoint, Listener, Reloaded, Server, TlsError, Web, acceptor},
    upstream::Upstream,
};

/// The most bytes of the name of a replica set that drivers are to see.
const MOST_NAME_BYTES: usize = 100;

/// A gateway that runs. Dropping it ends all its connections as they are; [`Gateway::shutdown`]
/// waits for them.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = local_mongod::Server::standalone().await?;
/// # let uri = server.uri();
/// use std::time::Duration;
///
/// use bson::{Document, doc};
/// use mongotx_gateway::{Gateway, GatewayOptions};
///
/// // Port 0 takes a free one.
/// let options = GatewayOptions { uri, listen: Some("127.0.0.1:0".parse()?), ..GatewayOptions::default() };
/// let gateway = Gateway::start(options).await?;
/// let address = gateway.address().expect("it listens");
///
/// // Any driver has transactions now.
/// let driver = mongodb::Client::with_uri_str(format!("mongodb://{address}")).await?;
/// let accounts = driver.database("bank").collection::<Document>("accounts");
/// let mut session = driver.start_session().await?;
/// session.start_transaction().await?;
/// accounts.insert_one(doc! {"_id": 1}).session(&mut session).await?;
/// accounts.insert_one(doc! {"_id": 2}).session(&mut session).await?;
/// session.commit_transaction().await?;
/// assert_eq!(accounts.count_documents(doc! {}).await?, 2);
///
/// assert!(gateway.flush(Duration::from_secs(60)).await);
/// assert_eq!(gateway.metrics().commits, 1);
/// gateway.shutdown(Duration::from_secs(10)).await?;
/// # Ok(()) }
/// ```
pub struct Gateway {
    server: Arc<Server>,
    address: Option<SocketAddr>,
    metrics_address: Option<SocketAddr>,
    web_address: Option<SocketAddr>,
}

/// A gateway could not be started: the message names the option and the reason.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mongotx_gateway::{Gateway, GatewayOptions, StartError};
///
/// let open = GatewayOptions { listen: Some("0.0.0.0:27117".parse()?), ..GatewayOptions::default() };
/// let refused = Gateway::start(open).await.err().expect("it would serve clients without a login");
/// assert!(matches!(refused, StartError::Exposed { .. }));
/// assert!(!refused.is_unreachable()); // trying again would not help
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The backing server cannot be used: it cannot be reached, or is one on which transactions are
    /// not safe.
    #[error("the server cannot be used: {0}")]
    Client(#[from] mongotx::Error),
    /// The connection string of the backing server cannot be read; the message says what is wrong
    /// in it.
    #[error("the connection string cannot be used: {0}")]
    Uri(#[from] mongodb::error::Error),
    /// Every host on the network could use the server, or read along.
    #[error(
        "listen: {address} can be reached from other machines: {missing}, or use an address of the loopback interface (127.0.0.1)"
    )]
    Exposed {
        /// Address on which the gateway was to listen, as the option named it.
        address: SocketAddr,
        /// Options that have to be given as well, with their names on the command line.
        missing: &'static str,
    },
    /// The file of users cannot be read, or something in it is wrong.
    #[error(transparent)]
    Users(#[from] UsersError),
    /// A file with a certificate or a key cannot be read, or does not fit the other.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The gateway cannot listen on the address for drivers: it is taken, or not one of this
    /// machine.
    #[error("listen: cannot listen on {address}: {source}")]
    Listen {
        /// Address on which the gateway was to listen, as the option named it.
        address: SocketAddr,
        /// Error of the operating system, such as an address that is in use already.
        source: std::io::Error,
    },
    /// The replica set that drivers are to see cannot be shown.
    #[error("replica set: {reason}")]
    ReplicaSet {
        /// Reason why its name or address cannot be used.
        reason: String,
    },
    /// The gateway cannot listen on the address for metrics: it is taken, or not one of this
    /// machine.
    #[error("metrics: cannot listen on {address}: {source}")]
    Metrics {
        /// Address on which the gateway was to listen, as the option named it.
        address: SocketAddr,
        /// Error of the operating system, such as an address that is in use already.
        source: std::io::Error,
    },
    /// Every host on the network could see the operations of users, and end them.
    #[error(
        "web: {address} can be reached from other machines: {missing}, or use an address of the loopback interface (127.0.0.1)"
    )]
    ExposedPage {
        /// Address on which the gateway was to listen, as the option named it.
        address: SocketAddr,
        /// Options that have to be given as well, with their names on the command line.
        missing: &'static str,
    },
    /// The gateway cannot listen on the address for the operators' page: it is taken, or not one of
    /// this machine.
    #[error("web: cannot listen on {address}: {source}")]
    Web {
        /// Address on which the gateway was to listen, as the option named it.
        address: SocketAddr,
        /// Error of the operating system, such as an address that is in use already.
        source: std::io::Error,
    },
    /// The gateway cannot make the Unix socket: another program may use it, or its folder does not
    /// exist.
    #[error("unix: cannot listen on {}: {source}", path.display())]
    Unix {
        /// Path of the socket to listen on.
        path: PathBuf,
        /// Error of the operating system, such as an address that is in use already.
        source: std::io::Error,
    },
}

impl StartError {
    /// Returns true if the only failure known so far is that the backing server could not be
    /// reached.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mongotx_gateway::{Gateway, GatewayOptions};
    ///
    /// let uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300".to_owned(); // no server listens there
    /// let refused = Gateway::start(GatewayOptions { uri, ..GatewayOptions::default() }).await.err();
    /// assert!(refused.expect("there is no server").is_unreachable()); // it may come up: try again
    /// # Ok(()) }
    /// ```
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Client(error) if error.kind() == mongotx::ErrorKind::Unavailable)
    }
}

impl Gateway {
    /// Starts a gateway: connects to the server, then listens.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = local_mongod::ServerOptions::standalone().in_memory().start().await?;
    /// # let uri = server.uri();
    /// use mongotx_gateway::{Gateway, GatewayOptions};
    ///
    /// let options = GatewayOptions { uri, listen: Some("127.0.0.1:0".parse()?), ..GatewayOptions::default() };
    /// let gateway = Gateway::start(options).await?;
    /// println!("connect to mongodb://{}", gateway.address().expect("it listens"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(options: GatewayOptions) -> Result<Self, StartError> {
        check_exposure(&options)?;
        check_page_exposure(&options)?;
        options.replica_set.as_ref().map_or(Ok(()), check_face)?;
        let users = options.users.as_deref().map(Users::read).transpose()?;
        let tls = options.tls.as_ref().map(acceptor).transpose()?;
        let clock = Clock::default();
        let own = mongotx::ClientOptions { clock: Some(clock.shared()), ..options.client.clone() };
        let client = mongotx::Client::connect_with(&options.uri, own).await?;
        // A level that this deployment cannot have is refused now, and not to each client.
        client.session().begin()?;
        let upstream = Upstream::new(&options.uri, &options.limits).await?;
        let listeners = listen(&options).await?;
        let endpoint = listen_for_metrics(&options).await?;
        let web = listen_for_page(&options).await?;
        let address = listeners.iter().find_map(Listener::address);
        // The options with the port that was taken.
        let options = GatewayOptions { listen: address, ..options };
        let context = Arc::new(Context::new(client, upstream, users, clock, options));
        context.sweep_in_background();
        context.watch_members().await;
        let server = Arc::new(Server::new(context, tls));
        let metrics_address = endpoint.as_ref().and_then(Endpoint::address);
        if let Some(endpoint) = endpoint {
            tokio::spawn(endpoint.serve(Arc::clone(&server.context), server.closing.clone()));
        }
        let web_address = web.as_ref().map(Web::address);
        if let Some(web) = web {
            tokio::spawn(web.serve(Arc::clone(&server)));
        }
        for listener in listeners {
            server.tasks.spawn(listener.serve(Arc::clone(&server)));
        }
        Ok(Self { server, address, metrics_address, web_address })
    }

    /// Reads the files of users and of certificates again. For each user who was removed, or whose
    /// password or roles have changed, the open connections, transactions and cursors end.
    /// Connections with other certificates go on. An error changes nothing.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = local_mongod::ServerOptions::standalone().in_memory().start().await?;
    /// # let uri = server.uri();
    /// use mongotx_gateway::{Gateway, GatewayOptions, UserName, Users};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let file = folder.path().join("users.json");
    /// let ann = UserName { database: "admin".to_owned(), name: "ann".to_owned() };
    /// Users::change(&file, |users| users.add(ann.clone(), "secret", vec!["readWrite:bank".parse()?]))?;
    /// let options = GatewayOptions { uri, users: Some(file.clone()), ..GatewayOptions::default() };
    /// let gateway = Gateway::start(options).await?;
    ///
    /// Users::change(&file, |users| users.set_password(&ann, "another secret"))?;
    /// assert_eq!(gateway.reload().await?.users_changed, 1); // who had logged in as ann has to do so again
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StartError::Users`], [`StartError::Tls`].
    pub async fn reload(&self) -> Result<Reloaded, StartError> {
        let options = &self.server.context.options;
        let users = options.users.as_deref().map(Users::read).transpose()?;
        let tls = options.tls.as_ref().map(acceptor).transpose()?;
        Ok(self.server.reload(tls, users).await)
    }

    /// Sets new limits and waits, for connections and commands that come later. A client that has
    /// more than a limit allows keeps it until it ends by itself. The number of connections to the
    /// server, and the wait for one, stay as they were.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = local_mongod::Server::standalone().await?;
    /// # let uri = server.uri();
    /// use std::time::Duration;
    ///
    /// use mongotx_gateway::{Gateway, GatewayOptions};
    ///
    /// let options = GatewayOptions { uri, ..GatewayOptions::default() };
    /// let mut tuning = options.tuning();
    /// let gateway = Gateway::start(options).await?;
    /// tuning.slow = Some(Duration::from_millis(100)); // log commands that take longer, from now on
    /// gateway.tune(tuning);
    /// # Ok(()) }
    /// ```
    pub fn tune(&self, tuning: Tuning) {
        self.server.tune(tuning);
    }

    /// Address on which the gateway listens for TCP connections, with the port that was taken.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # local_mongod::example_gateway!(gateway);
    /// let address = gateway.address().expect("GatewayOptions::listen was set");
    /// let driver = mongodb::Client::with_uri_str(format!("mongodb://{address}")).await?;
    /// driver.database("admin").run_command(bson::doc! {"ping": 1}).await?;
    /// # Ok(()) }
    /// ```
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Address on which the gateway serves metrics, with the port that was taken.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = local_mongod::ServerOptions::standalone().in_memory().start().await?;
    /// # let uri = server.uri();
    /// use mongotx_gateway::{Gateway, GatewayOptions};
    ///
    /// let options = GatewayOptions { uri, metrics: Some("127.0.0.1:0".parse()?), ..GatewayOptions::default() };
    /// let gateway = Gateway::start(options).await?;
    /// let address = gateway.metrics_address().expect("GatewayOptions::metrics was set");
    /// println!("Prometheus finds metrics at http://{address}/metrics");
    /// # Ok(()) }
    /// ```
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Address on which the gateway serves the page for operators, with the port that was taken.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = local_mongod::ServerOptions::standalone().in_memory().start().await?;
    /// # let uri = server.uri();
    /// use mongotx_gateway::{Gateway, GatewayOptions};
    ///
    /// let options = GatewayOptions { uri, web: Some("127.0.0.1:0".parse()?), ..GatewayOptions::default() };
    /// let gateway = Gateway::start(options).await?;
    /// let address = gateway.web_address().expect("GatewayOptions::web was set");
    /// println!("open http://{address}/ in a browser");
    /// # Ok(()) }
    /// ```
    pub fn web_address(&self) -> Option<SocketAddr> {
        self.web_address
    }

    /// Ends the gateway. Commands that run are waited for, at most for `limit`; then connections
    /// end as they are. What is decided is finished, within the library's own limit.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # local_mongod::example_gateway!(gateway);
    /// // The program is to end: clients have ten seconds for commands that run.
    /// gateway.shutdown(std::time::Duration::from_secs(10)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The library could not finish everything; other clients will.
    pub async fn shutdown(self, limit: Duration) -> mongotx::Result<()> {
        self.server.tasks.close();
        self.server.closing.cancel();
        let answering = async {
            if tokio::time::timeout(limit, self.server.tasks.wait()).await.is_err() {
                tracing::warn!("commands still run after {limit:?}; their connections are closed");
                self.server.ending.cancel();
                self.server.tasks.wait().await;
            }
        };
        tokio::join!(self.server.context.leave_set(), answering);
        // Clients can no longer end their transactions.
        self.server.context.tx.kill_all_sessions(AbortReason::Shutdown).await;
        self.server.context.forget_activity().await;
        self.server.context.client.shutdown().await
    }

    /// Counters of the library, among them the commands that it sent to the server. (Commands that
    /// are passed on are not counted.)
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # local_mongod::example_gateway!(gateway);
    /// let metrics = gateway.metrics();
    /// println!("{} transactions committed, {} rolled back", metrics.commits, metrics.rollbacks);
    /// # Ok(()) }
    /// ```
    pub fn metrics(&self) -> mongotx::Metrics {
        self.server.context.client.metrics()
    }

    /// Waits until everything decided so far is finished. False when that takes longer than
    /// `limit`.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # local_mongod::example_gateway!(gateway);
    /// use std::time::Duration;
    ///
    /// // A program that reads the documents without MongoTx is to see what clients have committed.
    /// assert!(gateway.flush(Duration::from_secs(60)).await);
    /// # Ok(()) }
    /// ```
    pub async fn flush(&self, limit: Duration) -> bool {
        self.server.context.client.flush(limit).await
    }

    /// A connection of this process itself, for tests of commands.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # local_mongod::example_gateway!(gateway);
    /// use bson::doc;
    /// use mongotx_gateway::Request;
    ///
    /// let connection = gateway.connect();
    /// let ping = Request::of(&doc! {"ping": 1, "$db": "admin"})?;
    /// assert!(gateway.run_command(&connection, &ping).await.is_ok());
    /// # Ok(()) }
    /// ```
    pub fn connect(&self) -> Connection {
        self.server.connection(Peer::Unix)
    }

    /// Carries out a command without the network in between.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = local_mongod::Server::standalone().await?;
    /// # let uri = server.uri();
    /// use bson::doc;
    /// use mongotx_gateway::{Gateway, GatewayOptions, Request};
    ///
    /// let gateway = Gateway::start(GatewayOptions { uri, ..GatewayOptions::default() }).await?;
    /// let connection = gateway.connect();
    /// let count = Request::of(&doc! {"count": "accounts", "$db": "bank"})?;
    /// let reply = gateway.run_command(&connection, &count).await;
    /// assert!(reply.is_ok() && reply.body().get_i32("n")? == 0);
    ///
    /// let unknown = Request::of(&doc! {"shutDownAll": 1, "$db": "admin"})?;
    /// assert!(!gateway.run_command(&connection, &unknown).await.is_ok());
    /// gateway.disconnect(&connection).await;
    /// # Ok(()) }
    /// ```
    pub async fn run_command(&self, connection: &Connection, request: &Request) -> Reply {
        dispatch::answer_request(&self.server.context, connection, &Arc::new(request.clone())).await
    }

    /// Marks a connection as ended. Those of its commands that only read end, too.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # local_mongod::example_gateway!(gateway);
    /// let connection = gateway.connect();
    /// gateway.disconnect(&connection).await;
    /// assert!(connection.is_gone());
    /// # Ok(()) }
    /// ```
    pub async fn disconnect(&self, connection: &Connection) {
        connection.set_gone();
        crate::command::connection_closed(&self.server.context, connection).await;
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.server.closing.cancel();
        self.server.ending.cancel();
    }
}

/// Checks that connections from other machines need a password, and TLS that protects it on the
/// way.
fn check_exposure(options: &GatewayOptions) -> Result<(), StartError> {
    let Some(address) = options.listen.filter(|address| !address.ip().is_loopback()) else { return Ok(()) };
    let missing = match (&options.users, &options.tls, options.allow_plaintext) {
        (None, ..) => "name the users who may log in (--users)",
        (Some(_), None, false) => {
            "encrypt the connections (--tls-certificate), or say that they need not be (--allow-plaintext)"
        }
        _ => return Ok(()),
    };
    Err(StartError::Exposed { address, missing })
}

/// Checks that other machines can see the page only with TLS and a password.
fn check_page_exposure(options: &GatewayOptions) -> Result<(), StartError> {
    let Some(address) = options.web.filter(|address| !address.ip().is_loopback()) else { return Ok(()) };
    let missing = match (&options.users, &options.tls) {
        (None, _) => "name the users who may log in (--users)",
        (Some(_), None) => "encrypt the connections (--tls-certificate)",
        (Some(_), Some(_)) => return Ok(()),
    };
    Err(StartError::ExposedPage { address, missing })
}

/// Checks that a connection string can hold the name, and that a driver can connect to the address.
fn check_face(face: &ReplicaSetFace) -> Result<(), StartError> {
    let refused = |reason: String| Err(StartError::ReplicaSet { reason });
    let name = &face.name;
    if name.is_empty() || name.len() > MOST_NAME_BYTES || name.contains(|c: char| c.is_control() || c == '/') {
        return refused(format!(
            "the name {name:?} has to have 1 to {MOST_NAME_BYTES} bytes, and neither / nor control characters"
        ));
    }
    let Some(advertised) = &face.advertise else { return Ok(()) };
    match ServerAddress::parse(advertised) {
        Ok(ServerAddress::Tcp { port: Some(_), .. }) => Ok(()),
        Ok(_) => refused(format!("the advertised address {advertised:?} has to be HOST:PORT")),
        Err(error) => refused(format!("the advertised address {advertised:?} is none: {error}")),
    }
}

async fn listen_for_metrics(options: &GatewayOptions) -> Result<Option<Endpoint>, StartError> {
    let Some(address) = options.metrics else { return Ok(None) };
    Endpoint::listen(address).await.map(Some).map_err(|source| StartError::Metrics { address, source })
}

async fn listen_for_page(options: &GatewayOptions) -> Result<Option<Web>, StartError> {
    let Some(address) = options.web else { return Ok(None) };
    Web::listen(address).await.map(Some).map_err(|source| StartError::Web { address, source })
}

async fn listen(options: &GatewayOptions) -> Result<Vec<Listener>, StartError> {
    let mut listeners = Vec::new();
    if let Some(address) = options.listen {
        let listener = Listener::tcp(address).await;
        listeners.push(listener.map_err(|source| StartError::Listen { address, source })?);
    }
    if let Some(path) = &options.unix {
        let listener = Listener::unix(path);
        listeners.push(listener.map_err(|source| StartError::Unix { path: path.clone(), source })?);
    }
    Ok(listeners)
}
