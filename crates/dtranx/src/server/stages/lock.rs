//! The lock stage: the lock service and its clock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{BATCH, unexpected};
use crate::core::NodeConfig;
use crate::core::lock::LockService;
use crate::core::machine::{Event, LockEvent, Outbox, TranxEvent, Turn};
use crate::server::stats::ServerStats;
use crate::stage::{Outlet, Source, Stage};

pub(in crate::server) struct LockStage {
    locks: LockService,
    config: Arc<NodeConfig>,
    stats: Arc<ServerStats>,
    source: Source<LockEvent>,
    tell: Outlet<TranxEvent>,
    batch: Vec<LockEvent>,
    out: Outbox,
}

impl LockStage {
    pub(in crate::server) fn new(
        locks: LockService,
        config: Arc<NodeConfig>,
        stats: Arc<ServerStats>,
        source: Source<LockEvent>,
        tell: Outlet<TranxEvent>,
    ) -> Self {
        Self { locks, config, stats, source, tell, batch: Vec::new(), out: Outbox::default() }
    }
}

impl Stage for LockStage {
    fn name(&self) -> &'static str {
        "lock"
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        if self.is_idle(now_ms) {
            return Ok(0);
        }
        let handled = self.source.take(BATCH, &mut self.batch);
        let is_late = self.locks.next_deadline_ms().is_some_and(|at_ms| at_ms <= now_ms);
        let mut turn = Turn { now_ms, config: &self.config, out: &mut self.out };
        for event in self.batch.drain(..) {
            self.locks.on(&mut turn, event);
        }
        if is_late {
            self.locks.tick(&mut turn);
        }
        for event in self.out.events.drain(..) {
            match event {
                Event::Tranx(event) => self.tell.send(event),
                event => return Err(unexpected(&event)),
            }
        }
        self.tell.flush();
        if handled > 0 || is_late {
            self.stats.locking.store(self.locks.len() as u64, Ordering::Relaxed);
            self.stats.lock_waiting.store(self.locks.waiting() as u64, Ordering::Relaxed);
        }
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.source.is_empty() || !self.tell.is_clear()
    }

    fn deadline_ms(&self) -> Option<u64> {
        self.locks.next_deadline_ms()
    }
}
