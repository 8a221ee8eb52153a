//! A member is its store (G10).

use super::*;

const STRANGER: MemberId = MemberId(99);

#[test]
fn vote_of_another_store_does_not_count() {
    let mut rig = Rig::new();
    rig.tick(A, Timer::Election);
    rig.deliver(A, B);
    rig.deliver(B, A);
    rig.sync(A);
    let vote = noraft::Message::RequestVoteReply { from: STRANGER.into(), term: Term::new(1), vote_granted: true };
    rig.on(A, Event::Receive { from: STRANGER, message: Message::Raft(vote) });
    assert_eq!(rig.groups[A].leads(), None);
    // Nor under the name of a member that did not send it.
    let vote = noraft::Message::RequestVoteReply { from: id(C).into(), term: Term::new(1), vote_granted: true };
    rig.on(A, Event::Receive { from: STRANGER, message: Message::Raft(vote.clone()) });
    rig.receive(A, B, Message::Raft(vote.clone()));
    assert_eq!(rig.groups[A].leads(), None);
    rig.receive(A, C, Message::Raft(vote));
    assert_eq!(rig.groups[A].leads(), Some(Term::new(1)));
}

#[test]
fn another_store_deposes_nobody() {
    let mut rig = Rig::led();
    let (term, last_position) = (Term::new(7), at(6, 9));
    let calls = [
        Message::Raft(noraft::Message::RequestVoteCall { from: STRANGER.into(), term, last_position }),
        Message::Raft(noraft::Message::AppendEntriesReply { from: STRANGER.into(), term, last_position }),
        Message::Ask { term, last: last_position },
        Message::Would { term, asked: term, grants: false },
        Message::Round { term: Term::new(1), number: 1 },
    ];
    for message in calls {
        for member in [A, B] {
            let out = rig.on(member, Event::Receive { from: STRANGER, message: message.clone() });
            assert_eq!(out, [], "{message:?}");
        }
    }
}

#[test]
fn round_is_not_confirmed_by_another_store() {
    let mut rig = Rig::led();
    rig.on(A, Event::Hold { life: Term::new(1), answer: AnswerId(1) });
    let confirm = Message::Confirm { term: Term::new(1), number: 100 };
    let out = rig.on(A, Event::Receive { from: STRANGER, message: confirm });
    assert_eq!(out, []);
}

#[test]
fn store_that_the_others_do_not_know_does_not_stand() {
    let config = Config { me: STRANGER, ..rig::config(A) };
    let found = disk::Disk::new().crash(0);
    let mut group = Group::start(config, found, &mut vec![]);
    let mut out = Vec::new();
    group.on(Event::Tick(Timer::Election), &mut out);
    let vote = noraft::Message::RequestVoteCall { from: id(A).into(), term: Term::new(1), last_position: at(0, 0) };
    group.on(Event::Receive { from: id(A), message: Message::Raft(vote) }, &mut out);
    assert_eq!(out, []);
}

#[test]
fn numbers_that_no_member_reaches_are_dropped() {
    let mut rig = Rig::led();
    let last = Position { term: Term::new(1), index: Index::new(u64::MAX) };
    for message in [
        Message::Ask { term: Term::new(u64::MAX), last: at(1, 1) },
        Message::Ask { term: Term::new(2), last },
        Message::Would { term: Term::new(u64::MAX), asked: Term::new(2), grants: false },
        batch(A, u64::MAX, at(1, 1), &[], 1),
    ] {
        assert_eq!(rig.receive(B, A, message.clone()), [], "{message:?}");
    }
}
