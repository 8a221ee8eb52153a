//! The recovery stage: asks other servers about what is in doubt (section 4.4: global recovery). Local recovery comes
//! before all stages: see `server::recover`.

use std::sync::Arc;

use super::{BATCH, SideHands};
use crate::core::NodeConfig;
use crate::core::machine::{Outbox, Turn};
use crate::core::recovery::{RecoveryEvent, RecoveryService};
use crate::stage::{Source, Stage};

pub(in crate::server) struct RecoveryStage {
    pub(in crate::server) recovery: RecoveryService,
    pub(in crate::server) config: Arc<NodeConfig>,
    /// What other servers answer.
    pub(in crate::server) entry: Source<RecoveryEvent>,
    pub(in crate::server) internal: Source<RecoveryEvent>,
    pub(in crate::server) hands: SideHands,
    pub(in crate::server) batch: Vec<RecoveryEvent>,
    pub(in crate::server) out: Outbox,
}

impl Stage for RecoveryStage {
    fn name(&self) -> &'static str {
        "recovery"
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
            self.recovery.on(&mut turn, event);
        }
        if is_clear && self.recovery.next_deadline_ms().is_some_and(|at_ms| at_ms <= now_ms) {
            self.recovery.tick(&mut turn);
        }
        self.hands.hand_on(&mut self.out)?;
        self.hands.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.internal.is_empty() || !self.entry.is_empty() || !self.hands.are_clear()
    }

    fn deadline_ms(&self) -> Option<u64> {
        self.recovery.next_deadline_ms()
    }
}
