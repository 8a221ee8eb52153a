//! `mongotx serve`: a gateway for drivers of every language, until a signal ends it.
//!
//! 1. The server: the one of `--uri`, or a local one that `--start-server` starts when no server
//!    answers there.
//! 2. The gateway listens, and prints its address.
//! 3. SIGHUP: users, certificates and the configuration file are read again; limits, waits and the
//!    log level change with it.
//! 4. Another signal, or the end of standard input with `--end-with-stdin`: commands that run are
//!    answered, then everything that was started goes. A second signal waits for nothing.

pub(crate) mod config;
mod hoarding;
mod logs;

use std::{
    net::SocketAddr,
    num::NonZeroUsize,
    path::PathBuf,
    pin::pin,
    time::{Duration, Instant},
};

use clap::{Args, CommandFactory, Parser, ValueEnum};
use local_mongod::Server;
use mongotx::{ChangeStreams, ClientOptions, Isolation};
use mongotx_gateway::{Gateway, GatewayOptions, Limits, ReplicaSetFace, RetryableWrites, StartError, Tls};
use tokio::io::AsyncReadExt;

use self::{
    hoarding::HoardingOptions,
    logs::{Log, LogOptions},
};
use crate::{
    Cli, Command,
    connect::{ServerOptions, with_selection_limit},
    failure::{Failure, Status, WELL},
    interrupt::Interrupts,
    open_files, program, say,
};

/// Time between two attempts to reach a server that is not up yet.
const BETWEEN: Duration = Duration::from_secs(1);

/// Options of the command `mongotx serve`.
#[derive(Args, Clone)]
pub(crate) struct ServeOptions {
    /// File (TOML) with any of these options as keys, by their long names; the command line wins
    #[arg(long, value_name = "FILE")]
    #[allow(dead_code, reason = "read before the others: see config.rs")]
    config: Option<PathBuf>,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    log: LogOptions,
    /// Address for metrics (/metrics, for Prometheus) and the gateway's health (/healthz); port 0
    /// takes a free one
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Address of a page for operators: what is in flight, which transaction waits for which, dead
    /// clients, rates; port 0 takes a free one. If there are users, those with the role root or
    /// clusterMonitor see it. Addresses that other machines can reach need --users and
    /// --tls-certificate
    #[arg(long, value_name = "ADDRESS")]
    web: Option<SocketAddr>,
    /// Names by which browsers call the page's host, separated by commas, besides addresses and
    /// localhost
    #[arg(long, value_name = "NAMES", requires = "web")]
    web_names: Option<String>,
    /// Memory for requests and answers at a time, of all clients together
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    max_memory_mib: u32,
    /// Address to listen on; port 0 takes a free one. Addresses that other machines can reach need
    /// --users, and --tls-certificate or --allow-plaintext
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:27117")]
    listen: SocketAddr,
    /// A Unix socket to listen on as well
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// File of the users who may log in, as `mongotx user` writes it. Without it clients need not
    /// log in, and may do everything
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Lets clients on other machines connect without TLS: others on the network can read what they
    /// send
    #[arg(long, requires = "users")]
    allow_plaintext: bool,
    /// TLS for TCP connections: the gateway's certificate and those above it (PEM)
    #[arg(long, value_name = "FILE")]
    tls_certificate: Option<PathBuf>,
    /// The certificate's private key (PEM). Default: it is in the file of --tls-certificate
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Certificates (PEM) by one of which a client's own certificate has to be signed. Default:
    /// clients need none
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_client_ca: Option<PathBuf>,
    /// Starts a standalone mongod when no server answers at --uri. Its data is removed with it
    #[arg(long)]
    start_server: bool,
    /// How long to wait for a server that is not up yet, with a try every second, before the
    /// gateway ends or --start-server starts a server; 0: not at all
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    wait_for_server: u32,
    /// Client connections at the same time
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,
    /// Threads that serve clients. Default: half of the machine's cores, at least one; the others
    /// are for the server and its clients. A gateway alone on its machine can use all of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
    /// Time of silence after which a connection is closed; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    idle_timeout: u32,
    #[command(flatten)]
    hoarding: HoardingOptions,
    /// Isolation level of transactions that name no read concern, local or majority; snapshot and
    /// linearizable (serializable) are never less than they say
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t)]
    isolation: Level,
    /// How long a write in a transaction waits for another transaction that holds its document
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=60_000))]
    lock_wait_ms: u32,
    /// Sends queries without a probe for pending documents, as long as this gateway is the only
    /// client of its server. That rests on the clocks of its machine
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    read_lease: bool,
    /// Where the results of retryable writes are remembered, so that each is carried out once: in
    /// memory, as long as this gateway lives, or in the server, where every gateway finds them
    #[arg(long, value_enum, value_name = "WHERE", default_value_t)]
    retryable_writes: Remembered,
    /// Collections that are watched by change streams: those with changeStreamPreAndPostImages, or
    /// all. Every gateway of a store needs the same value
    #[arg(long, value_enum, value_name = "WHICH", default_value_t)]
    change_streams: Watched,
    /// How many changes are kept for change streams, of all collections together
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    max_change_events: u64,
    /// Shows itself as a replica set of this name, not as a router: for applications with
    /// replicaSet=NAME in their connection string. It is the only member, or one of those that
    /// --advertise an address under the same name, in front of the same server
    #[arg(long, value_name = "NAME")]
    as_replica_set: Option<String>,
    /// Address of this member of the set for drivers and for other gateways: needed for several
    /// gateways in one set, and where drivers cannot reach the address of the gateway that they
    /// have connected to (a name that TLS demands, a port that is forwarded)
    #[arg(long, value_name = "HOST:PORT", requires = "as_replica_set")]
    advertise: Option<String>,
    /// Lets clients make commands fail (configureFailPoint): for the test suites of drivers only
    #[cfg(feature = "testing")]
    #[arg(long, hide = true)]
    enable_test_commands: bool,
    /// How long the gateway waits at its end for commands that run
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    shutdown_timeout: u32,
    /// Ends when standard input is closed: for programs that start a gateway and must not leave it
    /// behind, however they end
    #[arg(long)]
    end_with_stdin: bool,
}

