//! A member of a group: its engine, which is started anew whenever the member no longer leads.
//!
//! 1. The log is read, and what is known to be committed is applied. The stages `network`, `group`,
//!    `wal`, `follow` and `gc` start.
//! 2. Once the stores of the group are known, the stage `group` takes part in elections.
//! 3. When the member is elected and the first entry of its term is committed, `follow` hands over
//!    the node, and the stages of the node start.
//! 4. A member that lacks entries which its leader has removed is given the items (`transfer`).
//!    When they are whole, all stages end, the folders with the items count from then on, and it
//!    begins with 1.
//! 5. A member whose store takes a lost one's place has no vote in 2 and 3, until it has what that
//!    one can have promised; then it begins with 1. So do the others, when they note its store.
//! 6. A leader that steps down ends all stages, and begins with 1 again: what its node has said and
//!    what waits is dropped, with what it kept of replaced items (decision 0075, G19).

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::data;
use super::engine::{self, Doors, GC_EVENTS, INTERNAL_EVENTS, Inner, MemberPort, NodeWays, Planned, Signals};
use super::event::{Append, Garbage};
use super::findings::Findings;
use super::identity::Identity;
use super::member_event::{
    Begun, Follow, FromLog, FromMembers, FromTransfer, Held, LogWork, Restart, ToMember, Transfer,
};
use super::network::NetworkStage;
use super::stages::follow::FollowStage;
use super::stages::gc::GcStage;
use super::stages::group::{self, GroupStage};
use super::stages::member_wal::{self, MemberWalStage};
use super::stages::pin::Pin;
use super::stages::transfer::{self as transfer_stage, TransferStage};
use super::stats::{CurrentStats, ServerStats};
use super::transfer::{Target, Whole, install};
use super::{LogMedium, ServerConfig, ServerError, StorageKind};
use crate::core::gc::Gc;
use crate::core::machine::TranxEvent;
use crate::log::{Opened, TranxLog};
use crate::remark;
use crate::stage::{Binding, Counters, Crew, Inlet, Layout, Source, Stage, StageError, cores, queue};
use crate::storage::{History, Storage};

/// Messages of other members that wait.
const MEMBER_EVENTS: usize = 256;
/// Committed entries that wait to be applied.
const FOLLOW_EVENTS: usize = 64;
/// Events of a transfer of items that wait.
const TRANSFER_EVENTS: usize = 64;
/// Time between two looks at whether the engine is over.
const LOOK: Duration = Duration::from_millis(50);

/// A member that runs, on a thread that starts its engine anew when it has to be.
pub(super) struct Member {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    pub(super) stats: CurrentStats,
    pub(super) address: SocketAddr,
    pub(super) recovered_records: u64,
}

#[derive(Default)]
struct Shared {
    ending: AtomicBool,
    /// Reason why the member has ended.
    failure: Mutex<Option<ServerError>>,
    failed: Condvar,
}

impl Member {
    pub(super) fn start(config: &ServerConfig) -> Result<Self, ServerError> {
        let mut config = config.clone();
        let (engine, address) = MemberEngine::start(&config)?;
        // Others and clients know this address: the next engine listens there, too.
        config.listen = Some(address);
        let (shared, stats) = (Arc::new(Shared::default()), CurrentStats::new(engine.stats.clone()));
        let recovered_records = engine.recovered_records;
        let (seen, published) = (shared.clone(), stats.clone());
        let run = move || seen.guard(|| seen.run(&config, engine, &published));
        let failed = |source| ServerError::Io { action: "start a thread".to_owned(), source };
        let thread = thread::Builder::new().name("dtranx-member".to_owned()).spawn(run).map_err(failed)?;
        Ok(Self { shared, thread: Some(thread), stats, address, recovered_records })
    }

    /// Waits until the member fails, or so long.
    pub(super) fn wait(&self, longest: Duration) -> Result<(), ServerError> {
        let mut failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_none() {
            failure = self.shared.failed.wait_timeout(failure, longest).unwrap_or_else(PoisonError::into_inner).0;
        }
        failure.take().map_or(Ok(()), Err)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic there has ended the member already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Carries out the member's work. A panic in it is the member's failure.
    fn guard(&self, work: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            self.fail(StageError { stage: "member".to_owned(), message: "it panicked".to_owned() }.into());
        }
    }

