//! The acknowledgement service by itself: what its stage does with a batch of events.

use super::*;
use crate::core::acknowledgement::AckService;
use crate::core::machine::{AckEvent, Outbox, Turn};

#[test]
fn decisions_of_a_batch_are_sent_together_and_at_once() {
    let rig = Rig::new(|config| config.acknowledgement_delay_ms = 3);
    let (mut acks, mut out) = (AckService::default(), Outbox::default());
    let mut turn = Turn { now_ms: 0, config: &rig.node.config, out: &mut out };
    for number in 1..=2 {
        let participants = vec![ME, PEER];
        acks.on(
            &mut turn,
            AckEvent::Decided { tranx: tranx(ME, number), outcome: Outcome::Commit(Epoch(0)), participants },
        );
    }
    assert!(turn.out.commands.is_empty(), "the batch is not over");
    acks.settle(&mut turn);
    let both = vec![(tranx(ME, 1), Outcome::Commit(Epoch(0))), (tranx(ME, 2), Outcome::Commit(Epoch(0)))];
    assert_eq!(sent(out.commands), [(PEER, Message::Decisions(both))]);
}
