//! The acknowledgement stage: the second phase, a batch of events at a time (section 4.5: Batch Ack
//! Phase).

use super::side::SideMachine;
use crate::core::acknowledgement::AckService;
use crate::core::machine::{AckEvent, Turn};

impl SideMachine for AckService {
    const STAGE: &'static str = "ack";
    type Event = AckEvent;

    fn on(&mut self, turn: &mut Turn<'_>, event: AckEvent) {
        Self::on(self, turn, event);
    }

    fn tick(&mut self, turn: &mut Turn<'_>) {
        Self::tick(self, turn);
    }

    fn next_deadline_ms(&self) -> Option<u64> {
        Self::next_deadline_ms(self)
    }

    fn settle(&mut self, turn: &mut Turn<'_>) {
        Self::settle(self, turn);
    }
}