    fn run(&self, config: &ServerConfig, mut engine: MemberEngine, published: &CurrentStats) {
        loop {
            let over = engine.run(&self.ending);
            // The log is unlocked before it is opened.
            drop(engine);
            match over {
                Over::Ended => return,
                Over::Failed(error) => return self.fail(error),
                Over::Again(Restart::Removed { at, by }) => {
                    let (server, member) = (config.server, config.member.unwrap_or_default());
                    return self.fail(ServerError::Removed { server, member, at, by });
                }
                Over::Again(Restart::SteppedDown) => say(config, "no longer leads; it reads its log again"),
                Over::Again(Restart::Replaced) => say(config, "has met another member's new store; it starts again"),
                Over::Again(Restart::Told) => say(config, "has heard of another configuration; it starts again"),
                Over::Again(Restart::Follow(promised)) => {
                    if let Err(error) = note(config, |identity| identity.follow(promised)) {
                        return self.fail(error);
                    }
                    say(config, "follows, and has no vote before it has what the lost store had");
                }
                Over::Again(Restart::Rejoined) => {
                    if let Err(error) = note(config, Identity::rejoined) {
                        return self.fail(error);
                    }
                    say(config, "has what the lost store had, and has a vote");
                }
                Over::Given(whole) => {
                    if let Err(error) = install(config, whole) {
                        return self.fail(error);
                    }
                    say(config, "has the items of its leader, and goes on with them");
                }
            }
            match MemberEngine::start(config) {
                Ok((next, _)) => engine = next,
                Err(error) => return self.fail(error),
            }
            published.set(engine.stats.clone());
        }
    }

    fn fail(&self, error: ServerError) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.failed.notify_all();
    }
}

/// Notes something in the identity of a member that does not run.
fn note(config: &ServerConfig, what: impl FnOnce(&mut Identity) -> Result<(), ServerError>) -> Result<(), ServerError> {
    let (_lock, mut identity) = data::open(config, Identity::existing)?;
    what(&mut identity)
}

fn say(config: &ServerConfig, what: &str) {
    remark::say(format_args!("server {}: member {} {what}", config.server, config.member.unwrap_or_default()));
}

/// Reason why a member's engine has stopped running.
enum Over {
    /// The member is to end.
    Ended,
    /// The engine is to be started again.
    Again(Restart),
    /// All items of the leader are here: the engine is to be started again with them.
    Given(Whole),
    Failed(ServerError),
}

/// The engine of a member, from one reading of its log to the next.
struct MemberEngine {
    /// The stages of the node, while it runs. They end first.
    node: Option<Crew>,
    crew: Crew,
    begun: Receiver<Begun>,
    later: Option<Later>,
    restart: Arc<OnceLock<Restart>>,
    given: Receiver<Whole>,
    stats: Arc<ServerStats>,
    recovered_records: u64,
}

/// Parts from which the stages of the node are made.
struct Later {
    config: ServerConfig,
    stats: Arc<ServerStats>,
    planned: Vec<Planned>,
    doors: Doors,
    ways: NodeWays,
    storage: Arc<dyn Storage>,
    history: Arc<OnceLock<Arc<History>>>,
}

impl MemberEngine {
    fn start(config: &ServerConfig) -> Result<(Self, SocketAddr), ServerError> {
        let (medium, mut identity) = data::open(config, Identity::open)?;
        let failed = |source| ServerError::Io { action: "remove folders that do not count".to_owned(), source };
        identity.folders().remove_others(config).map_err(failed)?;
        let storage = data::storage(config, &identity)?;
        let stats = engine::stats(config, &*medium);
        let mut found = Findings::new(engine::node_config(config), &*storage);
        let opened = TranxLog::read(medium, &data::log_options(config, &identity), &mut found)?;
        identity.settle()?;
        let begins = Begins { config, stats: &stats, storage: &storage, planned: Plans::new(config) };
        begins.start(found, opened, identity)
    }

