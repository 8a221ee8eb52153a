//! A participant: late, wrong and missing messages.

use super::*;

#[test]
fn validation_of_what_is_being_changed_waits_and_is_refused_when_it_has_waited() {
    let mut rig = Rig::new(|_| {});
    rig.prepare(tranx(PEER, 1), put(&["1w"]));
    let part = || read("1w", Some(tranx(PEER, 0)));
    let validate = |number| {
        let validation = validation(THIRD, number);
        Message::Validate { validation, part: part(), epoch: Epoch(0) }
    };
    assert_eq!(sent(rig.receive(THIRD, validate(1))), []);
    rig.now_ms = rig.node.config().lock_wait_ms;
    let vote = Vote::No(Refusal::ReadLocked { key: key("1w") });
    let refused = sent(rig.on(Input::Tick));
    assert!(
        refused.contains(&(THIRD, Message::Validated { validation: validation(THIRD, 1), vote, epoch: Epoch(0) })),
        "{refused:?}"
    );
    assert_eq!(sent(rig.receive(THIRD, validate(2))), []);
    let aborted = rig.receive(PEER, Message::Decisions(vec![(tranx(PEER, 1), Outcome::Abort)]));
    let is_check = |command: &Command| matches!(command, Command::Check { work: WorkId::Validation(_), .. });
    assert!(aborted.iter().any(is_check), "nothing is locked any more: {aborted:?}");
}

/// The validation takes place after the transaction that it waited for, which brings a later epoch
/// along than the one in which the request arrived.
#[test]
fn validation_that_has_waited_is_of_the_epoch_of_what_it_waited_for() {
    let mut rig = Rig::new(|_| {});
    let (deletes, asked) = (tranx(PEER, 1), validation(THIRD, 1));
    rig.prepare(deletes, put(&["1w"]));
    rig.flush();
    let validate = Message::Validate { validation: asked, part: read("1w", None), epoch: Epoch(0) };
    assert_eq!(sent(rig.receive(THIRD, validate)), [], "it waits");
    rig.receive(PEER, Message::Decisions(vec![(deletes, Outcome::Commit(Epoch(8)))]));
    rig.flush();
    let granted = rig.on(Input::Applied { tranx: deletes });
    assert!(granted.iter().any(|command| matches!(command, Command::Check { .. })), "{granted:?}");
    let answer = CheckAnswer { stale: vec![], stale_scans: false };
    let voted = sent(rig.on(Input::Checked { work: asked.into(), answer }));
    let expected = Message::Validated { validation: asked, vote: Vote::Yes, epoch: Epoch(8) };
    assert!(voted.contains(&(THIRD, expected)), "{voted:?}");
}

/// A key that was seen free in the epoch before may have been locked there again since.
#[test]
fn validation_that_saw_its_keys_free_in_different_epochs_looks_again() {
    let mut rig = Rig::new(|_| {});
    let (first, second, asked) = (tranx(PEER, 1), tranx(PEER, 2), validation(THIRD, 1));
    rig.prepare(first, put(&["1w"]));
    let mut part = read("1w", Some(tranx(PEER, 0)));
    part.reads.extend(read("1x", Some(tranx(PEER, 0))).reads);
    let validate = Message::Validate { validation: asked, part, epoch: Epoch(0) };
    assert_eq!(sent(rig.receive(THIRD, validate)), [], "it waits for the first key");
    rig.prepare(second, put(&["1x"]));
    rig.flush();
    rig.receive(PEER, Message::Decisions(vec![(first, Outcome::Commit(Epoch(8)))]));
    rig.flush();
    let is_check = |command: &Command| matches!(command, Command::Check { .. });
    assert!(!rig.on(Input::Applied { tranx: first }).iter().any(is_check), "the second key is locked by now");
    let granted = rig.receive(PEER, Message::Decisions(vec![(second, Outcome::Abort)]));
    assert!(granted.iter().any(is_check), "{granted:?}");
    let answer = CheckAnswer { stale: vec![], stale_scans: false };
    let voted = sent(rig.on(Input::Checked { work: asked.into(), answer }));
    let expected = Message::Validated { validation: asked, vote: Vote::Yes, epoch: Epoch(8) };
    assert!(voted.contains(&(THIRD, expected)), "{voted:?}");
}

#[test]
fn server_gone_ends_the_waits_of_its_transactions_and_leaves_its_votes() {
    let mut rig = Rig::new(|_| {});
    rig.prepare(tranx(PEER, 1), put(&["1w"]));
    rig.prepare(tranx(PEER, 2), put(&["1w"]));
    rig.prepare(tranx(THIRD, 1), put(&["1w"]));
    rig.flush();
    assert_eq!(rig.node.locks.waiting(), 2);
    rig.on(Input::ServerGone { server: PEER });
    assert_eq!((rig.node.locks.waiting(), rig.node.status().locking), (1, 2));
    rig.receive(PEER, Message::Decisions(vec![(tranx(PEER, 1), Outcome::Abort)]));
    assert_eq!(sent(rig.flush()), [(THIRD, vote(tranx(THIRD, 1), Vote::Yes))]);
}

