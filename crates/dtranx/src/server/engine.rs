//! Puts a server together: queues, stages, threads.

use std::sync::Arc;
use std::time::Instant;

use thiserror::Error;

use super::board::Board;
use super::event::{Outgoing, ReadFor};
use super::recover::{Recovered, recover};
use super::stages::gc::GcStage;
use super::stages::read::ReadStage;
use super::stages::storage::StorageStage;
use super::stages::transaction::{Hands, TransactionStage};
use super::stages::wal::WalStage;
use super::{ConfigError, LogMedium, ServerConfig, StorageKind};
use crate::core::{Input, NodeConfig};
use crate::log::{Disk, LogError, Medium, Memory, PersistentMemory};
use crate::stage::{Counters, Crew, Inlet, Layout, Signal, Source, Stage, StageError, Worker, layout, queue};
use crate::storage::{InMemory, Lsm, LsmOptions, Storage, StorageError};

/// Internal queues: larger than what the node's limits let be under way in ordinary times; the rest waits with its sender.
const INTERNAL_EVENTS: usize = 16 * 1024;
/// Requests that wait to be looked at: beyond this clients are refused.
const ENTRY_EVENTS: usize = 8 * 1024;

/// Why a server does not start, or has ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Its configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its log cannot be opened.
    #[error("the log: {0}")]
    Log(#[from] LogError),
    /// Its storage cannot be opened.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A stage failed while it ran.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The operating system refused something.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// What it said.
        source: std::io::Error,
    },
}

/// What the stage with the connections is made from.
pub(super) struct Port {
    pub(super) board: Arc<Board>,
    pub(super) entry: Inlet<Input>,
    pub(super) reads: Inlet<ReadFor>,
    pub(super) outgoing: Source<Outgoing>,
    pub(super) signal: Arc<Signal>,
}

/// A running engine.
pub(super) struct Engine {
    pub(super) crew: Crew,
    pub(super) board: Arc<Board>,
    pub(super) recovered_records: u64,
}

/// Recovers the server and starts its threads; `port` makes the stage that has the connections.
pub(super) fn start(
    config: &ServerConfig,
    port: impl FnOnce(Port) -> Result<Box<dyn Stage>, ServerError>,
) -> Result<Engine, ServerError> {
    let medium = medium(config)?;
    let storage = storage(config)?;
    let counters = Counters::new();
    let board = Arc::new(Board::new(config.server, medium.describe(), counters.clone()));
    let node_config = node_config(config);
    let recovered = recover(node_config, medium, config.segment_bytes, &*storage)?;
    let recovered_records = recovered.records;
    let (workers, port_signal) = workers(config);
    let signals = Signals { workers: &workers };
    let (entry, from_entry) = queue("entry", ENTRY_EVENTS, signals.of("transaction"), &counters);
    let (reads, from_reads) = queue("read", ENTRY_EVENTS, signals.of("read"), &counters);
    let (outgoing, from_outgoing) = queue("outgoing", INTERNAL_EVENTS, signals.of("network"), &counters);
    let made = Port { board: board.clone(), entry, reads, outgoing: from_outgoing, signal: port_signal };
    let mut stages = vec![port(made)?];
    stages.push(Box::new(ReadStage {
        storage: storage.clone(),
        source: from_reads,
        outgoing: outgoing.outlet(),
        batch: Vec::new(),
    }));
    let inner = Inner { config, board: &board, counters: &counters, signals, outgoing, from_entry };
    stages.extend(inner.stages(recovered, storage));
    let crew = crew(workers, stages, &counters, board.started)?;
    Ok(Engine { crew, board, recovered_records })
}

/// What the stages behind the entry queue are made from.
struct Inner<'a> {
    config: &'a ServerConfig,
    board: &'a Arc<Board>,
    counters: &'a Counters,
    signals: Signals<'a>,
    outgoing: Inlet<Outgoing>,
    from_entry: Source<Input>,
}

