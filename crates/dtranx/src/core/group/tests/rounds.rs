//! Answers that speak of now (G6).

use super::*;

const FIRST: AnswerId = AnswerId(1);
const SECOND: AnswerId = AnswerId(2);

fn released(out: &[Command]) -> Vec<AnswerId> {
    let answer = |command: &Command| match command {
        Command::Release { answer } => Some(*answer),
        _ => None,
    };
    out.iter().filter_map(answer).collect()
}

fn hold(rig: &mut Rig, answer: AnswerId) -> Vec<Command> {
    let life = Term::new(1);
    rig.on(A, Event::Hold { life, answer })
}

#[test]
fn answer_waits_for_a_round() {
    let mut rig = Rig::led();
    assert_eq!(released(&hold(&mut rig, FIRST)), []);
    rig.deliver(A, B);
    assert_eq!(released(&rig.deliver(B, A)), [FIRST]);
    rig.deliver(A, C);
    assert_eq!(released(&rig.deliver(C, A)), [], "once");
}

#[test]
fn round_that_ended_before_does_not_count() {
    let mut rig = Rig::led();
    rig.tick(A, Timer::Heartbeat);
    rig.deliver(A, B);
    rig.deliver(B, A);
    rig.deliver(A, C);
    assert_eq!(released(&hold(&mut rig, FIRST)), []);
    assert_eq!(released(&rig.deliver(C, A)), [], "c confirms the round before");
    rig.deliver(A, C);
    assert_eq!(released(&rig.deliver(C, A)), [FIRST]);
}

#[test]
fn round_that_began_before_does_not_count() {
    let mut rig = Rig::led();
    hold(&mut rig, FIRST);
    rig.deliver(A, B);
    // The round is under way, and its answer too.
    assert_eq!(released(&hold(&mut rig, SECOND)), []);
    assert_eq!(released(&rig.deliver(B, A)), [FIRST]);
    rig.deliver(A, B);
    assert_eq!(released(&rig.deliver(B, A)), [SECOND], "the next round has begun by itself");
}

#[test]
fn leader_that_others_have_replaced_gets_no_answer_out() {
    let mut rig = Rig::led();
    rig.elect_among(B, &[B, C]);
    assert_eq!(rig.groups[A].leads(), Some(Term::new(1)), "a believes in itself");
    hold(&mut rig, FIRST);
    for other in [B, C] {
        rig.deliver(A, other);
        assert_eq!(released(&rig.deliver(other, A)), []);
    }
    // Nor does anything leave later.
    rig.tick(B, Timer::Heartbeat);
    let out = rig.settle(&[A, B, C]);
    assert!(!out.iter().any(|(_, command)| matches!(command, Command::Release { .. })));
}

#[test]
fn answers_of_a_life_end_with_it() {
    let mut rig = Rig::led();
    hold(&mut rig, FIRST);
    rig.mail.clear();
    for _ in 0..2 {
        rig.tick(A, Timer::Contact);
    }
    assert_eq!(rig.groups[A].leads(), None);
    let out = rig.elect(A);
    assert!(!out.iter().any(|(_, command)| matches!(command, Command::Release { .. })));
    assert_eq!(released(&hold(&mut rig, SECOND)), [], "nor is one of the old life held");
    let out = rig.settle(&[A, B, C]);
    assert!(!out.iter().any(|(_, command)| matches!(command, Command::Release { .. })));
}

#[test]
fn round_of_a_term_that_is_over_is_not_confirmed() {
    let mut rig = Rig::led();
    rig.elect_among(B, &[B, C]);
    let out = rig.receive(C, A, Message::Round { term: Term::new(1), number: 1 });
    assert_eq!(out, []);
}
