//! What an entry makes void (G8).

use super::*;

fn written(out: &[Command]) -> Vec<Position> {
    let entries = |command: &Command| match command {
        Command::Write { entries: Some(entries), .. } => entries.iter_with_positions().map(|(at, _)| at).collect(),
        _ => vec![],
    };
    out.iter().flat_map(entries).collect()
}

#[test]
fn late_batch_is_not_the_whole_truth() {
    let mut rig = Rig::with([(1, 0, &[]), (1, 0, &[]), (1, 1, &[1, 1, 1, 1, 1])]);
    let out = rig.receive(C, A, batch(A, 1, Position::ZERO, &[1, 1, 1], 1));
    assert_eq!(written(&out), []);
    assert_eq!(rig.groups[C].last(), at(1, 5));
}

#[test]
fn entries_become_void_from_the_first_that_differs() {
    let mut rig = Rig::with([(1, 0, &[]), (1, 0, &[]), (1, 2, &[1, 1, 1, 1])]);
    let out = rig.receive(C, B, batch(B, 2, Position::ZERO, &[1, 1, 1, 2, 2], 2));
    assert_eq!(written(&out), [at(2, 4), at(2, 5)]);
}

#[test]
fn entries_of_one_term_are_not_written_again_where_a_later_term_begins() {
    // The batch ends before the leader's own term begins, so its terms say nothing of a conflict.
    let mut rig = Rig::with([(1, 0, &[]), (1, 0, &[]), (2, 2, &[1, 1, 2])]);
    let out = rig.receive(C, A, batch(A, 3, at(1, 1), &[1, 1, 1], 2));
    assert_eq!(written(&out), [at(1, 3), at(1, 4)]);
}

#[test]
fn committed_entry_is_not_replaced() {
    let mut rig = Rig::with([(1, 0, &[]), (1, 0, &[]), (1, 3, &[1, 1, 1, 1])]);
    let out = rig.receive(C, B, batch(B, 2, at(1, 2), &[2], 2));
    let (ours, theirs) = (Term::new(1), Term::new(2));
    assert_eq!(out, [Command::Stop(Damage::Cut { index: Index::new(3), ours, theirs })]);
    assert_eq!(rig.tick(C, Timer::Election), [], "nothing follows");
}

#[test]
fn committed_entry_is_not_dropped_for_a_place_that_contradicts_it() {
    let mut rig = Rig::with([(1, 0, &[]), (1, 0, &[]), (1, 3, &[1, 1, 1, 1])]);
    let out = rig.receive(C, B, batch(B, 2, at(2, 3), &[], 3));
    let (ours, theirs) = (Term::new(1), Term::new(2));
    assert_eq!(out, [Command::Stop(Damage::Cut { index: Index::new(3), ours, theirs })]);
}

#[test]
fn entry_that_is_known_to_be_committed_since_the_start_is_not_replaced() {
    let mut rig = Rig::led();
    for _ in 0..3 {
        rig.append(A);
        rig.settle(&[A, B, C]);
    }
    rig.crash(C, 0);
    let out = rig.receive(C, B, batch(B, 2, at(1, 1), &[2], 1));
    assert!(matches!(out[..], [Command::Stop(Damage::Cut { .. })]), "{out:?}");
}

#[test]
fn late_batch_of_a_term_that_is_over_is_no_damage() {
    let mut rig = Rig::with([(1, 0, &[]), (1, 0, &[]), (2, 3, &[1, 1, 2])]);
    let out = rig.receive(C, A, batch(A, 1, at(1, 2), &[1], 2));
    assert!(!out.iter().any(|command| matches!(command, Command::Stop(_))), "{out:?}");
}

#[test]
fn end_that_contradicts_the_leader_goes_when_something_takes_its_place() {
    let mut rig = Rig::with([(2, 1, &[1, 2]), (2, 1, &[1, 2]), (1, 1, &[1, 1, 1])]);
    // The leader asks about its last place first: nothing is written for that.
    let out = rig.receive(C, A, batch(A, 2, at(2, 2), &[], 1));
    assert_eq!(written(&out), []);
    assert_eq!(rig.groups[C].last(), at(1, 3));
    let out = rig.receive(C, A, batch(A, 2, at(1, 1), &[2], 1));
    assert_eq!(written(&out), [at(2, 2)]);
    assert_eq!(rig.groups[C].last(), at(2, 2));
}

#[test]
fn end_that_was_given_up_and_comes_back_is_not_written_again() {
    let mut rig = Rig::with([(2, 1, &[1, 2]), (2, 1, &[1, 2]), (1, 1, &[1, 1, 1])]);
    rig.receive(C, A, batch(A, 2, at(2, 2), &[], 1));
    // The next leader has that very end.
    let out = rig.receive(C, B, batch(B, 3, at(1, 1), &[1, 1, 3], 1));
    assert_eq!(written(&out), [at(3, 4)]);
}
