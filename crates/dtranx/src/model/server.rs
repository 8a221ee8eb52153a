//! One server of the model: a node while it runs, and its disk. Each log record is a segment of its
//! own, so that garbage collection can remove the log up to any record.

use std::collections::{BTreeMap, VecDeque};

use super::plan::Plan;
use crate::core::{
    CheckAnswer, Command, Current, Epoch, GcRecord, Input, Item, Key, KeyRange, LogTicket, Map, Node, NodeConfig,
    Record, Recovery, SegmentId, SegmentSummary, ServerId, TranxId, Write, flaw::Flaw, node::Link,
};

/// A server with its log and its storage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) id: ServerId,
    pub(crate) node: Option<Node>,
    /// Whether the server is lost for good, with its log and its items.
    pub(crate) is_ruined: bool,
    /// Whether it is the server that joins.
    pub(super) is_joiner: bool,
    /// Whether its list of servers has the last one. Its disk remembers that.
    pub(super) knows_all: bool,
    /// Whether it is known to all others and has joined. Its disk remembers that.
    pub(super) is_in_use: bool,
    apart: bool,
    slow_storage: bool,
    /// Time of its clock, which moves only to the end of a wait that nothing else ends.
    now_ms: u64,
    /// Commands that a slow storage has not carried out.
    pub(crate) asked: Vec<Command>,
    /// Answers of a slow storage that have not arrived at the node.
    pub(crate) answers: Vec<Input>,
    pub(crate) log: Vec<Record>,
    pub(crate) durable: usize,
    pub(super) removed: usize,
    tickets_from: usize,
    /// Number of records whose segments the node knows to be sealed.
    sealed: usize,
    pub(super) gc_record: Option<GcRecord>,
    pub(crate) items: BTreeMap<Key, Item>,
    pub(super) persisted: BTreeMap<Key, Item>,
    pub(super) history: History,
    /// Commands of the garbage collection that have not been carried out.
    pub(crate) chores: VecDeque<Command>,
}

/// Versions that were replaced, for snapshots of earlier epochs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct History {
    /// Snapshots from the end of this epoch on are kept.
    from: Epoch,
    /// Version of each key before its first write in each epoch after `from`.
    replaced: BTreeMap<Key, Vec<(Epoch, Option<TranxId>)>>,
}

impl Server {
    pub(crate) fn new(id: ServerId, plan: &Plan) -> Self {
        Self {
            id,
            node: None,
            is_ruined: false,
            is_joiner: plan.joiner() == Some(id),
            knows_all: !plan.old_lists.contains(&id.0),
            is_in_use: plan.joiner() != Some(id),
            apart: plan.apart,
            slow_storage: plan.slow_storage == Some(id.0),
            now_ms: 0,
            asked: vec![],
            answers: vec![],
            log: vec![],
            durable: 0,
            removed: 0,
            tickets_from: 0,
            sealed: 0,
            gc_record: None,
            items: BTreeMap::new(),
            persisted: BTreeMap::new(),
            history: History::default(),
            chores: VecDeque::new(),
        }
    }

    /// Configuration of its node, with the servers of its list.
    fn config(&self, plan: &Plan) -> NodeConfig {
        let mut config = plan.config(self.id);
        config.servers.extend(plan.joiner().filter(|_| self.knows_all));
        config.joins = !self.is_in_use;
        config
    }

    /// Returns true if it takes parts of transactions.
    pub(super) fn takes_part(&self) -> bool {
        self.is_in_use || self.node.as_ref().is_some_and(|node| node.config().has(Flaw::UnmetTakesParts))
    }

    /// Returns true if the server runs, and has not come to the end of this epoch.
    pub(super) fn is_behind(&self, epoch: Epoch) -> bool {
        self.node.as_ref().is_some_and(|node| node.tranx.epochs.readable(node.config()) <= epoch)
    }

    /// Starts the node from the disk's contents. Its commands for others are added to `out`, the
    /// transactions that it applies to `applied`.
    pub(crate) fn start(&mut self, plan: &Plan, out: &mut Vec<Command>, applied: &mut Vec<(TranxId, Vec<Write>)>) {
        let mut recovery = self.replay(plan, self.log.len(), applied);
        recovery.stored_map(self.items.get(&Key::of_map())).unwrap();
        self.tickets_from = self.log.len();
        self.sealed = self.log.len();
        let mut commands = Vec::new();
        let node = recovery.finish(self.now_ms, &mut commands);
        self.history.from = node.tranx.epochs.now();
        self.node = Some(node);
        self.carry_out(commands, out, applied);
    }

