//! Connecting to a deployment: the driver and the lean connections, what the server has to be, and
//! the parts of a client that run in the background.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use bson::{Document, doc};
use mongodb::{
    event::{EventHandler, cmap::CmapEvent, command::CommandEvent, sdam::SdamEvent},
    options::ClientOptions as DriverOptions,
};

use crate::{
    coordinator::{
        Core,
        assemble::assemble,
        catalog::Shards,
        decisions::{
            client_record::{ClientRecordLog, Shared},
            published::{self, PublishedLog},
        },
        lifecycle::idle_limit::reap_in_background,
        log::{records::Records, txlog::TxLog},
        queries::read_lease::ReadLease,
        server::{
            Server,
            failures::from_driver,
            lean::{Lean, Purpose},
            plain::Plain,
        },
        stamps::own_changes::OwnChanges,
        stored::nodes::Nodes,
    },
    error::{Error, Result},
    metrics::Counters,
    options::ClientOptions,
    process_info::ProcessInfo,
};

/// Connects to the deployment of this connection string: see [`super::Client::connect_with`].
pub(super) async fn connect(uri: &str, options: ClientOptions) -> Result<Arc<Core>> {
    options.check()?;
    let connections = Arc::new(AtomicU64::new(0));
    let deployment = Deployment::find(uri, &options, &connections).await?;
    let shards = Shards::new(&options.shard_keys, is_router(&deployment.hello))?;
    let lean = deployment.lean(&Purpose::Data, &connections);
    let server = Arc::new(deployment.server(deployment.driver.clone(), lean, connections));
    let read_lease: Arc<ReadLease> = Arc::default();
    let log = deployment.log(&server, &read_lease)?;
    let core = assemble(server, log, read_lease, shards, options);
    reap_in_background(&core);
    tokio::spawn(Server::end_quiet_notices(Arc::downgrade(&core.server)));
    if core.options.sweep {
        sweep_in_background(&core);
    }
    Ok(core)
}

/// The deployment, with everything that all of one client's connections to it share.
struct Deployment<'a> {
    options: &'a ClientOptions,
    driver_options: DriverOptions,
    driver: mongodb::Client,
    /// The server's answer to `hello`.
    hello: Document,
    nodes: Arc<Nodes>,
    counters: Arc<Counters>,
    plain: Arc<Plain>,
}

impl<'a> Deployment<'a> {
    /// `connections`: counts those of the driver that are begun.
    async fn find(uri: &str, options: &'a ClientOptions, connections: &Arc<AtomicU64>) -> Result<Self> {
        let (counters, nodes) = (Arc::new(Counters::default()), Arc::new(Nodes::default()));
        let counting = options.count_commands.then_some(&counters);
        let driver_options = options_for(uri, counting, &nodes).await?;
        let driver = driver(driver_options.clone(), connections)?;
        let hello = examine(&driver, &nodes).await?;
        let own = Arc::new(OwnChanges::new(Arc::clone(&nodes)));
        let plain = Arc::new(Plain::new(own, &options.tx_database, !options.is_published()));
        Ok(Self { options, driver_options, driver, hello, nodes, counters, plain })
    }

    /// A pool of lean connections, where there can be one. `begun`: rises with each of them.
    fn lean(&self, purpose: &Purpose, begun: &Arc<AtomicU64>) -> Option<Lean> {
        let lean = Lean::new(&self.driver_options, &self.hello, &self.driver, &self.nodes, purpose, begun)?;
        Some(lean.counted(self.options.count_commands.then_some(&self.counters)))
    }

    fn server(&self, driver: mongodb::Client, lean: Option<Lean>, begun: Arc<AtomicU64>) -> Server {
        let (counters, hook) = (Arc::clone(&self.counters), self.options.hook());
        Server::new(driver, lean, counters, hook, begun, Arc::clone(&self.nodes), Arc::clone(&self.plain))
    }

    /// One connection for record writes, and a counter that changes whenever it has to be made
    /// anew.
    fn lane(&self) -> Result<(Server, Arc<AtomicU64>)> {
        let epoch = Arc::new(AtomicU64::new(0));
        self.nodes.ends(&epoch);
        let recorder = driver_for_records(self.driver_options.clone(), &epoch)?;
        Ok((self.server(recorder, self.lean(&Purpose::Records, &epoch), Arc::clone(&epoch)), epoch))
    }

