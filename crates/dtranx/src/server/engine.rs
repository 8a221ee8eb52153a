//! Puts a server together: recovers its node, makes the queues between the stages, gives each stage
//! the ends that it needs, and starts the threads.
//!
//! What a stage does is in its file in `stages/`; the order in which events pass them is drawn in
//! the header of the folder `server`. The stage with the connections is made by the caller
//! ([`start`]'s `port`): one with sockets (`network/`), or one within a program (`embedded.rs`).

use std::sync::Arc;
use std::time::Instant;

use super::admission;
use super::descriptors;
use super::error::ServerError;
use super::event::{ToClient, ToServer};
use super::identity::Identity;
use super::reads::Reads;
use super::recover::{Recovered, recover};
use super::stages::gc::GcStage;
use super::stages::lock::LockStage;
use super::stages::read::ReadStage;
use super::stages::side::{SideOutlets, SideStage};
use super::stages::storage::StorageStage;
use super::stages::transaction::{Outlets, TransactionStage};
use super::stages::wal::WalStage;
use super::stats::ServerStats;
use super::{LogMedium, ServerConfig, StorageKind};
use crate::core::machine::{AckEvent, Event, Outbox, RecoveryEvent, TranxEvent};
use crate::core::{Message, Node, NodeConfig, ServerId, StoreId};
use crate::log::{Disk, LogOptions, Medium, Memory, PersistentMemory};
use crate::stage::{Counters, Crew, Inlet, Layout, Signal, Source, Stage, Worker, cores, layout, queue};
use crate::storage::{History, HistoryLimits, InMemory, Lsm, LsmOptions, Storage};

/// Internal queues: larger than what the node's limits let be under way in ordinary times; the rest
/// waits with its sender.
const INTERNAL_EVENTS: usize = 16 * 1024;
/// Requests that wait to be handled; a request beyond this is refused. Clients and servers have
/// such a queue each.
const ENTRY_EVENTS: usize = 8 * 1024;
/// Acknowledgements and answers of other servers that are queued, many transactions in each: beyond
/// this they are sent again.
const SIDE_ENTRY_EVENTS: usize = 1024;
/// Sealed segments and low-water marks.
const GC_EVENTS: usize = 64;

/// Parts from which the stage with the connections is made.
pub(super) struct Port {
    pub(super) stats: Arc<ServerStats>,
    pub(super) entry: Inlet<TranxEvent>,
    /// Requests of other servers, which do not wait behind those of clients.
    pub(super) peers: Inlet<TranxEvent>,
    pub(super) acknowledged: Inlet<AckEvent>,
    pub(super) inquiry_answers: Inlet<RecoveryEvent>,
    pub(super) reads: Reads,
    pub(super) to_servers: Source<ToServer>,
    pub(super) to_clients: Source<ToClient>,
    pub(super) signal: Arc<Signal>,
    pub(super) identity: Identity,
}

impl Port {
    /// Passes a message from another server straight to the stage that it concerns. Without room a
    /// vote request is answered with no, and any other message is dropped: its sender repeats it.
    pub(super) fn receive(&self, from: ServerId, message: Message) -> Option<Message> {
        match Event::received(from, message) {
            Event::Tranx(event) => {
                let refused = self.peers.offer(event).err()?;
                if let TranxEvent::Receive { message, .. } = refused { admission::refuse_peer(&message) } else { None }
            }
            Event::Ack(event) => {
                drop(self.acknowledged.offer(event));
                None
            }
            Event::Recovery(event) => {
                drop(self.inquiry_answers.offer(event));
                None
            }
            // Events of these machines come from no message.
            Event::Lock(_) | Event::Gc(_) => None,
        }
    }
}

/// The other ends of the queues that the stage with the connections fills.
struct Entries {
    tranx: Source<TranxEvent>,
    peers: Source<TranxEvent>,
    acknowledged: Source<AckEvent>,
    inquiry_answers: Source<RecoveryEvent>,
}

/// An engine that runs.
pub(super) struct Engine {
    pub(super) crew: Crew,
    pub(super) stats: Arc<ServerStats>,
    pub(super) recovered_records: u64,
}

