//! Terms: batches of those that are over are refused (G2), and what tells of a term, a vote or an
//! entry leaves when that is synced (G3).

use super::*;

fn sent(out: &[Command]) -> Vec<Message> {
    let message = |command: &Command| match command {
        Command::Send { message, .. } => Some(message.clone()),
        _ => None,
    };
    out.iter().filter_map(message).collect()
}

fn wants_vote(from: usize, term: u64, last_position: Position) -> Message {
    Message::Raft(noraft::Message::RequestVoteCall { from: id(from).into(), term: Term::new(term), last_position })
}

#[test]
fn batch_of_a_term_that_is_over_is_refused() {
    let mut rig = Rig::led();
    // c votes for b in term 2, and then a late batch of a arrives.
    rig.receive(C, B, wants_vote(B, 2, at(1, 1)));
    rig.sync(C);
    rig.mail.clear();
    let out = rig.receive(C, A, batch(A, 1, at(1, 1), &[1], 1));
    assert!(!out.iter().any(|command| matches!(command, Command::Write { .. })), "{out:?}");
    let told = sent(&out);
    assert!(matches!(&told[..], [Message::Raft(reply)] if reply.term() == Term::new(2)), "{told:?}");
    rig.deliver(C, A);
    assert_eq!(rig.groups[A].leads(), None, "a hears of the later term");
}

#[test]
fn vote_leaves_when_it_is_synced() {
    let mut rig = Rig::new();
    let out = rig.receive(B, A, wants_vote(A, 1, Position::ZERO));
    assert_eq!(sent(&out), []);
    let votes = sent(&rig.sync(B));
    let grants = |message: &Message| {
        matches!(message, Message::Raft(noraft::Message::RequestVoteReply { vote_granted: true, .. }))
    };
    assert!(votes.iter().all(grants) && votes.len() == 1, "{votes:?}");
}

#[test]
fn vote_that_a_crash_loses_was_not_given() {
    let mut rig = Rig::new();
    rig.receive(B, A, wants_vote(A, 1, Position::ZERO));
    rig.crash(B, 0);
    rig.receive(B, C, wants_vote(C, 1, Position::ZERO));
    rig.sync(B);
    let voted = |to: usize| rig.mail.iter().any(|(from, other, _)| (*from, *other) == (B, to));
    assert_eq!((voted(A), voted(C)), (false, true));
}

#[test]
fn candidacy_leaves_when_the_term_is_synced() {
    let mut rig = Rig::new();
    rig.tick(A, Timer::Election);
    rig.deliver(A, B);
    let out = rig.deliver(B, A);
    let calls = |out: &[Command]| {
        let is_call = |message: &&Message| matches!(message, Message::Raft(noraft::Message::RequestVoteCall { .. }));
        sent(out).iter().filter(is_call).count()
    };
    assert_eq!(calls(&out), 0);
    assert_eq!(calls(&rig.sync(A)), 2);
}

#[test]
fn acknowledgement_leaves_when_the_entries_are_synced() {
    let mut rig = Rig::led();
    rig.append(A);
    assert_eq!(sent(&rig.deliver(A, B)), []);
    // A heartbeat in between does not tell of them either.
    rig.tick(A, Timer::Heartbeat);
    let told = sent(&rig.deliver(A, B));
    assert!(matches!(&told[..], [Message::Confirm { .. }]), "{told:?}");
    let told = sent(&rig.sync(B));
    let is_last = |last: Position| last == at(1, 2);
    assert!(
        matches!(&told[..], [Message::Raft(noraft::Message::AppendEntriesReply { last_position, .. })] if is_last(*last_position)),
        "{told:?}"
    );
}

#[test]
fn sync_of_a_void_entry_is_none_of_the_one_that_replaces_it() {
    let mut rig = Rig::with([(1, 0, &[1]), (1, 0, &[1]), (1, 0, &[1])]);
    rig.receive(C, A, batch(A, 1, at(1, 1), &[1], 1));
    rig.receive(C, B, batch(B, 2, at(1, 1), &[2], 1));
    rig.receive(C, A, wants_vote(A, 3, at(2, 9)));
    let through = rig.groups[C].last_write();
    rig.receive(C, A, batch(A, 3, at(1, 1), &[1, 3], 1));
    // Entry 2 of term 1 is void on the disk; that of term 3's leader, the same one, is not synced.
    let acknowledged = |out: &[Command]| -> Vec<Position> {
        let last = |message| match message {
            Message::Raft(noraft::Message::AppendEntriesReply { last_position, .. }) => Some(last_position),
            _ => None,
        };
        sent(out).into_iter().filter_map(last).collect()
    };
    assert_eq!(acknowledged(&rig.on(C, Event::Synced { through })), [at(1, 1)]);
    assert_eq!(acknowledged(&rig.sync(C)), [at(3, 3)]);
}

#[test]
fn leader_that_others_have_replaced_takes_no_acknowledgement_from_the_next_one() {
    let mut rig = Rig::led();
    rig.elect_among(B, &[B, C]);
    rig.append(B);
    rig.deliver(B, C);
    rig.receive(C, A, batch(A, 1, at(1, 1), &[1], 1));
    rig.mail.clear();
    rig.sync(C);
    let acknowledges = |post: &(usize, usize, Message)| {
        let is_last = |message: &Message| matches!(message, Message::Raft(noraft::Message::AppendEntriesReply { last_position, .. }) if *last_position == at(2, 3));
        (post.1 == B).then(|| is_last(&post.2))
    };
    assert_eq!(rig.mail.iter().find_map(acknowledges), Some(true), "{:?}", rig.mail);
}

#[test]
fn only_the_newest_message_of_a_kind_waits_for_a_disk_that_hangs() {
    let mut rig = Rig::led();
    rig.receive(C, B, wants_vote(B, 2, at(1, 1)));
    for _ in 0..10 {
        rig.receive(C, A, batch(A, 1, at(1, 1), &[], 1));
        rig.receive(C, A, Message::Ask { term: Term::new(3), last: at(1, 1) });
    }
    let told = sent(&rig.sync(C));
    assert_eq!(told.len(), 3, "{told:?}");
}