    /// Applies again what the first `through` records of the log commit.
    pub(super) fn replay(&mut self, plan: &Plan, through: usize, applied: &mut Vec<(TranxId, Vec<Write>)>) -> Recovery {
        let mut recovery = Recovery::new(self.config(plan), self.gc_record.clone());
        for (at, record) in self.log[..through].iter().cloned().enumerate().skip(self.removed) {
            if let Some((tranx, writes)) = recovery.record(SegmentId(at as u64), record) {
                write(&mut self.items, tranx, &writes);
                applied.push((tranx, writes));
            }
        }
        recovery
    }

    /// The log, read into a recovery that is not finished.
    pub(crate) fn read(&self, plan: &Plan) -> Recovery {
        self.read_first(plan, self.log.len())
    }

    /// The first `through` records of the log, read into a recovery.
    pub(super) fn read_first(&self, plan: &Plan, through: usize) -> Recovery {
        let mut recovery = Recovery::new(self.config(plan), self.gc_record.clone());
        for (at, record) in self.log[..through].iter().cloned().enumerate().skip(self.removed) {
            drop(recovery.record(SegmentId(at as u64), record));
        }
        recovery
    }

    /// Crashes. The first `kept` records that were not durable survive, and so do the writes that
    /// the storage had not persisted if `persists` is true: until the next crash, at which they may
    /// be lost.
    pub(crate) fn crash(&mut self, kept: usize, persists: bool) {
        self.stop();
        self.log.truncate(self.durable + kept);
        self.durable = self.log.len();
        if !persists {
            self.items = self.persisted.clone();
        }
    }

    /// Drops the node, and leaves log and items as they are.
    pub(super) fn stop(&mut self) {
        self.node = None;
        self.chores.clear();
        self.asked.clear();
        self.answers.clear();
        self.history.replaced.clear();
    }

    /// Returns true if the storage has writes that a crash could lose.
    pub(crate) fn has_unpersisted(&self) -> bool {
        self.items != self.persisted
    }

    /// Gives the node an event and carries out the commands that follow.
    pub(crate) fn on(&mut self, input: Input, out: &mut Vec<Command>, applied: &mut Vec<(TranxId, Vec<Write>)>) {
        let mut commands = Vec::new();
        match &mut self.node {
            Some(node) if self.apart => node.take(self.now_ms, input, &mut commands),
            Some(node) => node.on(self.now_ms, input, &mut commands),
            None => {}
        }
        self.carry_out(commands, out, applied);
    }

    /// Moves the clock to the node's next deadline.
    pub(crate) fn wait(&mut self) {
        let deadline_ms = self.node.as_ref().and_then(Node::next_deadline_ms);
        self.now_ms = self.now_ms.max(deadline_ms.unwrap_or(0));
    }

    /// Delivers the next event on a link between two machines of the node.
    pub(crate) fn pass(&mut self, link: Link, out: &mut Vec<Command>, applied: &mut Vec<(TranxId, Vec<Write>)>) {
        let mut commands = Vec::new();
        if let Some(node) = &mut self.node {
            node.deliver(self.now_ms, link, &mut commands);
        }
        self.carry_out(commands, out, applied);
    }

    /// Links between machines of the node that have an event under way.
    pub(crate) fn links(&self) -> impl Iterator<Item = Link> {
        self.node.iter().flat_map(Node::links)
    }

    /// Returns true if the server runs and has nothing under way, neither to its disk nor between
    /// its machines.
    pub(crate) fn is_silent(&self) -> bool {
        if self.is_ruined {
            return true;
        }
        let is_disk_done = self.durable == self.log.len() && self.chores.is_empty();
        let is_storage_done = self.asked.is_empty() && self.answers.is_empty();
        self.node.is_some() && is_disk_done && is_storage_done && self.links().next().is_none()
    }

    /// Makes all log records durable.
    pub(crate) fn flush(&mut self, out: &mut Vec<Command>, applied: &mut Vec<(TranxId, Vec<Write>)>) {
        self.durable = self.log.len();
        self.report(self.durable, 0, out, applied);
    }

    /// Tells the node that the first `through` records of the log are durable, of which `others`
    /// came since its start and are not its own.
    pub(super) fn report(
        &mut self,
        through: usize,
        others: usize,
        out: &mut Vec<Command>,
        applied: &mut Vec<(TranxId, Vec<Write>)>,
    ) {
        for at in self.sealed..through {
            let summary = self.summary(at);
            self.on(Input::SegmentSealed { segment: SegmentId(at as u64), summary }, out, applied);
        }
        self.sealed = self.sealed.max(through);
        let through = LogTicket((through - self.tickets_from - others) as u64);
        self.on(Input::Logged { through }, out, applied);
    }

    /// Summary of a record, which is a segment.
    pub(super) fn summary(&self, at: usize) -> SegmentSummary {
        let mut summary = SegmentSummary::default();
        summary.note(&self.log[at]);
        summary
    }

