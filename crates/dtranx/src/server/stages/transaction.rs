//! The transaction stage: the node, its clock, and its commands handed on to the other stages.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::BATCH;
use crate::core::{Command, CommitAnswer, Input, Node};
use crate::server::board::Board;
use crate::server::event::{Append, Collect, Outgoing, Store};
use crate::stage::{Outlet, Source, Stage};
use crate::wire::{Reply, Response};

/// How often the board is brought up to date.
const NOTE_EVERY_MS: u64 = 50;

pub(in crate::server) struct TransactionStage {
    pub(in crate::server) node: Node,
    pub(in crate::server) board: Arc<Board>,
    pub(in crate::server) entry: Source<Input>,
    pub(in crate::server) internal: Source<Input>,
    pub(in crate::server) hands: Hands,
    /// What the node wanted when it was recovered, to begin with.
    pub(in crate::server) commands: Vec<Command>,
    pub(in crate::server) batch: Vec<Input>,
    pub(in crate::server) gc_interval_ms: u64,
    pub(in crate::server) collect_at_ms: u64,
    pub(in crate::server) note_at_ms: u64,
}

/// Where commands go.
pub(in crate::server) struct Hands {
    pub(in crate::server) wal: Outlet<Append>,
    pub(in crate::server) storage: Outlet<Store>,
    pub(in crate::server) gc: Outlet<Collect>,
    pub(in crate::server) outgoing: Outlet<Outgoing>,
}

impl Hands {
    fn carry_out(&mut self, command: Command, board: &Board) {
        match command {
            Command::Send { to, message } => self.outgoing.send(Outgoing::Server(to, message)),
            Command::Reply { client, message, answer } => {
                let tally =
                    if matches!(answer, CommitAnswer::Committed(_)) { &board.committed } else { &board.refused };
                tally.fetch_add(1, Ordering::Relaxed);
                let response = Response { id: message.0, reply: Reply::Commit(answer) };
                self.outgoing.send(Outgoing::Client(client, response));
            }
            Command::Log { ticket, record, durable } => self.wal.send(Append { ticket, record, durable }),
            Command::Check { tranx, reads, scans } => self.storage.send(Store::Check { tranx, reads, scans }),
            Command::Apply { tranx, writes } => self.storage.send(Store::Apply { tranx, writes }),
            // Behind the writes that it is about.
            Command::PersistStorage => self.storage.send(Store::Persist),
            Command::WriteGcRecord(record) => self.gc.send(Collect::Write(record)),
            Command::RemoveSegments { through } => self.gc.send(Collect::Remove(through)),
        }
    }

    /// Is everything handed on?
    fn flush(&mut self) -> bool {
        let wal = self.wal.flush();
        let storage = self.storage.flush();
        let gc = self.gc.flush();
        self.outgoing.flush() && wal && storage && gc
    }

    fn are_clear(&self) -> bool {
        self.wal.is_clear() && self.storage.is_clear() && self.gc.is_clear() && self.outgoing.is_clear()
    }
}

impl TransactionStage {
    fn tell(&mut self, now_ms: u64, input: Input) {
        self.node.on(now_ms, input, &mut self.commands);
    }

    fn hand_on(&mut self) {
        for command in self.commands.drain(..) {
            self.hands.carry_out(command, &self.board);
        }
    }

    fn keep_time(&mut self, now_ms: u64) {
        if self.node.next_deadline_ms().is_some_and(|at_ms| at_ms <= now_ms) {
            self.tell(now_ms, Input::Tick);
        }
        if self.collect_at_ms <= now_ms {
            self.collect_at_ms = now_ms + self.gc_interval_ms;
            self.tell(now_ms, Input::CollectGarbage);
        }
        if self.note_at_ms <= now_ms {
            self.note_at_ms = now_ms + NOTE_EVERY_MS;
            self.board.note(&self.node.status());
        }
    }
}

impl Stage for TransactionStage {
    fn name(&self) -> &'static str {
        "transaction"
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        let is_clear = self.hands.flush();
        let mut batch = std::mem::take(&mut self.batch);
        self.internal.take(BATCH, &mut batch);
        if is_clear {
            self.entry.take(BATCH, &mut batch);
        }
        let handled = batch.len();
        for input in batch.drain(..) {
            let is_log = matches!(input, Input::Logged { .. });
            self.tell(now_ms, input);
            if is_log && let Some(incarnation) = self.node.incarnation() {
                self.board.open(incarnation);
            }
        }
        self.batch = batch;
        self.keep_time(now_ms);
        self.hand_on();
        self.hands.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.internal.is_empty() || !self.hands.are_clear() || !self.entry.is_empty()
    }

    fn deadline_ms(&self) -> Option<u64> {
        let soonest = self.collect_at_ms.min(self.note_at_ms);
        Some(self.node.next_deadline_ms().map_or(soonest, |at_ms| at_ms.min(soonest)))
    }
}