/// The isolation level of transactions that name none, as `--isolation` takes it.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Level {
    ReadCommitted,
    #[default]
    Snapshot,
    Serializable,
}

impl From<Level> for Isolation {
    fn from(level: Level) -> Self {
        match level {
            Level::ReadCommitted => Self::ReadCommitted,
            Level::Snapshot => Self::Snapshot,
            Level::Serializable => Self::Serializable,
        }
    }
}

/// The watched collections, as `--change-streams` names them.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Watched {
    #[default]
    SwitchedOn,
    All,
}

impl From<Watched> for ChangeStreams {
    fn from(watched: Watched) -> Self {
        match watched {
            Watched::SwitchedOn => Self::SwitchedOn,
            Watched::All => Self::All,
        }
    }
}

/// Place where results of retryable writes are remembered.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Remembered {
    #[default]
    Memory,
    Durable,
}

impl From<Remembered> for RetryableWrites {
    fn from(remembered: Remembered) -> Self {
        match remembered {
            Remembered::Memory => Self::Memory,
            Remembered::Durable => Self::Durable,
        }
    }
}

/// Runs the command `mongotx serve`.
pub(crate) async fn run_serve(options: ServeOptions) -> Result<Status, Failure> {
    let (mut interrupts, mut hang_up) = Interrupts::catch_but_hang_up()?;
    let log = logs::start(&options.log)?;
    open_files::allow_most();
    let mut input_closed = pin!(input_closed(options.end_with_stdin));
    let (server, gateway) = tokio::select! {
        started = start(&options) => started?,
        () = &mut input_closed => return Ok(WELL),
        interrupted = interrupts.next() => return Err(interrupted),
    };
    tell(&options, &gateway);
    loop {
        tokio::select! {
            _ = interrupts.next() => break,
            () = &mut input_closed => break,
            _ = hang_up.recv() => reload(&gateway, &log, &options).await,
        }
    }
    say::warn("ending: commands that run are answered first; a second signal ends at once");
    let limit = Duration::from_secs(options.shutdown_timeout.into());
    let ended = tokio::select! {
        ended = gateway.shutdown(limit) => ended,
        interrupted = interrupts.next() => return Err(interrupted),
    };
    drop(server);
    ended?;
    Ok(WELL)
}

/// Waits until the other end of standard input is closed, if that option is set. Bytes that come
/// are dropped.
async fn input_closed(is_asked: bool) {
    if !is_asked {
        return std::future::pending().await;
    }
    let mut input = tokio::io::stdin();
    let mut dropped = [0; 512];
    while let Ok(1..) = input.read(&mut dropped).await {}
}

/// Reads users, certificates and the configuration file again.
async fn reload(gateway: &Gateway, log: &Log, started_with: &ServeOptions) {
    match reload_all(gateway, log, started_with).await {
        Ok(changes) => say::warn(&changes),
        Err(failure) => say::warn(&format!("nothing was read again: {}", say::plain(&failure.to_string()))),
    }
}