impl Inner<'_> {
    fn stages(self, recovered: Recovered, storage: Arc<dyn Storage>) -> Vec<Box<dyn Stage>> {
        let Self { config, board, counters, signals, outgoing, from_entry } = self;
        let (internal, from_internal) = queue("internal", INTERNAL_EVENTS, signals.of("transaction"), counters);
        let (wal, from_wal) = queue("wal", INTERNAL_EVENTS, signals.of("wal"), counters);
        let (store, from_store) = queue("storage", INTERNAL_EVENTS, signals.of("storage"), counters);
        let (gc, from_gc) = queue("gc", 64, signals.of("gc"), counters);
        let hands = Hands { wal: wal.outlet(), storage: store.outlet(), gc: gc.outlet(), outgoing: outgoing.outlet() };
        vec![
            Box::new(TransactionStage {
                node: recovered.node,
                board: board.clone(),
                entry: from_entry,
                internal: from_internal,
                hands,
                commands: recovered.commands,
                batch: Vec::new(),
                gc_interval_ms: config.gc_interval_ms,
                collect_at_ms: config.gc_interval_ms,
                note_at_ms: 0,
            }),
            Box::new(WalStage::new(recovered.log, board.clone(), from_wal, internal.outlet(), gc.outlet())),
            Box::new(StorageStage {
                storage: storage.clone(),
                source: from_store,
                tell: internal.outlet(),
                gc: gc.outlet(),
                batch: Vec::new(),
            }),
            Box::new(GcStage {
                storage,
                collector: recovered.collector,
                board: board.clone(),
                source: from_gc,
                tell: internal.outlet(),
                batch: Vec::new(),
                check_at_ms: 0,
            }),
        ]
    }
}

/// A thread to be: its stages' names, its bell, its core.
type Planned = (Vec<&'static str>, Arc<Signal>, Option<usize>);

struct Signals<'a> {
    workers: &'a [Planned],
}

impl Signals<'_> {
    /// The bell of the thread that runs a stage; every stage is in the layout.
    fn of(&self, stage: &str) -> &Arc<Signal> {
        let found = self.workers.iter().find(|(stages, ..)| stages.contains(&stage));
        &found.unwrap_or(&self.workers[0]).1
    }
}

fn workers(config: &ServerConfig) -> (Vec<Planned>, Arc<Signal>) {
    let on_disk = config.storage == StorageKind::Disk;
    let stages = [
        Layout { stage: "network", blocks: false },
        Layout { stage: "read", blocks: on_disk },
        Layout { stage: "transaction", blocks: false },
        Layout { stage: "wal", blocks: config.medium == LogMedium::Disk },
        Layout { stage: "storage", blocks: on_disk },
        Layout { stage: "gc", blocks: true },
    ];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let planned: Vec<Planned> = layout(&stages, cores, &config.binding)
        .into_iter()
        .map(|(stages, core)| (stages, Arc::new(Signal::new()), core))
        .collect();
    let port = Signals { workers: &planned }.of("network").clone();
    (planned, port)
}

fn crew(
    planned: Vec<Planned>,
    stages: Vec<Box<dyn Stage>>,
    counters: &Counters,
    started: Instant,
) -> Result<Crew, ServerError> {
    let mut workers: Vec<_> = planned.iter().map(|(_, signal, core)| Worker::new(signal.clone(), *core)).collect();
    for stage in stages {
        let at = planned.iter().position(|(names, ..)| names.contains(&stage.name())).unwrap_or(0);
        workers[at].add(stage, counters);
    }
    Crew::start(workers, started).map_err(|source| ServerError::Io { action: "start a thread".to_owned(), source })
}

fn medium(config: &ServerConfig) -> Result<Arc<dyn Medium>, ServerError> {
    Ok(match config.medium {
        LogMedium::Disk => Arc::new(Disk::open(&config.log_folder)?),
        LogMedium::PersistentMemory => Arc::new(PersistentMemory::open(&config.log_folder)?),
        LogMedium::Memory => Arc::new(Memory::new()),
    })
}

fn storage(config: &ServerConfig) -> Result<Arc<dyn Storage>, ServerError> {
    Ok(match config.storage {
        StorageKind::Disk => {
            let options = LsmOptions { item_cache_bytes: config.item_cache_bytes, ..LsmOptions::default() };
            Arc::new(Lsm::open(&config.folder.join("items"), config.server, options)?)
        }
        StorageKind::Memory => Arc::new(InMemory::new()),
    })
}

fn node_config(config: &ServerConfig) -> NodeConfig {
    let mut node = NodeConfig::new(config.server, config.cluster.partition.clone());
    node.servers = config.cluster.servers.iter().map(|server| server.id).collect();
    node.servers.sort_unstable();
    node.lock_wait_ms = config.lock_wait_ms;
    node.client_window = config.client_window as usize;
    node
}
