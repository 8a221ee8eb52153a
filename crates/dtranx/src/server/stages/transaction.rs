//! The transaction stage: the transaction service, its clock, and the hand-over of its commands and
//! events to the other stages.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::BATCH;
use crate::core::machine::{AckEvent, Event, LockEvent, Outbox, RecoveryEvent, TranxEvent, Turn};
use crate::core::tranx_service::TranxService;
use crate::core::{Command, CommitAnswer, NodeConfig};
use crate::server::event::{Append, Garbage, Store, ToClient, ToServer};
use crate::server::member_event::Held;
use crate::server::stats::ServerStats;
use crate::stage::{Inlet, Outlet, Source, Stage};
use crate::storage::Storage;
use crate::wire::{Reply, Response};

/// As long as so many records wait for the log, nothing is begun for clients: a vote of a server
/// would wait behind them. It is enough for the log to be always busy.
const LOG_BACKLOG: usize = 2 * BATCH;
/// Time between two updates of the statistics, in milliseconds.
const NOTE_EVERY_MS: u64 = 50;

pub(in crate::server) struct TransactionStage {
    pub(in crate::server) tranx: TranxService,
    pub(in crate::server) config: Arc<NodeConfig>,
    pub(in crate::server) stats: Arc<ServerStats>,
    /// Requests of clients.
    pub(in crate::server) entry: Source<TranxEvent>,
    /// Requests of other servers.
    pub(in crate::server) peers: Source<TranxEvent>,
    pub(in crate::server) internal: Source<TranxEvent>,
    pub(in crate::server) outlets: Outlets,
    /// Results of local recovery, to begin with.
    pub(in crate::server) out: Outbox,
    pub(in crate::server) storage: Arc<dyn Storage>,
    pub(in crate::server) batch: Vec<TranxEvent>,
    pub(in crate::server) gc_interval_ms: u64,
    pub(in crate::server) collect_at_ms: u64,
    pub(in crate::server) note_at_ms: u64,
    /// Time at which clients' requests were last left in their queue.
    pub(in crate::server) held_back_ms: Option<u64>,
}

/// Queues to which commands and events go.
pub(in crate::server) struct Outlets {
    pub(in crate::server) wal: Outlet<Append>,
    pub(in crate::server) storage: Outlet<Store>,
    pub(in crate::server) to_servers: Outlet<ToServer>,
    pub(in crate::server) to_clients: Outlet<ToClient>,
    pub(in crate::server) lock: Outlet<LockEvent>,
    pub(in crate::server) ack: Outlet<AckEvent>,
    pub(in crate::server) recovery: Outlet<RecoveryEvent>,
    pub(in crate::server) gc: Inlet<Garbage>,
    /// In a group: to where answers go that speak of now.
    pub(in crate::server) answers: Option<Outlet<Held>>,
}

impl Outlets {
    fn carry_out(&mut self, command: Command, stats: &ServerStats) -> Result<(), String> {
        let is_held = command.speaks_of_now();
        match command {
            Command::Send { to, message } => self.send(ToServer { to, message }, is_held),
            Command::Reply { client, message, answer } => {
                let is_committed = matches!(answer, CommitAnswer::Committed(_) | CommitAnswer::Validated(_));
                let tally = if is_committed { &stats.committed } else { &stats.refused };
                tally.fetch_add(1, Ordering::Relaxed);
                let response = Response { id: message.0, reply: Reply::Commit(answer) };
                self.reply(ToClient { client, response }, is_held);
            }
            Command::ReplySnapshot { client, message, answer } => {
                let response = Response { id: message.0, reply: Reply::Snapshot(answer) };
                self.reply(ToClient { client, response }, is_held);
            }
            Command::Log { ticket, record, durable } => self.wal.send(Append { ticket, record, durable }),
            Command::Check { work, reads, scans } => self.storage.send(Store::Check { work, reads, scans }),
            Command::Apply { tranx, epoch, writes } => self.storage.send(Store::Apply { tranx, epoch, writes }),
            command @ (Command::PersistStorage | Command::WriteGcRecord(_) | Command::RemoveSegments { .. }) => {
                return Err(format!("a command that it cannot carry out: {command:?}"));
            }
        }
        Ok(())
    }

    /// Sends a message; in a group, one that speaks of now goes by a round.
    fn send(&mut self, message: ToServer, is_held: bool) {
        match self.answers.as_mut().filter(|_| is_held) {
            Some(answers) => answers.send(Held::ToServer(message)),
            None => self.to_servers.send(message),
        }
    }

    /// Answers a client, as [`Outlets::send`] does a server.
    fn reply(&mut self, answer: ToClient, is_held: bool) {
        match self.answers.as_mut().filter(|_| is_held) {
            Some(answers) => answers.send(Held::ToClient(answer)),
            None => self.to_clients.send(answer),
        }
    }