    /// Carries out the next command of the garbage collection.
    pub(crate) fn do_chore(&mut self, out: &mut Vec<Command>, applied: &mut Vec<(TranxId, Vec<Write>)>) {
        match self.chores.pop_front() {
            Some(Command::PersistStorage) => {
                self.persisted = self.items.clone();
                self.on(Input::StoragePersisted, out, applied);
            }
            Some(Command::WriteGcRecord(record)) => {
                self.gc_record = Some(record);
                self.on(Input::GcRecorded, out, applied);
            }
            Some(Command::RemoveSegments { through }) => self.removed = through.0 as usize + 1,
            _ => {}
        }
    }

    /// Number of log records that are not removed.
    pub(crate) fn log_len(&self) -> usize {
        self.log.len() - self.removed.min(self.log.len())
    }

    /// Carries out one command of a slow storage; the answer is then under way to the node.
    pub(crate) fn work(&mut self, at: usize, applied: &mut Vec<(TranxId, Vec<Write>)>) {
        let command = self.asked.remove(at);
        let answer = self.store(command, applied);
        self.answers.extend(answer);
    }

    /// Gives the node one answer of a slow storage.
    pub(crate) fn hear(&mut self, at: usize, out: &mut Vec<Command>, applied: &mut Vec<(TranxId, Vec<Write>)>) {
        let answer = self.answers.remove(at);
        self.on(answer, out, applied);
    }

    /// Keeps the versions that `writes` replace, for snapshots of earlier epochs.
    fn keep(&mut self, epoch: Epoch, writes: &[Write]) {
        for Write { key, .. } in writes.iter().filter(|_| epoch > self.history.from) {
            let version = self.items.get(key).map(|item| item.version);
            let replaced = self.history.replaced.entry(key.clone()).or_default();
            if replaced.last().is_none_or(|(written, _)| *written < epoch) {
                replaced.push((epoch, version));
            }
        }
    }

    /// Version of a key at the end of an epoch; `None` if the server does not keep that epoch any
    /// more.
    pub(crate) fn read_at(&self, epoch: Epoch, key: &Key) -> Option<Option<TranxId>> {
        if epoch < self.history.from {
            return None;
        }
        let replaced = self.history.replaced.get(key).and_then(|replaced| replaced.iter().find(|(at, _)| *at > epoch));
        Some(replaced.map_or_else(|| self.items.get(key).map(|item| item.version), |(_, version)| *version))
    }

    fn scan(&self, range: &KeyRange) -> Vec<(Key, TranxId)> {
        let within = self.items.iter().filter(|(key, _)| range.contains(key) && **key != Key::of_map());
        within.map(|(key, item)| (key.clone(), item.version)).collect()
    }

    /// The map that the server has stored: the ranges that it holds are those of this map.
    pub(crate) fn map(&self, plan: &Plan) -> Map {
        Map::stored(self.items.get(&Key::of_map()), &plan.partition()).unwrap()
    }

    fn store(&mut self, command: Command, applied: &mut Vec<(TranxId, Vec<Write>)>) -> Option<Input> {
        match command {
            Command::Check { work, reads, scans } => {
                let stale = |read: &crate::core::Read| {
                    let item = self.items.get(&read.key).cloned();
                    let is_stale = item.as_ref().map(|item| item.version) != read.version;
                    is_stale.then(|| Current { key: read.key.clone(), item })
                };
                let stale_scans = scans.iter().any(|scan| self.scan(&scan.range) != scan.found);
                let answer = CheckAnswer { stale: reads.iter().filter_map(stale).collect(), stale_scans };
                Some(Input::Checked { work, answer })
            }
            Command::Apply { tranx, epoch, writes } => {
                self.keep(epoch, &writes);
                write(&mut self.items, tranx, &writes);
                applied.push((tranx, writes));
                Some(Input::Applied { tranx })
            }
            _ => None,
        }
    }

    fn carry_out(&mut self, commands: Vec<Command>, out: &mut Vec<Command>, applied: &mut Vec<(TranxId, Vec<Write>)>) {
        for command in commands {
            match command {
                Command::Log { record, .. } => self.log.push(record),
                Command::Check { .. } | Command::Apply { .. } if self.slow_storage => self.asked.push(command),
                Command::Check { .. } | Command::Apply { .. } => {
                    if let Some(answer) = self.store(command, applied) {
                        self.on(answer, out, applied);
                    }
                }
                Command::PersistStorage | Command::WriteGcRecord(_) | Command::RemoveSegments { .. } => {
                    self.chores.push_back(command);
                }
                Command::Send { .. } | Command::Reply { .. } | Command::ReplySnapshot { .. } => out.push(command),
            }
        }
    }
}

fn write(items: &mut BTreeMap<Key, Item>, tranx: TranxId, writes: &[Write]) {
    for Write { key, value } in writes {
        match value {
            Some(value) => items.insert(key.clone(), Item { value: value.clone(), version: tranx }),
            None => items.remove(key),
        };
    }
}