#[test]
fn stale_part_keeps_its_locks_for_the_attempt_that_names_it() {
    let mut rig = Rig::new(|_| {});
    let both = |version| Transaction { reads: read("1w", version).reads, ..put(&["1w"]) };
    let keeps = Standing { keeps: true, since_ms: 5, ..Standing::default() };
    let stale = |rig: &mut Rig, tranx: TranxId| {
        let answer = CheckAnswer { stale: vec![Current { key: key("1w"), item: None }], stale_scans: false };
        rig.on(Input::Checked { work: tranx.into(), answer })
    };
    rig.prepare_as(tranx(PEER, 1), both(Some(tranx(PEER, 0))), keeps);
    let voted = sent(stale(&mut rig, tranx(PEER, 1)));
    let kept = Some(tranx(PEER, 1));
    let current = vec![Current { key: key("1w"), item: None }];
    assert_eq!(voted, [(PEER, vote(tranx(PEER, 1), Vote::No(Refusal::Stale { current, kept })))]);
    rig.receive(PEER, Message::Keep { tranx: tranx(PEER, 1) });

    // An older one waits; the attempt that names it does not.
    rig.prepare_as(tranx(THIRD, 1), put(&["1w"]), Standing { since_ms: 1, ..Standing::default() });
    let again = rig.prepare_as(tranx(PEER, 2), both(None), Standing { kept, ..keeps });
    assert!(again.iter().any(|command| matches!(command, Command::Check { .. })), "{again:?}");
    assert_eq!((rig.node.locks.waiting(), rig.node.status().locking), (1, 2));
    // The other attempt does not come: the locks are dropped by themselves.
    stale(&mut rig, tranx(PEER, 2));
    assert_eq!(rig.node.locks.waiting(), 1);
    rig.now_ms = rig.node.config().lock_keep_ms;
    rig.on(Input::Tick);
    assert_eq!(sent(rig.flush()), [(THIRD, vote(tranx(THIRD, 1), Vote::Yes))]);
}

#[test]
fn abort_of_what_has_kept_its_locks_drops_them() {
    let mut rig = Rig::new(|_| {});
    let part = Transaction { reads: read("1w", Some(tranx(PEER, 0))).reads, ..put(&["1w"]) };
    rig.prepare_as(tranx(PEER, 1), part, Standing { keeps: true, ..Standing::default() });
    rig.on(Input::Checked { work: tranx(PEER, 1).into(), answer: CheckAnswer { stale: vec![], stale_scans: true } });
    assert_eq!(rig.node.status().locking, 1);
    rig.receive(PEER, Message::Decisions(vec![(tranx(PEER, 1), Outcome::Abort)]));
    assert_eq!(rig.node.status().locking, 0);
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
    let moved = Moved { range: KeyRange::until(key("2"), key("3")), to: PEER, moves: 0 };
    let no = Vote::No(Refusal::NotHere { server: ME, key: key("2w"), moved: vec![moved] });
    let id = tranx(PEER, 1);
    assert_eq!(sent(rig.prepare(id, put(&["1w", "2w"]))), [(PEER, vote(id, no))]);
    // A copy that comes later is not taken, although this server may hold the keys by then.
    let again = Vote::No(Refusal::NoVote { server: ME });
    assert_eq!(sent(rig.prepare(id, put(&["1w", "2w"]))), [(PEER, vote(id, again))]);
}

#[test]
fn prepare_for_others_than_its_sender_is_ignored() {
    let mut rig = Rig::new(|_| {});
    let standing = Standing::default();
    let message = Message::Prepare { tranx: tranx(PEER, 1), participants: vec![ME], part: put(&["1w"]), standing };
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
    rig.receive(PEER, inquiry_answer(id, None));
    rig.now_ms = rig.node.next_deadline_ms().unwrap();
    assert_eq!(sent(rig.on(Input::Tick)), [inquire(PEER), inquire(THIRD)]);
    let applied = rig.receive(THIRD, inquiry_answer(id, Some(Outcome::Commit(Epoch(0)))));
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

/// For each number of transactions to forget, and each place of the last one of a round.
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

/// A restarted server is in the last epoch that is durably reserved: a snapshot at the end of that
/// one must not find writes of a later one in the items.
#[test]
fn commit_of_an_epoch_that_is_not_reserved_is_applied_when_its_record_is_durable() {
    let is_apply = |command: &Command| matches!(command, Command::Apply { .. });
    let mut rig = Rig::new(|_| {});
    let last = rig.node.config().epoch_block;
    for (number, key, epoch, waits) in [(1, "1w", last + 7, true), (2, "1x", last + 8, false)] {
        let part = tranx(PEER, number);
        rig.prepare(part, put(&[key]));
        rig.flush();
        let decided = rig.receive(PEER, Message::Decisions(vec![(part, Outcome::Commit(Epoch(epoch)))]));
        assert_eq!(decided.iter().any(is_apply), !waits, "{decided:?}");
        let logged = rig.flush();
        assert_eq!(logged.iter().filter(|command| is_apply(command)).count(), usize::from(waits), "{logged:?}");
        rig.on(Input::Applied { tranx: part });
    }
    assert_eq!(rig.node.tranx.participant.tally().unfinished, 0);
}
