//! A participant: what it does about late, wrong and missing messages.

use super::*;

#[test]
fn validation_of_what_is_being_changed_is_refused() {
    let mut rig = Rig::new(|_| {});
    rig.prepare(tranx(PEER, 1), put(&["1w"]));
    let reads = Message::Validate { tranx: tranx(THIRD, 1), part: read("1w", Some(tranx(PEER, 0))) };
    let no = Vote::No(Refusal::ReadLocked { key: key("1w") });
    assert_eq!(sent(rig.receive(THIRD, reads)), [(THIRD, vote(tranx(THIRD, 1), no))]);
}

#[test]
fn prepare_after_its_abort_locks_nothing() {
    let mut rig = Rig::new(|_| {});
    let id = tranx(PEER, 7);
    rig.receive(PEER, Message::Decisions(vec![(id, Outcome::Abort)]));
    let late = sent(rig.prepare(id, put(&["1w"])));
    assert!(matches!(&late[..], [(PEER, Message::Vote { vote: Vote::No(_), .. })]), "{late:?}");
    assert_eq!(rig.node.status().locking, 0);
    rig.receive(PEER, Message::LowWater { number: 7 });
    assert_eq!(rig.node.status().remembered, 0);
    assert_eq!(rig.prepare(id, put(&["1w"])), [], "it is complete");
}

#[test]
fn prepare_of_keys_that_are_elsewhere_is_refused() {
    let mut rig = Rig::new(|_| {});
    let no = Vote::No(Refusal::NotHere { server: ME, key: key("2w") });
    let id = tranx(PEER, 1);
    assert_eq!(sent(rig.prepare(id, put(&["1w", "2w"]))), [(PEER, vote(id, no))]);
}

#[test]
fn prepare_for_others_than_its_sender_is_ignored() {
    let mut rig = Rig::new(|_| {});
    let message = Message::Prepare { tranx: tranx(PEER, 1), participants: vec![ME], part: put(&["1w"]) };
    assert_eq!(rig.receive(THIRD, message), []);
    rig.prepare(tranx(PEER, 2), put(&["1w"]));
    rig.receive(THIRD, Message::Decisions(vec![(tranx(PEER, 2), Outcome::Abort)]));
    assert_eq!(rig.node.status().locking, 1);
}

#[test]
fn in_doubt_asks_the_coordinator_and_then_everybody() {
    let mut rig = Rig::new(|_| {});
    let id = tranx(PEER, 1);
    rig.prepare(id, put(&["1w"]));
    assert_eq!(sent(rig.flush()), [(PEER, vote(id, Vote::Yes))]);
    let inquire = |to| (to, Message::Inquire { tranx: id });
    rig.now_ms = rig.node.next_deadline_ms().unwrap();
    assert_eq!(sent(rig.on(Input::Tick)), [inquire(PEER)]);
    rig.receive(PEER, told(id, None));
    rig.now_ms = rig.node.next_deadline_ms().unwrap();
    assert_eq!(sent(rig.on(Input::Tick)), [inquire(PEER), inquire(THIRD)]);
    let applied = rig.receive(THIRD, told(id, Some(Outcome::Commit)));
    assert!(applied.iter().any(|command| matches!(command, Command::Apply { .. })), "{applied:?}");
    rig.on(Input::Applied { tranx: id });
    assert_eq!(sent(rig.flush()), [(PEER, Message::Acknowledge(vec![id]))]);
}

#[test]
fn in_doubt_at_low_water_is_aborted() {
    let mut rig = Rig::new(|_| {});
    rig.prepare(tranx(PEER, 3), put(&["1w"]));
    rig.flush();
    rig.receive(PEER, Message::LowWater { number: 2 });
    assert_eq!(rig.node.status().locking, 1);
    rig.receive(PEER, Message::LowWater { number: 3 });
    assert_eq!(rig.node.status().locking, 0);
}
