//! Who stands for election, and who steps down: PreVote, CheckQuorum, and a disk that hangs (G21).

use super::*;

#[test]
fn member_that_was_cut_off_does_not_depose_the_leader() {
    let mut rig = Rig::led();
    for _ in 0..5 {
        rig.tick(C, Timer::Silence);
        rig.tick(C, Timer::Election);
        rig.mail.clear();
    }
    assert_eq!(rig.groups[C].term(), Term::new(1));
    // It is back, and asks before it hears of the leader.
    rig.tick(C, Timer::Election);
    rig.settle(&[A, B, C]);
    rig.tick(A, Timer::Heartbeat);
    rig.settle(&[A, B, C]);
    assert_eq!(rig.groups[A].serving(), Some(Term::new(1)));
    assert_eq!(rig.groups[C].term(), Term::new(1));
}

#[test]
fn members_that_hear_of_no_leader_elect_another() {
    let mut rig = Rig::led();
    rig.elect_among(B, &[B, C]);
    assert_eq!(rig.groups[B].leads(), Some(Term::new(2)));
}

#[test]
fn nobody_would_vote_for_a_log_that_is_behind() {
    let mut rig = Rig::with([(1, 0, &[1, 1]), (1, 0, &[1, 1]), (1, 0, &[1])]);
    rig.tick(C, Timer::Election);
    rig.settle(&[A, B, C]);
    assert_eq!(rig.groups[C].term(), Term::new(1));
}

#[test]
fn term_of_a_candidate_that_lost_does_not_keep_the_others_from_electing() {
    // a is down; b stood in vain, with a log that is behind c's.
    let mut rig = Rig::with([(1, 1, &[1]), (5, 1, &[1]), (3, 1, &[1, 3])]);
    rig.tick(C, Timer::Election);
    rig.settle(&[B, C]);
    assert_eq!(rig.groups[C].term(), Term::new(5), "c hears of the term");
    rig.elect_among(C, &[B, C]);
    assert_eq!(rig.groups[C].leads(), Some(Term::new(6)));
}

#[test]
fn nobody_would_vote_in_a_term_that_has_begun() {
    let mut rig = Rig::with([(3, 0, &[]), (3, 0, &[]), (3, 0, &[])]);
    for (term, would) in [(2, false), (3, false), (4, true)] {
        let out = rig.receive(B, A, Message::Ask { term: Term::new(term), last: Position::ZERO });
        let is_right = |grants: bool| grants == would;
        assert!(
            matches!(&out[..], [Command::Send { message: Message::Would { grants, .. }, .. }] if is_right(*grants)),
            "{out:?}"
        );
    }
}

#[test]
fn answer_to_an_earlier_question_elects_nobody() {
    let mut rig = Rig::new();
    rig.tick(A, Timer::Election);
    rig.mail.clear();
    let would = |asked| Message::Would { term: Term::ZERO, asked: Term::new(asked), grants: true };
    rig.receive(A, B, would(2));
    assert_eq!(rig.groups[A].term(), Term::ZERO);
    rig.receive(A, B, would(1));
    assert_eq!(rig.groups[A].term(), Term::new(1));
}

#[test]
fn leader_that_hears_nobody_steps_down() {
    let mut rig = Rig::led();
    rig.tick(A, Timer::Contact);
    assert_eq!(rig.groups[A].leads(), Some(Term::new(1)), "it has heard of b and c in the first period");
    let out = rig.tick(A, Timer::Contact);
    assert_eq!(rig.groups[A].leads(), None);
    assert!(out.contains(&Command::End { life: Term::new(1) }));
    assert!(out.contains(&Command::Apply { through: Index::new(1) }), "it still knows what is committed: {out:?}");
    assert!(out.contains(&Command::Set(Timer::Election)));
}

#[test]
fn leader_that_hears_one_of_two_goes_on() {
    let mut rig = Rig::led();
    for _ in 0..5 {
        rig.tick(A, Timer::Heartbeat);
        rig.settle(&[A, B]);
        rig.tick(A, Timer::Contact);
    }
    assert_eq!(rig.groups[A].serving(), Some(Term::new(1)));
}

#[test]
fn followers_with_slow_disks_are_heard_of() {
    let mut rig = Rig::led();
    rig.append(A);
    for _ in 0..5 {
        rig.tick(A, Timer::Heartbeat);
        rig.deliver(A, B);
        rig.deliver(B, A);
        rig.tick(A, Timer::Contact);
    }
    assert_eq!(rig.groups[A].serving(), Some(Term::new(1)), "b has acknowledged nothing, and confirmed each round");
}

#[test]
fn leader_that_stepped_down_follows_in_its_own_term() {
    let mut rig = Rig::led();
    rig.append(A);
    rig.tick(A, Timer::Contact);
    rig.tick(A, Timer::Contact);
    // Acknowledgements of what it led are late.
    rig.settle(&[A, B, C]);
    assert_eq!(rig.groups[A].leads(), None);
    rig.elect(C);
    assert_eq!(rig.disks[A].durable().entries, rig.disks[C].durable().entries);
    assert!(rig.disks[C].has(at(1, 2)), "what it had appended is in the log");
}

#[test]
fn leader_whose_disk_hangs_steps_down() {
    let mut rig = Rig::led();
    rig.append(A);
    for _ in 0..2 {
        assert_eq!(rig.groups[A].leads(), Some(Term::new(1)));
        rig.tick(A, Timer::Heartbeat);
        rig.deliver(A, B);
        rig.deliver(B, A);
        rig.tick(A, Timer::Disk);
    }
    assert_eq!(rig.groups[A].leads(), None);
    // Its candidacy never leaves, so the others elect one of themselves.
    rig.mail.clear();
    rig.tick(B, Timer::Silence);
    rig.tick(A, Timer::Election);
    rig.deliver(A, B);
    rig.deliver(B, A);
    let is_candidacy = |post: &(usize, usize, Message)| matches!(post.2, Message::Raft(_)) && post.0 == A;
    assert!(!rig.mail.iter().any(is_candidacy));
}

#[test]
fn leader_whose_disk_syncs_goes_on() {
    let mut rig = Rig::led();
    for _ in 0..5 {
        rig.append(A);
        rig.settle(&[A, B, C]);
        rig.tick(A, Timer::Disk);
    }
    assert_eq!(rig.groups[A].serving(), Some(Term::new(1)));
}

#[test]
fn follower_that_is_behind_the_first_entry_needs_the_items() {
    let mut rig = Rig::with([(0, 0, &[]), (0, 0, &[]), (0, 0, &[])]);
    let mut entries = Entries::new(at(1, 3));
    entries.push(noraft::LogEntry::Command);
    for member in [A, B] {
        let state = State { term: 1, vote: None, committed: 3 };
        rig.disks[member] = disk::Disk::with(Found { state, entries: entries.clone() });
        rig.crash(member, 0);
    }
    rig.tick(A, Timer::Election);
    let out = rig.settle(&[A, B, C]);
    assert!(out.contains(&(A, Command::Transfer { to: id(C) })), "{out:?}");
}