/// Reads all of it again, or changes nothing. Returns the changes.
async fn reload_all(gateway: &Gateway, log: &Log, started_with: &ServeOptions) -> Result<String, Failure> {
    let options = read_again()?;
    let reloaded = gateway.reload().await.map_err(|error| Failure::new(error.to_string()))?;
    gateway.tune(gateway_options(&options, &options.server.uri).tuning());
    log.tune(&options.log)?;
    let mut changes = format!(
        "read users, certificates and the configuration again; ended what {} had open",
        say::count(reloaded.users_changed, "changed or removed user")
    );
    let before = started_with.fixed();
    let fixed = options.fixed();
    let changed = fixed.iter().filter(|option| !before.contains(option)).map(|(name, _)| *name);
    let changed: Vec<&str> = changed.collect();
    if !changed.is_empty() {
        changes.push_str(&format!("; when the gateway is started again, these change, too: {}", changed.join(", ")));
    }
    Ok(changes)
}

/// The options, with the present content of the configuration file.
fn read_again() -> Result<ServeOptions, Failure> {
    let args = config::with_file(&Cli::command(), std::env::args_os().collect())?;
    match Cli::try_parse_from(args).map(|cli| cli.command) {
        Ok(Command::Serve(options)) => Ok(*options),
        Ok(_) => Err(Failure::new("this is no gateway")),
        Err(error) => Err(Failure::new(error.to_string())),
    }
}

impl ServeOptions {
    /// Threads that serve clients.
    pub(crate) fn threads(&self) -> NonZeroUsize {
        self.threads.and_then(|threads| NonZeroUsize::new(threads.into())).unwrap_or_else(program::half_of_the_cores)
    }

    /// Options that a running gateway cannot change.
    fn fixed(&self) -> Vec<(&'static str, String)> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let mut fixed = vec![
            ("uri", self.server.uri.clone()),
            ("tx-database", self.server.tx_database.clone()),
            ("listen", self.listen.to_string()),
            ("unix", path(&self.unix)),
            ("users", path(&self.users)),
            ("threads", self.threads().to_string()),
            ("allow-plaintext", self.allow_plaintext.to_string()),
            ("tls-certificate", path(&self.tls_certificate)),
            ("tls-key", path(&self.tls_key)),
            ("tls-client-ca", path(&self.tls_client_ca)),
            ("metrics", format!("{:?}", self.metrics)),
            ("web", format!("{:?}", self.web)),
            ("web-names", format!("{:?}", self.web_names)),
            ("isolation", format!("{:?}", self.isolation)),
            ("read-lease", self.read_lease.to_string()),
            ("retryable-writes", format!("{:?}", self.retryable_writes)),
            ("change-streams", format!("{:?}", self.change_streams)),
            ("max-change-events", self.max_change_events.to_string()),
            ("as-replica-set", format!("{:?}", self.as_replica_set)),
            ("advertise", format!("{:?}", self.advertise)),
            ("shutdown-timeout", self.shutdown_timeout.to_string()),
            ("end-with-stdin", self.end_with_stdin.to_string()),
            self.log.fixed(),
        ];
        fixed.extend(self.hoarding.fixed());
        #[cfg(feature = "testing")]
        fixed.push(("enable-test-commands", self.enable_test_commands.to_string()));
        fixed
    }
}

/// Starts server and gateway: steps 1 and 2.
async fn start(options: &ServeOptions) -> Result<(Option<Server>, Gateway), Failure> {
    let error = match start_in_time(options).await {
        Ok(gateway) => return Ok((None, gateway)),
        Err(error) if !error.is_unreachable() => return Err(Failure::new(error.to_string())),
        Err(error) => error,
    };
    if !options.start_server {
        return Err(Failure::new(format!(
            "no server answers at --uri {}: start one, name another, wait for it (--wait-for-server), or let --start-server start a \
             local one that is gone afterwards\n({error})",
            say::plain(&without_password(&options.server.uri)),
        )));
    }
    say::warn("no server answers at --uri; looking for mongod (it is fetched into the user's cache if there is none)");
    let server = Server::standalone().await?;
    say::warn(&format!("started mongod on port {}; its data goes with it", server.port()));
    let gateway = Gateway::start(gateway_options(options, &server.uri())).await;
    Ok((Some(server), gateway.map_err(|error| Failure::new(error.to_string()))?))
}

