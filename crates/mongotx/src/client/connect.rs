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
    about::About,
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
            Server, from_driver,
            lean::{Lean, Purpose},
            plain::Plain,
        },
        stamps::own_changes::OwnChanges,
        stored::nodes::Nodes,
    },
    error::{Error, Result},
    metrics::Counters,
    options::ClientOptions,
};

/// Connects to the deployment of this connection string: see [`super::Client::connect_with`].
pub(super) async fn connect(uri: &str, options: ClientOptions) -> Result<Arc<Core>> {
    options.check()?;
    let counters = Arc::new(Counters::default());
    let counting = options.count_commands.then_some(&counters);
    let nodes = Arc::new(Nodes::default());
    let connections = Arc::new(AtomicU64::new(0));
    let asked = options_for(uri, counting, &nodes).await?;
    let driver = driver(asked.clone(), &connections)?;
    let hello = examine(&driver, &nodes).await?;
    let shards = Shards::new(&options.shard_keys, is_router(&hello))?;
    let lean = |purpose, begun: &Arc<AtomicU64>| {
        let lean = Lean::new(&asked, &hello, &driver, &nodes, &purpose, begun)?;
        Some(lean.counted(counting))
    };
    let own = Arc::new(OwnChanges::new(Arc::clone(&nodes)));
    let plain = Arc::new(Plain::new(own, &options.tx_database, !options.is_published()));
    let server = |driver, lean, begun| {
        let (counters, hook) = (Arc::clone(&counters), options.hook());
        Server::new(driver, lean, counters, hook, begun, Arc::clone(&nodes), Arc::clone(&plain))
    };
    let lane = async || -> Result<(Server, Arc<AtomicU64>)> {
        let epoch = Arc::new(AtomicU64::new(0));
        nodes.ends(&epoch);
        let recorder = driver_for_records(asked.clone(), &epoch)?;
        Ok((server(recorder, lean(Purpose::Records, &epoch), Arc::clone(&epoch)), epoch))
    };
    let data = lean(Purpose::Data, &connections);
    let server = Arc::new(server(driver.clone(), data, connections));
    let read_lease: Arc<ReadLease> = Arc::default();
    let log: Arc<dyn TxLog> = if options.is_published() {
        let mut lanes = Vec::new();
        for _ in 0..published::LANES {
            lanes.push(lane().await?);
        }
        Arc::new(PublishedLog::new(Arc::clone(&server), lanes, &options.tx_database))
    } else {
        let (recorder, epoch) = lane().await?;
        let application = options.application.clone().or_else(|| asked.app_name.clone());
        let records = Records::new(&options.tx_database).of(About::this(application));
        let shared =
            Shared::new(Arc::clone(&server), recorder, epoch, records, options.commit_timeout, Arc::clone(&read_lease));
        Arc::new(ClientRecordLog::new(shared))
    };
    let core = assemble(server, log, read_lease, shards, options);
    reap_in_background(&core);
    tokio::spawn(Server::end_quiet_notices(Arc::downgrade(&core.server)));
    if core.options.sweep {
        sweep_in_background(&core);
    }
    Ok(core)
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