    /// Runs until the engine is over.
    fn run(&mut self, ending: &AtomicBool) -> Over {
        while !ending.load(Ordering::Acquire) {
            match self.begun.recv_timeout(LOOK) {
                Ok(begun) => {
                    if let Err(error) = self.begin(begun) {
                        return Over::Failed(error);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(LOOK),
            }
            // A stage that says one of the next two fails behind it.
            let failure = self.failure();
            // The failure of another stage than these is what it says.
            let may_be_said = failure.as_ref().is_none_or(|error| ["group", "network"].contains(&&*error.stage));
            if let Some(reason) = self.restart.get().filter(|_| may_be_said) {
                return Over::Again(*reason);
            }
            if let Some(whole) = self.given.try_recv().ok().filter(|_| may_be_said) {
                return Over::Given(whole);
            }
            if let Some(error) = failure {
                return Over::Failed(error.into());
            }
        }
        Over::Ended
    }

    fn failure(&self) -> Option<StageError> {
        [Some(&self.crew), self.node.as_ref()].into_iter().flatten().find_map(|crew| crew.wait(Duration::ZERO).err())
    }

    /// A life begins: starts the stages of its node.
    fn begin(&mut self, begun: Begun) -> Result<(), ServerError> {
        let Some(Later { config, stats, planned, doors, ways, storage, history }) = self.later.take() else {
            return Ok(());
        };
        let Doors { entries, to_servers, to_clients } = doors;
        let kept = engine::history(&config, &stats, begun.node.tranx.epochs.now());
        // The error, a value that is set already, cannot occur: an engine has one life.
        let _ = history.set(kept.clone());
        let signals = Signals { workers: &planned };
        let inner = Inner { config: &config, stats: &stats, signals, history: kept, to_servers, to_clients };
        let stages = inner.node_stages(begun.node, begun.commands, storage, entries, ways);
        self.node = Some(engine::crew(planned, stages, &stats.counters, stats.started)?);
        Ok(())
    }
}

/// Threads of a member: those that always run, and those of the node.
struct Plans {
    always: Vec<Planned>,
    node: Vec<Planned>,
}

impl Plans {
    fn new(config: &ServerConfig) -> Self {
        let on_disk = config.storage == StorageKind::Disk;
        let always = [
            Layout { stage: "network", blocks: false },
            Layout { stage: "group", blocks: false },
            Layout { stage: "wal", blocks: config.medium == LogMedium::Disk },
            Layout { stage: "follow", blocks: on_disk },
            Layout { stage: "gc", blocks: true },
            Layout { stage: "transfer", blocks: true },
        ];
        let node = [
            Layout { stage: "read", blocks: on_disk },
            Layout { stage: "transaction", blocks: false },
            Layout { stage: "lock", blocks: false },
            Layout { stage: "ack", blocks: false },
            Layout { stage: "storage", blocks: on_disk },
            Layout { stage: "recovery", blocks: false },
        ];
        let all = cores();
        let always = engine::plan(&always, &all, &config.binding);
        // The node gets cores of its own, or none.
        let rest = all.get(always.len()..).filter(|rest| rest.len() >= node.len()).unwrap_or_default();
        let binding = match &config.binding {
            Binding::Cores(given) => Binding::Cores(given.get(always.len()..).unwrap_or_default().to_vec()),
            Binding::Auto if !rest.is_empty() => Binding::Auto,
            Binding::Auto | Binding::Unpinned => Binding::Unpinned,
        };
        Self { node: engine::plan(&node, if rest.is_empty() { &all } else { rest }, &binding), always }
    }
}

/// The two ends of a queue between stages: where events go in, and where they are taken out.
type Queue<E> = (Inlet<E>, Source<E>);

/// Queues among the stages that always run, and between them and those of the node.
struct Queues {
    members: Queue<FromMembers>,
    to_members: Queue<ToMember>,
    records: Queue<Append>,
    answers: Queue<Held>,
    of_log: Queue<FromLog>,
    work: Queue<LogWork>,
    follow: Queue<Follow>,
    garbage: Queue<Garbage>,
    transfer: Queue<Transfer>,
    of_transfer: Queue<FromTransfer>,
    internal: Queue<TranxEvent>,
}

impl Queues {
    fn new(always: Signals<'_>, node: Signals<'_>, counters: &Counters) -> Self {
        let group = always.of("group");
        Self {
            members: queue("members", MEMBER_EVENTS, group, counters),
            to_members: queue("to members", INTERNAL_EVENTS, always.of("network"), counters),
            records: queue("records", INTERNAL_EVENTS, group, counters),
            answers: queue("answers", INTERNAL_EVENTS, group, counters),
            of_log: queue("group", INTERNAL_EVENTS, group, counters),
            work: queue("wal", INTERNAL_EVENTS, always.of("wal"), counters),
            follow: queue("follow", FOLLOW_EVENTS, always.of("follow"), counters),
            garbage: queue("gc", GC_EVENTS, always.of("gc"), counters),
            transfer: queue("transfer", TRANSFER_EVENTS, always.of("transfer"), counters),
            of_transfer: queue("of transfer", TRANSFER_EVENTS, group, counters),
            internal: queue("internal", INTERNAL_EVENTS, node.of("transaction"), counters),
        }
    }

    fn group_outlets(&self, doors: &Doors) -> group::Outlets {
        group::Outlets {
            log: self.work.0.outlet(),
            tranx: self.internal.0.outlet(),
            to_members: self.to_members.0.outlet(),
            to_servers: doors.to_servers.outlet(),
            to_clients: doors.to_clients.outlet(),
            transfer: self.transfer.0.clone(),
        }
    }

    fn wal_outlets(&self) -> member_wal::Outlets {
        let (group, follow, gc) = (self.of_log.0.outlet(), self.follow.0.outlet(), self.garbage.0.outlet());
        member_wal::Outlets { group, follow, gc }
    }

    fn transfer_outlets(&self) -> transfer_stage::Outlets {
        let (group, to_members) = (self.of_transfer.0.outlet(), self.to_members.0.outlet());
        transfer_stage::Outlets { group, to_members, gc: self.garbage.0.outlet() }
    }
}

/// Parts from which the stages are made that always run.
struct Begins<'a> {
    config: &'a ServerConfig,
    stats: &'a Arc<ServerStats>,
    storage: &'a Arc<dyn Storage>,
    planned: Plans,
}

/// The stages behind the network that always run, and their ways to it and to the node.
struct Inside {
    stages: Vec<Box<dyn Stage>>,
    port: MemberPort,
    ways: NodeWays,
    begun: Receiver<Begun>,
    history: Arc<OnceLock<Arc<History>>>,
    restart: Arc<OnceLock<Restart>>,
    given: Receiver<Whole>,
}

impl Begins<'_> {
    fn start(
        self,
        found: Findings<'_>,
        opened: Opened,
        identity: Identity,
    ) -> Result<(MemberEngine, SocketAddr), ServerError> {
        let (config, stats, recovered_records) = (self.config, self.stats, opened.records);
        let (signals, of_node) = (Signals { workers: &self.planned.always }, Signals { workers: &self.planned.node });
        let queues = Queues::new(signals, of_node, &stats.counters);
        let (store, folders) = (identity.store, identity.folders().next());
        let target = Target { config: config.clone(), store, folders };
        let holding = engine::holding(config);
        let (mut port, doors) = engine::doors(of_node, signals.of("network"), stats, self.storage, holding, identity);
        let Inside { mut stages, port: members, ways, begun, history, restart, given } =
            self.inside(found, opened, queues, &doors, target);
        port.members = Some(members);
        let network = NetworkStage::new(config, port)?;
        let address = network.address();
        stages.push(Box::new(network));
        let Plans { always, node: planned } = self.planned;
        let crew = engine::crew(always, stages, &stats.counters, stats.started)?;
        let (config, storage, stats) = (config.clone(), self.storage.clone(), stats.clone());
        let later = Some(Later { config, stats: stats.clone(), planned, doors, ways, storage, history });
        Ok((MemberEngine { node: None, crew, begun, later, restart, given, stats, recovered_records }, address))
    }

