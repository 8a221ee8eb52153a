//! The recovery stage: inquires of other servers about what is in doubt (section 4.4: global
//! recovery). Local recovery comes before all stages: see `server::recover`.

use super::side::SideMachine;
use crate::core::machine::{RecoveryEvent, Turn};
use crate::core::recovery_service::RecoveryService;

impl SideMachine for RecoveryService {
    const STAGE: &'static str = "recovery";
    type Event = RecoveryEvent;

    fn on(&mut self, turn: &mut Turn<'_>, event: RecoveryEvent) {
        Self::on(self, turn, event);
    }

    fn tick(&mut self, turn: &mut Turn<'_>) {
        Self::tick(self, turn);
    }

    fn next_deadline_ms(&self) -> Option<u64> {
        Self::next_deadline_ms(self)
    }
}
