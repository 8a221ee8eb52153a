//! When the node of a life begins and ends, and what members apply (G4, G5).

use super::*;

fn begins(out: &[(usize, Command)]) -> Vec<(usize, u64)> {
    let life = |(member, command): &(usize, Command)| match command {
        Command::Begin { life } => Some((*member, life.get())),
        _ => None,
    };
    out.iter().filter_map(life).collect()
}

fn applied(out: &[Command]) -> Vec<u64> {
    let through = |command: &Command| match command {
        Command::Apply { through } => Some(through.get()),
        _ => None,
    };
    out.iter().filter_map(through).collect()
}

#[test]
fn node_begins_when_the_first_entry_of_its_term_is_committed() {
    // b has an entry of a's that c does not have.
    let mut rig = Rig::with([(1, 1, &[1]), (1, 1, &[1, 1]), (1, 1, &[1])]);
    rig.tick(B, Timer::Election);
    rig.deliver(B, C);
    rig.deliver(C, B);
    rig.sync(B);
    rig.deliver(B, C);
    rig.sync(C);
    let out = rig.deliver(C, B);
    assert_eq!(rig.groups[B].leads(), Some(Term::new(2)));
    assert_eq!(applied(&out), [0; 0], "the entry that only b has");
    let mut out = vec![];
    out.extend(rig.sync(B).into_iter().map(|command| (B, command)));
    assert_eq!(begins(&out), []);
    let out = rig.settle(&[B, C]);
    assert_eq!(begins(&out), [(B, 2)]);
    let applies = out.iter().position(|(member, command)| {
        *member == B && matches!(command, Command::Apply { through } if through.get() == 3)
    });
    let begin = out.iter().position(|(_, command)| matches!(command, Command::Begin { .. }));
    assert!(applies < begin && applies.is_some(), "it begins with all that is committed: {out:?}");
}

#[test]
fn node_does_not_begin_before_the_leader_has_synced_its_first_entry() {
    let mut rig = Rig::new();
    rig.tick(A, Timer::Election);
    rig.deliver(A, B);
    rig.deliver(B, A);
    rig.sync(A);
    rig.deliver(A, B);
    rig.sync(B);
    rig.deliver(B, A);
    rig.deliver(A, B);
    rig.sync(B);
    let out = rig.deliver(B, A);
    assert!(!out.iter().any(|command| matches!(command, Command::Begin { .. })));
    assert!(rig.sync(A).contains(&Command::Begin { life: Term::new(1) }));
}

#[test]
fn member_that_starts_applies_what_it_knows_to_be_committed() {
    let mut rig = Rig::with([(1, 2, &[1, 1, 1]), (1, 0, &[1]), (1, 0, &[1])]);
    assert_eq!(applied(&rig.crash(A, 0)), [2]);
}

#[test]
fn follower_applies_what_is_committed_once_it_has_synced_it() {
    let mut rig = Rig::led();
    let out = rig.receive(B, A, batch(A, 1, at(1, 1), &[1], 2));
    assert_eq!(applied(&out), [0; 0]);
    assert_eq!(applied(&rig.sync(B)), [2]);
}

#[test]
fn committed_index_outlives_a_crash() {
    let mut rig = Rig::led();
    rig.append(A);
    rig.settle(&[A, B, C]);
    rig.append(A);
    rig.settle(&[A, B, C]);
    // Entry 3 was written together with the news that entry 2 is committed.
    assert_eq!(applied(&rig.crash(A, 0)), [2]);
}

#[test]
fn leader_that_steps_down_drops_its_node_and_begins_anew_with_its_log() {
    let mut rig = Rig::led();
    rig.append(A);
    rig.settle(&[A, B, C]);
    let out = rig.receive(A, B, batch(B, 2, at(1, 2), &[2], 2));
    assert!(out.contains(&Command::End { life: Term::new(1) }), "{out:?}");
    assert_eq!(applied(&out), [2], "from the beginning of the log");
    assert_eq!(applied(&rig.sync(A)), [0; 0], "the new leader's first entry is not committed");
    let out = rig.on(A, Event::Append { life: Term::new(1) });
    assert_eq!(out, [], "an entry of the life that has ended");
}

#[test]
fn entry_of_an_earlier_life_is_not_appended_in_a_later_one() {
    let mut rig = Rig::led();
    for _ in 0..2 {
        rig.tick(A, Timer::Contact);
    }
    rig.elect(A);
    assert_eq!(rig.groups[A].serving(), Some(Term::new(2)));
    assert_eq!(rig.on(A, Event::Append { life: Term::new(1) }), []);
}

#[test]
fn log_that_ends_before_what_it_calls_committed_is_damaged() {
    let mut rig = Rig::new();
    rig.disks[A] =
        disk::Disk::with(Found { state: State { term: 3, vote: None, committed: 4 }, entries: rig::log(&[1, 1, 3]) });
    let out = rig.crash(A, 0);
    assert_eq!(out, [Command::Stop(Damage::Missing { committed: Index::new(4), last: Index::new(3) })]);
    assert_eq!(rig.tick(A, Timer::Election), [], "nothing follows");
}