/// A gateway in front of the server of `--uri`, which may take its time to come up.
async fn start_in_time(options: &ServeOptions) -> Result<Gateway, StartError> {
    let deadline = Instant::now() + Duration::from_secs(options.wait_for_server.into());
    let mut is_announced = false;
    loop {
        match Gateway::start(gateway_options(options, &options.server.uri)).await {
            Err(error) if error.is_unreachable() && Instant::now() < deadline => {
                if !std::mem::replace(&mut is_announced, true) {
                    say::warn(&format!("waiting for the server, for at most {} s\n({error})", options.wait_for_server));
                }
                tokio::time::sleep(BETWEEN).await;
            }
            started => return started,
        }
    }
}

#[allow(clippy::needless_update, reason = "with its feature `testing` the gateway has an option more")]
fn gateway_options(options: &ServeOptions, uri: &str) -> GatewayOptions {
    let limits = Limits {
        connections: usize::try_from(options.max_connections).unwrap_or(usize::MAX),
        memory_bytes: usize::try_from(u64::from(options.max_memory_mib) << 20).unwrap_or(usize::MAX),
        idle: (options.idle_timeout > 0).then(|| Duration::from_secs(options.idle_timeout.into())),
        ..options.hoarding.limits(Limits::default())
    };
    GatewayOptions {
        sessions: options.hoarding.sessions(),
        uri: with_selection_limit(uri),
        listen: Some(options.listen),
        unix: options.unix.clone(),
        tls: options.tls_certificate.clone().map(|certificate| Tls {
            certificate,
            key: options.tls_key.clone(),
            client_ca: options.tls_client_ca.clone(),
        }),
        users: options.users.clone(),
        metrics: options.metrics,
        web: options.web,
        web_names: names(options.web_names.as_deref()),
        slow: Some(Duration::from_millis(options.log.slow_ms.into())),
        allow_plaintext: options.allow_plaintext,
        limits,
        client: ClientOptions {
            isolation: options.isolation.into(),
            tx_database: options.server.tx_database.clone(),
            max_documents: options.hoarding.transaction_documents(),
            application: Some(application(options.listen)),
            count_commands: false,
            read_lease: options.read_lease,
            change_streams: options.change_streams.into(),
            change_events: options.max_change_events,
            ..ClientOptions::default()
        },
        lock_wait: Duration::from_millis(options.lock_wait_ms.into()),
        retryable_writes: options.retryable_writes.into(),
        replica_set: options
            .as_replica_set
            .clone()
            .map(|name| ReplicaSetFace { name, advertise: options.advertise.clone() }),
        #[cfg(feature = "testing")]
        test_commands: options.enable_test_commands,
        ..GatewayOptions::default()
    }
}

fn tell(options: &ServeOptions, gateway: &Gateway) {
    if let Some(address) = gateway.address() {
        let tls = options.tls_certificate.is_some().then(|| "tls=true".to_owned());
        let set = options.as_replica_set.as_ref().map(|name| format!("replicaSet={}", say::plain(name)));
        let wanted: Vec<String> = tls.into_iter().chain(set).collect();
        let wanted = if wanted.is_empty() { String::new() } else { format!("/?{}", wanted.join("&")) };
        say::line(&format!("listening on mongodb://{address}{wanted}"));
    }
    if let Some(address) = gateway.metrics_address() {
        say::line(&format!("metrics at http://{address}/metrics"));
    }
    if let Some(address) = gateway.web_address() {
        let scheme = if options.tls_certificate.is_some() { "https" } else { "http" };
        say::line(&format!("page at {scheme}://{address}/"));
    }
    if let Some(path) = &options.unix {
        say::line(&format!("listening on {}", say::plain(&path.display().to_string())));
    }
}

/// Name of the gateway in its client record. A port that is still to be taken is left out.
fn application(listen: SocketAddr) -> String {
    if listen.port() == 0 { "mongotx serve".to_owned() } else { format!("mongotx serve, {listen}") }
}

/// Names that were separated by commas.
fn names(listed: Option<&str>) -> Vec<String> {
    listed.into_iter().flat_map(|listed| listed.split(',')).map(|name| name.trim().to_owned()).collect()
}

/// The connection string as it can be shown.
fn without_password(uri: &str) -> String {
    match uri.split_once("://").map(|(scheme, rest)| (scheme, rest.rsplit_once('@'))) {
        Some((scheme, Some((_, rest)))) => format!("{scheme}://…@{rest}"),
        _ => uri.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("mongodb://user:p@ss@host:1/db"), "mongodb://…@host:1/db");
        assert_eq!(without_password("mongodb://host"), "mongodb://host");
        assert_eq!(without_password("nonsense"), "nonsense");
    }
}
