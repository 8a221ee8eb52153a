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

/// Decisions that a recovery has found are far more than one message has.
#[test]
fn late_decisions_are_sent_again_without_a_pause_as_they_are_acknowledged() {
    let rig = Rig::new(|config| config.decision_resend_ms = 200);
    let (mut acks, mut out) = (AckService::default(), Outbox::default());
    for number in 1..=1_200 {
        acks.restore(number, vec![PEER], Epoch(0));
    }
    let mut said = |acks: &mut AckService, event: Option<AckEvent>, now_ms| {
        let mut turn = Turn { now_ms, config: &rig.node.config, out: &mut out };
        match event {
            Some(event) => acks.on(&mut turn, event),
            None => acks.tick(&mut turn),
        }
        acks.settle(&mut turn);
        let numbers = |(_, message): (ServerId, Message)| match message {
            Message::Decisions(decisions) => (decisions[0].0.number, decisions.len()),
            other => panic!("{other:?}"),
        };
        sent(std::mem::take(&mut out.commands)).into_iter().map(numbers).collect::<Vec<_>>()
    };
    let acknowledged = |numbers: std::ops::RangeInclusive<u64>| {
        Some(AckEvent::Acknowledged { from: PEER, tranxs: numbers.map(|number| tranx(ME, number)).collect() })
    };
    assert_eq!(said(&mut acks, None, 0), [(1, 512)]);
    assert_eq!(said(&mut acks, acknowledged(2..=512), 1), [], "one is not acknowledged yet");
    let late =
        AckEvent::Decided { tranx: tranx(ME, 2_000), outcome: Outcome::Commit(Epoch(0)), participants: vec![PEER] };
    assert_eq!(said(&mut acks, Some(late), 2), [(2_000, 1)]);
    assert_eq!(said(&mut acks, acknowledged(1..=1), 3), [(513, 512)]);
    assert_eq!(said(&mut acks, acknowledged(513..=1_024), 4), [(1_025, 176)]);
    assert_eq!(said(&mut acks, acknowledged(1_025..=1_200), 5), [], "this one was decided a moment ago");
    assert_eq!(said(&mut acks, None, 203), [], "it is not late");
    assert_eq!(said(&mut acks, None, 204), [(2_000, 1)]);
}
