//! Puts a server together: recovers its node, makes the queues between the stages, gives each stage
//! the ends that it needs, and starts the threads.
//!
//! What a stage does is in its file in `stages/`; the order in which events pass them is drawn in
//! the header of the folder `server`. The stage with the connections is made by the caller
//! ([`start`]'s `port`): one with sockets (`network/`), or one within a program (`embedded.rs`).

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::admission;
use super::data;
use super::error::ServerError;
use super::event::{Append, Garbage, ReadFor, ToClient, ToServer};
use super::holding::Holding;
use super::identity::Identity;
use super::member_event::{FromMembers, Held, Restart, ToMember};
use super::reads::Reads;
use super::recover::{Recovered, recover};
use super::stages::gc::GcStage;
use super::stages::lock::LockStage;
use super::stages::pin::Pin;
use super::stages::read::ReadStage;
use super::stages::side::{SideOutlets, SideStage};
use super::stages::storage::StorageStage;
use super::stages::transaction::{Outlets, TransactionStage};
use super::stages::wal::WalStage;
use super::stats::ServerStats;
use super::{LogMedium, ServerConfig, StorageKind};
use crate::core::machine::{AckEvent, Event, Outbox, RecoveryEvent, TranxEvent};
use crate::core::{Command, Epoch, Message, Node, NodeConfig, ServerId};
use crate::log::Medium;
use crate::stage::{
    Binding, Counters, Crew, Inlet, Layout, Outlet, Signal, Source, Stage, Worker, cores, layout, queue,
};
use crate::storage::{History, HistoryLimits, Storage};

/// Internal queues: larger than what the node's limits let be under way in ordinary times; the rest
/// waits with its sender.
pub(super) const INTERNAL_EVENTS: usize = 16 * 1024;
/// Requests that wait to be handled; a request beyond this is refused. Clients and servers have
/// such a queue each.
const ENTRY_EVENTS: usize = 8 * 1024;
/// Acknowledgements and answers of other servers that are queued, many transactions in each: beyond
/// this they are sent again.
const SIDE_ENTRY_EVENTS: usize = 1024;
/// Sealed segments and low-water marks.
pub(super) const GC_EVENTS: usize = 64;

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
    /// In a member of a group: the ways from and to the other members.
    pub(super) members: Option<MemberPort>,
}

/// Ends of the queues between the network and the stage `group`.
pub(super) struct MemberPort {
    pub(super) group: Inlet<FromMembers>,
    pub(super) to_members: Source<ToMember>,
    /// Set when the engine is to be started again.
    pub(super) restart: Arc<OnceLock<Restart>>,
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
pub(super) struct Entries {
    pub(super) tranx: Source<TranxEvent>,
    pub(super) peers: Source<TranxEvent>,
    pub(super) acknowledged: Source<AckEvent>,
    pub(super) inquiry_answers: Source<RecoveryEvent>,
    pub(super) reads: Source<ReadFor>,
}

/// Queues between the stage with the connections and the stages of the node.
pub(super) struct Doors {
    pub(super) entries: Entries,
    pub(super) to_servers: Inlet<ToServer>,
    pub(super) to_clients: Inlet<ToClient>,
}

/// Makes the queues between the stage with the connections and the node's, and the parts from which
/// the former is made. `of_node` are the bells of the node's stages.
pub(super) fn doors(
    of_node: Signals<'_>,
    network: &Arc<Signal>,
    stats: &Arc<ServerStats>,
    storage: &Arc<dyn Storage>,
    holding: Holding,
    identity: Identity,
) -> (Port, Doors) {
    let counters = &stats.counters;
    let (entry, from_entry) = queue("entry", ENTRY_EVENTS, of_node.of("transaction"), counters);
    let (peers, from_peers) = queue("peers", ENTRY_EVENTS, of_node.of("transaction"), counters);
    let (acknowledged, from_acknowledged) = queue("acknowledged", SIDE_ENTRY_EVENTS, of_node.of("ack"), counters);
    // Metrics have this name of the queue.
    let (inquiry_answers, from_inquiry_answers) = queue("told", SIDE_ENTRY_EVENTS, of_node.of("recovery"), counters);
    let (reads, from_reads) = queue("read", ENTRY_EVENTS, of_node.of("read"), counters);
    let (to_servers, for_servers) = queue("to servers", INTERNAL_EVENTS, network, counters);
    let (to_clients, for_clients) = queue("to clients", INTERNAL_EVENTS, network, counters);
    let reads = Reads { storage: storage.clone(), holding, queue: reads, stats: stats.clone() };
    let port = Port {
        stats: stats.clone(),
        entry,
        peers,
        acknowledged,
        inquiry_answers,
        reads,
        to_servers: for_servers,
        to_clients: for_clients,
        signal: network.clone(),
        identity,
        members: None,
    };
    let entries = Entries {
        tranx: from_entry,
        peers: from_peers,
        acknowledged: from_acknowledged,
        inquiry_answers: from_inquiry_answers,
        reads: from_reads,
    };
    (port, Doors { entries, to_servers, to_clients })
}

/// The running stages of a server that is no member of a group.
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
    let (medium, mut identity) = data::open(config, Identity::open)?;
    let storage = data::storage(config, &identity)?;
    let stats = stats(config, &*medium);
    let joins = identity.is_new() && !identity.waits_for().is_empty();
    let node = NodeConfig { joins, ..node_config(config) };
    let recovered = recover(node, medium, &data::log_options(config, &identity), &*storage)?;
    identity.settle()?;
    let recovered_records = recovered.records;
    let epoch = recovered.node.tranx.epochs.now();
    let (workers, port_signal) = workers(config);
    let signals = Signals { workers: &workers };
    let (made, Doors { entries, to_servers, to_clients }) =
        doors(signals, &port_signal, &stats, &storage, holding(config), identity);
    let mut stages = vec![port(made)?];
    let inner =
        Inner { config, stats: &stats, signals, history: history(config, &stats, epoch), to_servers, to_clients };
    stages.extend(inner.stages(recovered, storage, entries));
    let crew = crew(workers, stages, &stats.counters, stats.started)?;
    Ok(Engine { crew, stats, recovered_records })
}