    fn tell(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Lock(event) => self.lock.send(event),
            Event::Ack(event) => self.ack.send(event),
            Event::Recovery(event) => self.recovery.send(event),
            // The collection may wait for its disk for long, and these marks will soon be replaced
            // by higher ones.
            Event::Gc(event) => drop(self.gc.offer(Garbage::Event(event))),
            event @ Event::Tranx(_) => return Err(super::unexpected(&event)),
        }
        Ok(())
    }

    /// Hands on the commands that are kept. True: nothing is left.
    fn flush(&mut self) -> bool {
        let disks = self.wal.flush() & self.storage.flush();
        let machines = self.lock.flush() & self.ack.flush() & self.recovery.flush();
        let connections = self.to_servers.flush() & self.to_clients.flush();
        let answers = self.answers.as_mut().is_none_or(Outlet::flush);
        connections && disks && machines && answers
    }

    fn are_clear(&self) -> bool {
        let disks = self.wal.is_clear() && self.storage.is_clear();
        let machines = self.lock.is_clear() && self.ack.is_clear() && self.recovery.is_clear();
        let connections = self.to_servers.is_clear() && self.to_clients.is_clear();
        let answers = self.answers.as_ref().is_none_or(Outlet::is_clear);
        connections && disks && machines && answers
    }
}

impl TransactionStage {
    fn handle(&mut self, now_ms: u64, event: TranxEvent) {
        self.tranx.on(&mut Turn { now_ms, config: &self.config, out: &mut self.out }, event);
    }

    /// Hands on the commands. A check that the cache can answer is done at once: to compare
    /// versions is quicker than to send the check to the storage, and no stage of a lock's holder
    /// waits for another then. That is in order although writes of others may lie in the storage's
    /// queue: a checked key that is locked has none there, because a lock is released only after
    /// its writes are applied; and of a key that is not locked only what it held when the request
    /// reached the lock service matters.
    fn hand_on(&mut self, now_ms: u64) -> Result<(), String> {
        while !self.out.commands.is_empty() {
            let (mut commands, mut checked) = (std::mem::take(&mut self.out.commands), Vec::new());
            for command in commands.drain(..) {
                match cached_check(&*self.storage, &command) {
                    Some(answer) => checked.push(answer),
                    None => self.outlets.carry_out(command, &self.stats)?,
                }
            }
            self.out.commands = commands;
            for answer in checked {
                self.handle(now_ms, answer);
            }
        }
        for event in self.out.events.drain(..) {
            self.outlets.tell(event)?;
        }
        Ok(())
    }

    /// Returns true if requests of clients are begun now.
    fn admits_clients(&self) -> bool {
        self.outlets.wal.waiting() < LOG_BACKLOG
    }

    fn keep_time(&mut self, now_ms: u64) {
        if self.tranx.next_deadline_ms().is_some_and(|at_ms| at_ms <= now_ms) {
            self.tranx.tick(&mut Turn { now_ms, config: &self.config, out: &mut self.out });
        }
        if self.collect_at_ms <= now_ms {
            self.collect_at_ms = now_ms + self.gc_interval_ms;
            self.handle(now_ms, TranxEvent::CollectGarbage);
        }
    }
}

fn cached_check(storage: &dyn Storage, command: &Command) -> Option<TranxEvent> {
    let Command::Check { work, reads, scans } = command else { return None };
    let answer = if scans.is_empty() { storage.check_cached(reads) } else { None };
    answer.map(|answer| TranxEvent::Checked { work: *work, answer })
}

impl Stage for TransactionStage {
    fn name(&self) -> &'static str {
        "transaction"
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        let is_clear = self.outlets.flush();
        let mut batch = std::mem::take(&mut self.batch);
        self.internal.take(BATCH, &mut batch);
        if is_clear {
            self.peers.take(BATCH, &mut batch);
        }
        let admits = self.admits_clients();
        if is_clear && admits {
            self.entry.take(BATCH, &mut batch);
        }
        self.held_back_ms = (!admits).then_some(now_ms);
        let handled = batch.len();
        for event in batch.drain(..) {
            let is_log = matches!(event, TranxEvent::Logged { .. });
            self.handle(now_ms, event);
            if is_log && let Some(incarnation) = self.tranx.coordinator.incarnation() {
                self.stats.open(incarnation);
            }
        }
        self.batch = batch;
        // Before any other machine or server learns that the epoch is entered.
        self.stats.enter(self.tranx.epochs.readable(&self.config));
        self.stats.note_joined(self.tranx.joining.is_over());
        if is_clear {
            self.keep_time(now_ms);
        }
        if self.note_at_ms <= now_ms {
            self.note_at_ms = now_ms + NOTE_EVERY_MS;
            self.stats.note(&self.tranx);
        }
        self.hand_on(now_ms)?;
        self.outlets.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        let is_asked = !self.peers.is_empty() || self.admits_clients() && !self.entry.is_empty();
        is_asked || !self.internal.is_empty() || !self.outlets.are_clear()
    }

    fn deadline_ms(&self) -> Option<u64> {
        let soonest = self.collect_at_ms.min(self.note_at_ms);
        // The log does not always say when it is done.
        let soonest = self.held_back_ms.map_or(soonest, |at_ms| soonest.min(at_ms + 1));
        Some(self.tranx.next_deadline_ms().map_or(soonest, |at_ms| at_ms.min(soonest)))
    }
}