/// Recovers the server and starts its threads; `port` makes the stage that has the connections.
pub(super) fn start(
    config: &ServerConfig,
    port: impl FnOnce(Port) -> Result<Box<dyn Stage>, ServerError>,
) -> Result<Engine, ServerError> {
    let medium = medium(config)?;
    let mut identity = Identity::open(config)?;
    let storage = storage(config, &identity)?;
    let counters = Counters::new();
    let stats = Arc::new(ServerStats::new(config.server, medium.describe(), counters.clone(), config.log_limit_bytes));
    let node_config = node_config(config);
    let recovered = recover(node_config, medium, &log_options(config, &identity), &*storage)?;
    identity.settle()?;
    let recovered_records = recovered.records;
    let epoch = recovered.node.tranx.epochs.now();
    stats.enter(epoch);
    let limits = HistoryLimits { window_ms: config.snapshot_window_ms, bytes: config.snapshot_bytes };
    let history = Arc::new(History::new(limits, epoch));
    let (workers, port_signal) = workers(config);
    let signals = Signals { workers: &workers };
    let (entry, from_entry) = queue("entry", ENTRY_EVENTS, signals.of("transaction"), &counters);
    let (peers, from_peers) = queue("peers", ENTRY_EVENTS, signals.of("transaction"), &counters);
    let (acknowledged, from_acknowledged) = queue("acknowledged", SIDE_ENTRY_EVENTS, signals.of("ack"), &counters);
    // Metrics have this name of the queue.
    let (inquiry_answers, from_inquiry_answers) = queue("told", SIDE_ENTRY_EVENTS, signals.of("recovery"), &counters);
    let (reads, from_reads) = queue("read", ENTRY_EVENTS, signals.of("read"), &counters);
    let (to_servers, for_servers) = queue("to servers", INTERNAL_EVENTS, signals.of("network"), &counters);
    let (to_clients, for_clients) = queue("to clients", INTERNAL_EVENTS, signals.of("network"), &counters);
    let reads = Reads { storage: storage.clone(), queue: reads, stats: stats.clone() };
    let made = Port {
        stats: stats.clone(),
        entry,
        peers,
        acknowledged,
        inquiry_answers,
        reads,
        to_servers: for_servers,
        to_clients: for_clients,
        signal: port_signal,
        identity,
    };
    let entries = Entries {
        tranx: from_entry,
        peers: from_peers,
        acknowledged: from_acknowledged,
        inquiry_answers: from_inquiry_answers,
    };
    let mut stages = vec![port(made)?];
    let (read_storage, read_history) = (storage.clone(), history.clone());
    let read_stage = ReadStage::new(read_storage, read_history, stats.clone(), from_reads, to_clients.outlet());
    stages.push(Box::new(read_stage));
    let inner = Inner { config, stats: &stats, counters: &counters, signals, history, to_servers, to_clients };
    stages.extend(inner.stages(recovered, storage, entries));
    let crew = crew(workers, stages, &counters, stats.started)?;
    Ok(Engine { crew, stats, recovered_records })
}

/// Parts from which the stages behind the entry queues are made.
struct Inner<'a> {
    config: &'a ServerConfig,
    stats: &'a Arc<ServerStats>,
    counters: &'a Counters,
    signals: Signals<'a>,
    history: Arc<History>,
    to_servers: Inlet<ToServer>,
    to_clients: Inlet<ToClient>,
}