/// The keys that the server holds, for its reads.
pub(super) fn holding(config: &ServerConfig) -> Holding {
    Holding::new(config.server, &config.cluster.partition)
}

pub(super) fn stats(config: &ServerConfig, medium: &dyn Medium) -> Arc<ServerStats> {
    Arc::new(ServerStats::new(config.server, medium.describe(), Counters::new(), config.log_limit_bytes))
}

/// Replaced items, kept for snapshots by a node that begins in this epoch.
pub(super) fn history(config: &ServerConfig, stats: &ServerStats, epoch: Epoch) -> Arc<History> {
    stats.enter(epoch);
    let limits = HistoryLimits { window_ms: config.snapshot_window_ms, bytes: config.snapshot_bytes };
    Arc::new(History::new(limits, epoch))
}

/// Parts from which the stages behind the entry queues are made.
pub(super) struct Inner<'a> {
    pub(super) config: &'a ServerConfig,
    pub(super) stats: &'a Arc<ServerStats>,
    pub(super) signals: Signals<'a>,
    pub(super) history: Arc<History>,
    pub(super) to_servers: Inlet<ToServer>,
    pub(super) to_clients: Inlet<ToClient>,
}

/// Ways between the stages of the node and the log.
pub(super) struct NodeWays {
    /// The queue into the transaction stage, both ends.
    pub(super) internal: (Inlet<TranxEvent>, Source<TranxEvent>),
    pub(super) log: Outlet<Append>,
    pub(super) gc: Inlet<Garbage>,
    pub(super) answers: Option<Outlet<Held>>,
}