    /// The log, in the layout of the options.
    fn log(&self, server: &Arc<Server>, read_lease: &Arc<ReadLease>) -> Result<Arc<dyn TxLog>> {
        let (server, options) = (Arc::clone(server), self.options);
        if options.is_published() {
            let lanes = (0..published::LANES).map(|_| self.lane()).collect::<Result<_>>()?;
            return Ok(Arc::new(PublishedLog::new(server, lanes, &options.tx_database)));
        }
        let (recorder, epoch) = self.lane()?;
        let application = options.application.clone().or_else(|| self.driver_options.app_name.clone());
        let records = Records::new(&options.tx_database).of(ProcessInfo::this(application));
        let read_lease = Arc::clone(read_lease);
        let shared = Shared::new(server, recorder, epoch, records, options.commit_timeout, read_lease);
        Ok(Arc::new(ClientRecordLog::new(shared)))
    }
}

/// Options of the driver, with its own retries of writes off: a write is sent once. `counters`
/// count its commands. `nodes` gets every answer to the driver's own `hello`, which the driver
/// sends every few seconds and when the set changes.
async fn options_for(uri: &str, counters: Option<&Arc<Counters>>, nodes: &Arc<Nodes>) -> Result<DriverOptions> {
    let mut options = DriverOptions::parse(uri).await.map_err(from_driver)?;
    options.retry_writes = Some(false);
    options.app_name.get_or_insert_with(|| "mongotx".to_owned());
    if let Some(counters) = counters.cloned() {
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if let CommandEvent::Started(started) = event {
                counters.count_command(&started.command_name);
            }
        }));
    }
    let nodes = Arc::clone(nodes);
    options.sdam_event_handler = Some(EventHandler::callback(move |event| {
        if let SdamEvent::ServerHeartbeatSucceeded(heartbeat) = event {
            nodes.note_heartbeat(&heartbeat.reply);
        }
    }));
    Ok(options)
}

/// `connections`: counts those that are begun.
fn driver(mut options: DriverOptions, connections: &Arc<AtomicU64>) -> Result<mongodb::Client> {
    count_connections(&mut options, connections);
    mongodb::Client::with_options(options).map_err(from_driver)
}

/// The handler is called before the new connection is tried.
fn count_connections(options: &mut DriverOptions, connections: &Arc<AtomicU64>) {
    let connections = Arc::clone(connections);
    options.cmap_event_handler = Some(EventHandler::callback(move |event| {
        if let CmapEvent::ConnectionCreated(_) = event {
            connections.fetch_add(1, SeqCst);
        }
    }));
}

/// One connection for the writes to client records, and a counter that changes whenever it has to
/// be made anew: the handler is called before the new connection is tried.
fn driver_for_records(mut options: DriverOptions, epoch: &Arc<AtomicU64>) -> Result<mongodb::Client> {
    options.max_pool_size = Some(1);
    options.min_pool_size = None;
    options.max_idle_time = None;
    driver(options, epoch)
}

/// Refuses servers on which transactions would not be safe. Returns what the server says of itself.
async fn examine(driver: &mongodb::Client, nodes: &Nodes) -> Result<Document> {
    let admin = driver.database("admin");
    let build: Document = admin.run_command(doc! {"buildInfo": 1}).await.map_err(from_driver)?;
    let hello: Document = admin.run_command(doc! {"hello": 1}).await.map_err(from_driver)?;
    let ferret = build.keys().chain(hello.keys()).any(|key| key.to_lowercase().contains("ferret"));
    if ferret {
        return Err(Error::unsupported(
            "FerretDB 1.x does not update single documents atomically, so no transaction would be safe on it",
        ));
    }
    let wire = hello.get_i32("maxWireVersion").unwrap_or(0);
    if wire < 9 {
        return Err(Error::unsupported(format!(
            "the server speaks wire version {wire}; transactions need pipeline updates and their operators, which came with version 9 (MongoDB 4.4)"
        )));
    }
    nodes.note(&hello);
    Ok(hello)
}

/// Returns true if the server is a router, where collections may have shard keys.
fn is_router(hello: &Document) -> bool {
    hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid")
}

/// Sweeps now and every few leases, as long as the client lives.
fn sweep_in_background(core: &Arc<Core>) {
    let weak = Arc::downgrade(core);
    tokio::spawn(async move {
        while let Some(core) = weak.upgrade() {
            if let Err(error) = core.sweeper.sweep().await {
                tracing::debug!(%error, "a sweep was interrupted");
            }
            let pause = core.options.lease * 3;
            drop(core);
            tokio::time::sleep(pause).await;
        }
    });
}