impl Inner<'_> {
    fn queue<E>(&self, name: &'static str, capacity: usize, stage: &str) -> (Inlet<E>, Source<E>) {
        queue(name, capacity, self.signals.of(stage), self.counters)
    }

    fn stages(self, recovered: Recovered, storage: Arc<dyn Storage>, entries: Entries) -> Vec<Box<dyn Stage>> {
        let Node { config, tranx, locks, acks, recovery, gc, .. } = recovered.node;
        let config = Arc::new(config);
        let (internal, from_internal) = self.queue("internal", INTERNAL_EVENTS, "transaction");
        let (lock, from_lock) = self.queue("lock", INTERNAL_EVENTS, "lock");
        let (ack, from_ack) = self.queue("ack", INTERNAL_EVENTS, "ack");
        let (doubt, from_doubt) = self.queue("recovery", INTERNAL_EVENTS, "recovery");
        let (wal, from_wal) = self.queue("wal", INTERNAL_EVENTS, "wal");
        let (store, from_store) = self.queue("storage", INTERNAL_EVENTS, "storage");
        let (garbage, from_garbage) = self.queue("gc", GC_EVENTS, "gc");
        let outlets = Outlets {
            wal: wal.outlet(),
            storage: store.outlet(),
            to_servers: self.to_servers.outlet(),
            to_clients: self.to_clients.outlet(),
            lock: lock.outlet(),
            ack: ack.outlet(),
            recovery: doubt.outlet(),
            gc: garbage.clone(),
        };
        let side_outlets = || SideOutlets { tranx: internal.outlet(), to_servers: self.to_servers.outlet() };
        vec![
            Box::new(TransactionStage {
                tranx,
                storage: storage.clone(),
                config: config.clone(),
                stats: self.stats.clone(),
                entry: entries.tranx,
                peers: entries.peers,
                internal: from_internal,
                outlets,
                out: Outbox { commands: recovered.commands, ..Outbox::default() },
                batch: Vec::new(),
                gc_interval_ms: self.config.gc_interval_ms,
                collect_at_ms: self.config.gc_interval_ms,
                note_at_ms: 0,
                held_back_ms: None,
            }),
            Box::new(LockStage::new(locks, config.clone(), self.stats.clone(), from_lock, internal.outlet())),
            Box::new(SideStage::new(acks, config.clone(), entries.acknowledged, from_ack, side_outlets())),
            Box::new(WalStage::new(recovered.log, self.stats.clone(), from_wal, internal.outlet(), garbage.outlet())),
            Box::new(StorageStage::new(storage.clone(), self.history.clone(), from_store, internal.outlet())),
            Box::new(SideStage::new(recovery, config.clone(), entries.inquiry_answers, from_doubt, side_outlets())),
            Box::new(GcStage {
                gc,
                config,
                storage,
                history: self.history,
                collector: recovered.collector,
                stats: self.stats.clone(),
                source: from_garbage,
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

/// The stages, in the order in which events pass them: neighbours share a thread when there are few
/// cores.
fn stages(config: &ServerConfig) -> [Layout; 9] {
    let on_disk = config.storage == StorageKind::Disk;
    [
        Layout { stage: "network", blocks: false },
        Layout { stage: "read", blocks: on_disk },
        Layout { stage: "transaction", blocks: false },
        Layout { stage: "lock", blocks: false },
        Layout { stage: "ack", blocks: false },
        Layout { stage: "wal", blocks: config.medium == LogMedium::Disk },
        Layout { stage: "storage", blocks: on_disk },
        Layout { stage: "recovery", blocks: false },
        Layout { stage: "gc", blocks: true },
    ]
}

fn workers(config: &ServerConfig) -> (Vec<Planned>, Arc<Signal>) {
    let planned: Vec<Planned> = layout(&stages(config), &cores(), &config.binding)
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

pub(super) fn medium(config: &ServerConfig) -> Result<Arc<dyn Medium>, ServerError> {
    Ok(match config.medium {
        LogMedium::Disk => Arc::new(Disk::open(&config.log_folder)?),
        LogMedium::PersistentMemory => Arc::new(PersistentMemory::open(&config.log_folder)?),
        LogMedium::Memory => Arc::new(Memory::new()),
    })
}

fn log_options(config: &ServerConfig, identity: &Identity) -> LogOptions {
    LogOptions {
        server: config.server.0,
        store: identity.store,
        segment_bytes: config.segment_bytes,
        must_exist: identity.is_in_use() && config.medium != LogMedium::Memory,
        is_member: false,
    }
}

fn storage(config: &ServerConfig, identity: &Identity) -> Result<Arc<dyn Storage>, ServerError> {
    Ok(match config.storage {
        StorageKind::Disk => Arc::new(lsm(config, identity.store, identity.is_in_use())?),
        StorageKind::Memory => Arc::new(InMemory::new()),
    })
}

pub(super) fn lsm(config: &ServerConfig, store: StoreId, must_exist: bool) -> Result<Lsm, ServerError> {
    let (item_cache_bytes, open_files) = (config.item_cache_bytes, descriptors::storage_files(descriptors::limit()));
    let options = LsmOptions { item_cache_bytes, open_files, store, must_exist, ..LsmOptions::default() };
    Ok(Lsm::open(&config.folder.join("items"), config.server, options)?)
}

pub(super) fn node_config(config: &ServerConfig) -> NodeConfig {
    let mut node = NodeConfig::new(config.server, config.cluster.partition.clone());
    node.servers = config.cluster.servers.iter().map(|server| server.id).collect();
    node.servers.sort_unstable();
    node.lock_wait_ms = config.lock_wait_ms;
    node.lock_patience_ms = config.lock_patience_ms;
    node.lock_keep_ms = config.lock_keep_ms;
    // The stages' clock starts with them, in a moment.
    let epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    node.epoch_ms = u64::try_from(epoch.as_millis()).unwrap_or(u64::MAX);
    node.acknowledgement_delay_ms = config.acknowledgement_delay_ms;
    node.client_window = config.client_window as usize;
    // How many there are, the network stage knows.
    node.max_clients = usize::MAX;
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, Server};

    #[test]
    fn layout_on_two_cores_keeps_the_path_of_a_vote_on_one() {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let cluster = Cluster::hashed("test", vec![Server { id: ServerId(1), address }]);
        let mut config = ServerConfig::new(cluster, ServerId(1), std::path::Path::new("data"));
        config.medium = LogMedium::PersistentMemory;
        let threads = layout(&stages(&config), &[0, 1], &crate::stage::Binding::Auto);
        let bound = [(vec!["network", "transaction", "lock"], Some(0)), (vec!["ack", "wal", "recovery"], Some(1))];
        assert_eq!(threads[..2], bound);
        let waiting: Vec<_> = threads[2..].iter().map(|(stages, core)| (stages[0], stages.len(), *core)).collect();
        assert_eq!(waiting, [("read", 1, None), ("storage", 1, None), ("gc", 1, None)]);
    }
}