    fn inside(&self, found: Findings<'_>, opened: Opened, queues: Queues, doors: &Doors, target: Target) -> Inside {
        let (stats, storage) = (self.stats, self.storage);
        let (outline, state) = (opened.log.outline(), opened.log.state());
        let (mut recovery, pending) = found.end(&outline);
        let segments = recovery.take_segments();
        let ((tell, begun), (whole, given)) = (channel(), channel());
        let (restart, history) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
        let (outlets, wal_outlets) = (queues.group_outlets(doors), queues.wal_outlets());
        let transfer_outlets = queues.transfer_outlets();
        let Queues { internal, garbage, follow, transfer, of_transfer, to_members, .. } = queues;
        let Queues { members, records, answers, of_log, work, .. } = queues;
        let sources = group::Sources {
            members: members.1,
            records: records.1,
            answers: answers.1,
            log: of_log.1,
            transfer: of_transfer.1,
        };
        let me = self.config.member.unwrap_or_default();
        let over = (restart.clone(), whole);
        let stages: Vec<Box<dyn Stage>> = vec![
            Box::new(GroupStage::new(me, stats.clone(), (&outline, state), sources, outlets, over)),
            Box::new(MemberWalStage::new(opened.log, segments, pending, stats.clone(), work.1, wal_outlets)),
            Box::new(FollowStage::new(recovery, storage.clone(), follow.1, tell, garbage.0.outlet())),
            Box::new(GcStage {
                gc: Gc::default(),
                config: Arc::new(engine::node_config(self.config)),
                storage: storage.clone(),
                history: history.clone(),
                collector: opened.collector,
                pin: Pin::new(transfer.0.outlet()),
                stats: stats.clone(),
                source: garbage.1,
                batch: Vec::new(),
                check_at_ms: 0,
                marks: None,
            }),
            Box::new(TransferStage::new(target, storage.clone(), stats.clone(), transfer.1, transfer_outlets)),
        ];
        let ways = NodeWays { internal, log: records.0.outlet(), gc: garbage.0, answers: Some(answers.0.outlet()) };
        let port = MemberPort { group: members.0, to_members: to_members.1, restart: restart.clone() };
        Inside { stages, port, ways, begun, history, restart, given }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn panic_of_the_members_thread_is_its_failure() {
        let shared = Shared::default();
        shared.guard(|| panic!("on purpose"));
        let failure = shared.failure.lock().unwrap().take();
        assert_eq!(failure.map(|error| error.to_string()).as_deref(), Some("the member stage failed: it panicked"));
    }
}
