//! The acknowledgement stage: the second phase, a batch of events at a time (section 4.5: Batch Ack Phase).

use std::sync::Arc;

use super::{BATCH, SideHands};
use crate::core::NodeConfig;
use crate::core::acknowledgement::{AckEvent, AckService};
use crate::core::machine::{Outbox, Turn};
use crate::stage::{Source, Stage};

pub(in crate::server) struct AckStage {
    pub(in crate::server) acks: AckService,
    pub(in crate::server) config: Arc<NodeConfig>,
    /// What other servers have acknowledged.
    pub(in crate::server) entry: Source<AckEvent>,
    pub(in crate::server) internal: Source<AckEvent>,
    pub(in crate::server) hands: SideHands,
    pub(in crate::server) batch: Vec<AckEvent>,
    pub(in crate::server) out: Outbox,
}

impl Stage for AckStage {
    fn name(&self) -> &'static str {
        "ack"
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        if self.is_idle(now_ms) {
            return Ok(0);
        }
        let is_clear = self.hands.flush();
        self.internal.take(BATCH, &mut self.batch);
        if is_clear {
            self.entry.take(BATCH, &mut self.batch);
        }
        let handled = self.batch.len();
        let mut turn = Turn { now_ms, config: &self.config, out: &mut self.out };
        for event in self.batch.drain(..) {
            self.acks.on(&mut turn, event);
        }
        if is_clear && self.acks.next_deadline_ms().is_some_and(|at_ms| at_ms <= now_ms) {
            self.acks.tick(&mut turn);
        }
        self.acks.settle(&mut turn);
        self.hands.hand_on(&mut self.out)?;
        self.hands.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.internal.is_empty() || !self.entry.is_empty() || !self.hands.are_clear()
    }

    fn deadline_ms(&self) -> Option<u64> {
        self.acks.next_deadline_ms()
    }
}
