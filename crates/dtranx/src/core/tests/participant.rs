//! A participant: what it does about late, wrong and missing messages.

use super::*;

#[test]
fn validation_of_what_is_being_changed_is_refused() {
    let mut rig = Rig::new(|_| {});
    rig.prepare(tranx(PEER, 1), put(&["1w"]));
    let reads =
        Message::Validate { validation: validation(THIRD, 1), part: read("1w", Some(tranx(PEER, 0))), epoch: Epoch(0) };
    let no = Vote::No(Refusal::ReadLocked { key: key("1w") });
    assert_eq!(
        sent(rig.receive(THIRD, reads)),
        [(THIRD, Message::Validated { validation: validation(THIRD, 1), vote: no, epoch: Epoch(0) })]
    );
}

#[test]
fn prepare_after_its_abort_locks_nothing() {
    let mut rig = Rig::new(|_| {});
    let id = tranx(PEER, 7);
    rig.receive(PEER, Message::Decisions(vec![(id, Outcome::Abort)]));
    let late = sent(rig.prepare(id, put(&["1w"])));
    assert!(matches!(&late[..], [(PEER, Message::Vote { vote: Vote::No(_), .. })]), "{late:?}");
    assert_eq!(rig.node.status().locking, 0);
    rig.receive(PEER, low_water(7));
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
    let applied = rig.receive(THIRD, told(id, Some(Outcome::Commit(Epoch(0)))));
    assert!(applied.iter().any(|command| matches!(command, Command::Apply { .. })), "{applied:?}");
    rig.on(Input::Applied { tranx: id });
    assert_eq!(sent(rig.flush()), [(PEER, Message::Acknowledge(vec![id]))]);
}

#[test]
fn in_doubt_at_low_water_is_aborted() {
    let mut rig = Rig::new(|_| {});
    rig.prepare(tranx(PEER, 3), put(&["1w"]));
    rig.flush();
    rig.receive(PEER, low_water(2));
    assert_eq!(rig.node.status().locking, 1);
    rig.receive(PEER, low_water(3));
    assert_eq!(rig.node.status().locking, 0);
}

#[test]
fn what_is_complete_is_forgotten_although_an_earlier_one_is_not() {
    let mut rig = Rig::new(|_| {});
    for number in 1..=200 {
        rig.receive(PEER, Message::Decisions(vec![(tranx(PEER, number), Outcome::Abort)]));
    }
    rig.prepare(tranx(PEER, 201), put(&["1w"]));
    let remembered = |rig: &mut Rig, incomplete: &[u64]| {
        rig.receive(PEER, Message::LowWater { through: 201, incomplete: incomplete.to_vec() });
        (0..8).for_each(|_| drop(rig.on(Input::Tick)));
        (0..8).for_each(|_| drop(rig.receive(PEER, Message::LowWater { through: 0, incomplete: vec![] })));
        rig.node.status().remembered
    };
    assert_eq!(remembered(&mut rig, &[1, 70, 201]), 3);
    // The coordinator was restarted, and knows less than it knew.
    assert_eq!(remembered(&mut rig, &[1, 2, 70, 90, 201]), 3);
    assert_eq!(remembered(&mut rig, &[70, 201]), 2);
    assert_eq!(rig.node.status().locking, 1);
    assert_eq!((remembered(&mut rig, &[]), rig.node.status().locking), (0, 0));
}

#[test]
fn commit_that_a_restarted_coordinator_tells_again_is_acknowledged_although_forgotten() {
    let mut rig = Rig::new(|_| {});
    let id = tranx(PEER, 2);
    rig.receive(PEER, Message::LowWater { through: 5, incomplete: vec![1] });
    rig.receive(PEER, Message::LowWater { through: 9, incomplete: vec![1, 2] });
    let again = Message::Decisions(vec![(id, Outcome::Commit(Epoch(0)))]);
    assert_eq!(sent(rig.receive(PEER, again)), [(PEER, Message::Acknowledge(vec![id]))]);
}

#[test]
fn more_transactions_than_a_participant_may_remember_are_refused_by_the_limits_name() {
    let mut rig = Rig::new(|config| config.max_remembered = 1);
    let limit = "1 transactions remembered".to_owned();
    rig.prepare(tranx(PEER, 1), put(&["1a"]));
    let no = vote(tranx(PEER, 2), Vote::No(Refusal::Overloaded { limit }));
    assert_eq!(sent(rig.prepare(tranx(PEER, 2), put(&["1b"]))), [(PEER, no)]);
    rig.receive(PEER, Message::Decisions(vec![(tranx(PEER, 3), Outcome::Abort)]));
    assert_eq!(rig.node.status().remembered, 1);
}

/// Whatever number of them there is to be forgotten, and wherever the last one of a round is.
#[test]
fn complete_transactions_are_forgotten_up_to_the_last_one() {
    for count in [1, 63, 64, 65, 127, 128, 129, 300] {
        let mut rig = Rig::new(|_| {});
        for number in 1..=count {
            rig.receive(PEER, Message::Decisions(vec![(tranx(PEER, number), Outcome::Abort)]));
        }
        rig.receive(PEER, low_water(count));
        (0..8).for_each(|_| drop(rig.on(Input::CollectGarbage)));
        assert_eq!(rig.node.status().remembered, 0, "{count}");
    }
}