impl Inner<'_> {
    fn queue<E>(&self, name: &'static str, capacity: usize, stage: &str) -> (Inlet<E>, Source<E>) {
        queue(name, capacity, self.signals.of(stage), &self.stats.counters)
    }

    fn stages(self, recovered: Recovered, storage: Arc<dyn Storage>, entries: Entries) -> Vec<Box<dyn Stage>> {
        let Recovered { mut node, commands, log, collector, .. } = recovered;
        let (internal, from_internal) = self.queue("internal", INTERNAL_EVENTS, "transaction");
        let (wal, from_wal) = self.queue("wal", INTERNAL_EVENTS, "wal");
        let (garbage, from_garbage) = self.queue("gc", GC_EVENTS, "gc");
        let wal_stage = WalStage::new(log, self.stats.clone(), from_wal, internal.outlet(), garbage.outlet());
        let gc_stage = GcStage {
            gc: std::mem::take(&mut node.gc),
            config: Arc::new(node.config.clone()),
            storage: storage.clone(),
            history: Arc::new(OnceLock::from(self.history.clone())),
            collector,
            pin: Pin::default(),
            stats: self.stats.clone(),
            source: from_garbage,
            batch: Vec::new(),
            check_at_ms: 0,
            marks: None,
        };
        let (internal, log) = ((internal, from_internal), wal.outlet());
        let ways = NodeWays { internal, log, gc: garbage, answers: None };
        let mut stages = self.node_stages(node, commands, storage, entries, ways);
        stages.push(Box::new(wal_stage));
        stages.push(Box::new(gc_stage));
        stages
    }

    /// The stages of the node, without those of the log and of the garbage collection.
    pub(super) fn node_stages(
        self,
        node: Node,
        commands: Vec<Command>,
        storage: Arc<dyn Storage>,
        entries: Entries,
        ways: NodeWays,
    ) -> Vec<Box<dyn Stage>> {
        let Node { config, tranx, locks, acks, recovery, .. } = node;
        let config = Arc::new(config);
        let NodeWays { internal: (internal, from_internal), log, gc, answers } = ways;
        let (lock, from_lock) = self.queue("lock", INTERNAL_EVENTS, "lock");
        let (ack, from_ack) = self.queue("ack", INTERNAL_EVENTS, "ack");
        let (doubt, from_doubt) = self.queue("recovery", INTERNAL_EVENTS, "recovery");
        let (store, from_store) = self.queue("storage", INTERNAL_EVENTS, "storage");
        let outlets = Outlets {
            wal: log,
            storage: store.outlet(),
            to_servers: self.to_servers.outlet(),
            to_clients: self.to_clients.outlet(),
            lock: lock.outlet(),
            ack: ack.outlet(),
            recovery: doubt.outlet(),
            gc,
            answers,
        };
        let side_outlets = || SideOutlets { tranx: internal.outlet(), to_servers: self.to_servers.outlet() };
        let stats = || self.stats.clone();
        let to_clients = self.to_clients.outlet();
        vec![
            Box::new(ReadStage::new(
                storage.clone(),
                self.history.clone(),
                holding(self.config),
                stats(),
                entries.reads,
                to_clients,
            )),
            Box::new(TransactionStage {
                tranx,
                storage: storage.clone(),
                config: config.clone(),
                stats: stats(),
                entry: entries.tranx,
                peers: entries.peers,
                internal: from_internal,
                outlets,
                out: Outbox { commands, ..Outbox::default() },
                batch: Vec::new(),
                gc_interval_ms: self.config.gc_interval_ms,
                collect_at_ms: self.config.gc_interval_ms,
                note_at_ms: 0,
                held_back_ms: None,
            }),
            Box::new(LockStage::new(locks, config.clone(), stats(), from_lock, internal.outlet())),
            Box::new(SideStage::new(acks, config.clone(), entries.acknowledged, from_ack, side_outlets())),
            Box::new(StorageStage::new(storage, self.history.clone(), from_store, internal.outlet())),
            Box::new(SideStage::new(recovery, config, entries.inquiry_answers, from_doubt, side_outlets())),
        ]
    }
}

/// A thread to be: its stages' names, its bell, its core.
pub(super) type Planned = (Vec<&'static str>, Arc<Signal>, Option<usize>);

#[derive(Clone, Copy)]
pub(super) struct Signals<'a> {
    pub(super) workers: &'a [Planned],
}

impl Signals<'_> {
    /// The bell of the thread that runs a stage; every stage is in the layout.
    pub(super) fn of(&self, stage: &str) -> &Arc<Signal> {
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

/// Threads for these stages on these cores.
pub(super) fn plan(stages: &[Layout], cores: &[usize], binding: &Binding) -> Vec<Planned> {
    let threads = layout(stages, cores, binding).into_iter();
    threads.map(|(stages, core)| (stages, Arc::new(Signal::new()), core)).collect()
}

fn workers(config: &ServerConfig) -> (Vec<Planned>, Arc<Signal>) {
    let planned = plan(&stages(config), &cores(), &config.binding);
    let port = Signals { workers: &planned }.of("network").clone();
    (planned, port)
}

pub(super) fn crew(
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
