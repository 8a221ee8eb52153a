//! A coordinator: which way a transaction takes, the messages to its participants, its refusals.

use super::*;

#[test]
fn one_phase_checks_logs_applies_and_then_answers() {
    let mut rig = Rig::new(|_| {});
    let both = Transaction { reads: read("1r", None).reads, ..put(&["1w"]) };
    let id = tranx(ME, 1);
    assert!(matches!(rig.commit(1, both)[..], [Command::Check { work, .. }] if work == id.into()));
    let logs = rig.on(Input::Checked { work: id.into(), answer: CheckAnswer::default() });
    assert!(matches!(logs[..], [Command::Log { record: Record::OnePhase { .. }, durable: true, .. }]), "{logs:?}");
    assert!(matches!(rig.flush()[..], [Command::Apply { tranx, .. }] if tranx == id));
    let done = rig.on(Input::Applied { tranx: id });
    assert_eq!(answer(&done), Some(&CommitAnswer::Committed(id)));
    assert_eq!(rig.node.status().locking, 0);
}

#[test]
fn one_phase_stale_read_comes_with_what_is_there() {
    let mut rig = Rig::new(|_| {});
    rig.commit(1, Transaction { reads: read("1r", None).reads, ..put(&["1w"]) });
    let item = Item { value: Value::new("new").unwrap(), version: tranx(PEER, 9) };
    let current = vec![Current { key: key("1r"), item: Some(item) }];
    let check = CheckAnswer { stale: current.clone(), stale_scans: false };
    let done = rig.on(Input::Checked { work: tranx(ME, 1).into(), answer: check });
    assert_eq!(refusal(&done), &Refusal::Stale { current, kept: None });
    assert_eq!(refusal(&done).advice(), Advice::Restart);
    assert_eq!(rig.node.status().locking, 0);
}

#[test]
fn two_phases_answer_once_commit_is_durable_and_tell_until_acknowledged() {
    let mut rig = Rig::new(|_| {});
    let id = tranx(ME, 1);
    let first = rig.commit(1, put(&["1w", "2w"]));
    let [(Record::Ready { .. }, false)] = records(&first)[..] else { panic!("{first:?}") };
    assert!(matches!(&sent(first)[..], [(PEER, Message::Prepare { .. })]));
    let decided = rig.receive(PEER, vote(id, Vote::Yes));
    assert!(matches!(records(&decided)[..], [(Record::Commit { .. }, true)]) && answer(&decided).is_none());
    let durable = rig.flush();
    assert_eq!(answer(&durable), Some(&CommitAnswer::Committed(id)));
    let decisions = (PEER, Message::Decisions(vec![(id, Outcome::Commit(Epoch(0)))]));
    assert_eq!(sent(durable), std::slice::from_ref(&decisions));
    rig.on(Input::Applied { tranx: id });
    rig.now_ms = 10_000;
    assert_eq!(sent(rig.on(Input::Tick)), [decisions]);
    assert_eq!(rig.node.status().low_water, 0);
    rig.receive(PEER, Message::Acknowledge(vec![id]));
    assert_eq!((rig.node.status().low_water, rig.node.next_deadline_ms()), (1, None));
}

#[test]
fn two_phases_first_no_is_the_answer() {
    let mut rig = Rig::new(|_| {});
    let id = tranx(ME, 1);
    rig.commit(1, put(&["1w", "2w", "3w"]));
    let no = Refusal::WriteLocked { key: key("2w") };
    let done = rig.receive(PEER, vote(id, Vote::No(no.clone())));
    assert_eq!((refusal(&done), refusal(&done).advice()), (&no, Advice::RetryLater));
    assert_eq!(sent(done), [(THIRD, Message::Decisions(vec![(id, Outcome::Abort)]))], "who said no knows");
    assert_eq!(rig.node.status().locking, 0);
    assert_eq!(sent(rig.receive(THIRD, Message::Inquire { tranx: id }))[0].1, inquiry_answer(id, Some(Outcome::Abort)));
}

#[test]
fn two_phases_silence_is_asked_again_and_then_refused() {
    let mut rig = Rig::new(|config| config.vote_attempts = 2);
    rig.commit(1, put(&["2w", "3w"]));
    rig.receive(PEER, vote(tranx(ME, 1), Vote::Yes));
    rig.now_ms = rig.node.next_deadline_ms().unwrap();
    assert!(matches!(sent(rig.on(Input::Tick))[..], [(THIRD, Message::Prepare { .. })]));
    rig.now_ms = rig.node.next_deadline_ms().unwrap();
    assert_eq!(refusal(&rig.on(Input::Tick)), &Refusal::NoVote { server: THIRD });
}

#[test]
fn reads_of_versions_are_validated_without_log_and_locks() {
    let mut rig = Rig::new(|_| {});
    let version = Some(tranx(PEER, 1));
    let mut reads = read("1r", version);
    reads.reads.extend(read("2r", version).reads);
    let begun = rig.commit(1, reads);
    assert!(records(&begun).is_empty() && (rig.node.status().locking == 0));
    assert!(matches!(sent(begun)[..], [(PEER, Message::Validate { .. })]));
    let id = validation(ME, 1);
    rig.on(Input::Checked { work: id.into(), answer: CheckAnswer::default() });
    let done = rig.receive(PEER, Message::Validated { validation: id, vote: Vote::Yes, epoch: Epoch(0) });
    assert_eq!(answer(&done), Some(&CommitAnswer::Validated(id)));
    assert!(records(&done).is_empty());
}

#[test]
fn reads_of_absence_on_several_servers_take_two_phases() {
    let mut rig = Rig::new(|_| {});
    let mut reads = read("1r", None);
    reads.reads.extend(read("2r", Some(tranx(PEER, 1))).reads);
    assert!(matches!(sent(rig.commit(1, reads))[..], [(PEER, Message::Prepare { .. })]));
    let alone = rig.commit(2, read("2r", None));
    assert!(matches!(sent(alone)[..], [(PEER, Message::Validate { .. })]), "one server needs one instant only");
}

#[test]
fn limits_are_named_in_refusals() {
    let limit = |commands: &[Command]| match refusal(commands) {
        Refusal::Overloaded { limit } => limit.clone(),
        other => panic!("{other:?}"),
    };
    let mut rig = Rig::new(|config| config.max_running = 1);
    rig.commit(1, put(&["2w"]));
    assert_eq!(limit(&rig.commit(2, put(&["2w"]))), "1 transactions under way");
    let mut rig = Rig::new(|config| config.max_incomplete = 2);
    for (number, name) in [(1, "2a"), (2, "2b")] {
        rig.commit(number, put(&[name]));
        rig.receive(PEER, vote(tranx(ME, number), Vote::Yes));
    }
    rig.flush();
    assert_eq!(limit(&rig.commit(3, put(&["2c"]))), "2 commits that a server has not acknowledged");
    let mut rig = Rig::new(|config| config.number_block = 1);
    rig.commit(1, put(&["2a"]));
    assert_eq!(limit(&rig.commit(2, put(&["2b"]))), "transaction numbers that are durably reserved");
    rig.flush();
    assert!(answer(&rig.commit(3, put(&["2b"]))).is_none());
}

/// Server 2 is gone, with commits that it has not acknowledged.
#[test]
fn reads_and_writes_go_on_however_far_numbers_run_ahead_of_one_that_is_not_complete() {
    let mut rig = Rig::new(|config| {
        config.max_incomplete = 2;
        config.client_window = 256;
    });
    rig.commit(1, put(&["2w"]));
    rig.receive(PEER, vote(tranx(ME, 1), Vote::Yes));
    rig.flush();
    for round in 0..100 {
        let read = rig.commit(1_000 + round, read("1r", Some(tranx(PEER, 1))));
        assert!(matches!(read[..], [Command::Check { work: WorkId::Validation(_), .. }]), "{read:?}");
        let id = tranx(ME, round + 2);
        let begun = rig.commit(2_000 + round, put(&["1w"]));
        assert!(
            matches!(records(&begun)[..], [(Record::OnePhase { tranx, .. }, true), ..] if *tranx == id),
            "{begun:?}"
        );
        rig.flush();
        assert_eq!(answer(&rig.on(Input::Applied { tranx: id })), Some(&CommitAnswer::Committed(id)));
    }
    let collect = sent(rig.on(Input::CollectGarbage));
    assert_eq!(collect[0], (PEER, Message::LowWater { through: 101, incomplete: vec![1] }));
    assert_eq!(rig.node.status().low_water, 0);
}

#[test]
fn reads_under_way_are_bounded_by_a_limit_of_their_own() {
    let mut rig = Rig::new(|config| config.max_validating = 1);
    let one = || read("2r", Some(tranx(PEER, 1)));
    rig.commit(1, one());
    let limit = "1 reads under way".to_owned();
    assert_eq!(refusal(&rig.commit(2, one())), &Refusal::Overloaded { limit });
    assert!(answer(&rig.commit(3, put(&["2w"]))).is_none());
    rig.receive(PEER, Message::Validated { validation: validation(ME, 1), vote: Vote::Yes, epoch: Epoch(0) });
    assert!(answer(&rig.commit(4, one())).is_none());
}

/// A name that is used twice would make an old answer one to a new request.
#[test]
fn answers_to_a_validation_of_an_earlier_life_count_for_nothing() {
    let mut rig = Rig::new(|_| {});
    let mut other = validation(ME, 1);
    other.incarnation = Incarnation(0);
    rig.commit(1, read("2r", Some(tranx(PEER, 1))));
    assert_eq!(rig.receive(PEER, Message::Validated { validation: other, vote: Vote::Yes, epoch: Epoch(0) }), []);
    let done =
        rig.receive(PEER, Message::Validated { validation: validation(ME, 1), vote: Vote::Yes, epoch: Epoch(0) });
    assert_eq!(answer(&done), Some(&CommitAnswer::Validated(validation(ME, 1))));
}

#[test]
fn validation_silence_is_asked_again_and_then_refused() {
    let mut rig = Rig::new(|config| config.vote_attempts = 2);
    rig.commit(1, read("2r", Some(tranx(PEER, 1))));
    rig.now_ms = rig.node.next_deadline_ms().unwrap();
    assert!(matches!(sent(rig.on(Input::Tick))[..], [(PEER, Message::Validate { .. })]));
    rig.now_ms = rig.node.next_deadline_ms().unwrap();
    assert_eq!(refusal(&rig.on(Input::Tick)), &Refusal::NoVote { server: PEER });
    assert_eq!(rig.node.next_deadline_ms(), None);
}

#[test]
fn transactions_beyond_the_limits_are_refused_for_good() {
    let mut rig = Rig::new(|_| {});
    let twice = put(&["2w", "2w"]);
    let error = LimitError::KeyTwice { key: key("2w"), list: "writes".to_owned() };
    assert_eq!(refusal(&rig.commit(1, twice)), &Refusal::Invalid(error));
    let names: Vec<String> = (0..=transaction::MAX_TRANSACTION_ITEMS).map(|n| n.to_string()).collect();
    let many = put(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let done = rig.commit(2, many);
    assert_eq!(refusal(&done), &Refusal::Invalid(LimitError::TooManyItems { items: names.len() }));
    assert_eq!(refusal(&done).advice(), Advice::GiveUp);
    assert!(Key::new(vec![0; item::MAX_KEY_BYTES + 1]).is_err() && Key::new(vec![0; item::MAX_KEY_BYTES]).is_ok());
}

fn again(kept: Option<TranxId>) -> Again {
    Again { waited_ms: 7, keeps: true, kept }
}

impl Rig {
    fn commit_again(&mut self, message: u64, transaction: Transaction, again: Again) -> Vec<Command> {
        let client = self.client();
        self.on(Input::Commit { client, message: MessageId(message), transaction, again })
    }
}

/// Servers that a vote is requested from.
fn asked(commands: Vec<Command>) -> Vec<ServerId> {
    let is_prepare = |(to, message)| matches!(message, Message::Prepare { .. }).then_some(to);
    sent(commands).into_iter().filter_map(is_prepare).collect()
}

#[test]
fn other_servers_are_asked_once_what_is_written_here_is_locked() {
    let mut rig = Rig::new(|_| {});
    rig.prepare(tranx(PEER, 1), put(&["1w"]));
    assert_eq!(asked(rig.commit(1, put(&["1w", "2w", "3w"]))), []);
    let free = rig.receive(PEER, Message::Decisions(vec![(tranx(PEER, 1), Outcome::Abort)]));
    assert_eq!(asked(free), [PEER, THIRD]);
}

#[test]
fn retry_locks_one_server_after_the_other_and_with_locks_kept_all_at_once() {
    let mut rig = Rig::new(|_| {});
    assert_eq!(asked(rig.commit_again(1, put(&["2w", "3w"]), again(None))), [PEER]);
    assert_eq!(asked(rig.receive(PEER, vote(tranx(ME, 1), Vote::Yes))), [THIRD]);
    let kept = Some(tranx(ME, 1));
    assert_eq!(asked(rig.commit_again(2, put(&["2w", "3w"]), again(kept))), [PEER, THIRD]);
}

#[test]
fn stale_retry_waits_for_all_votes_and_has_everybody_keep_the_locks() {
    let mut rig = Rig::new(|_| {});
    let id = tranx(ME, 1);
    let current = |name: &str| Current { key: key(name), item: None };
    let no = |name: &str| Vote::No(Refusal::Stale { current: vec![current(name)], kept: Some(id) });
    rig.commit_again(1, put(&["1w", "2w", "3w"]), again(None));
    assert_eq!(asked(rig.receive(PEER, vote(id, no("2w")))), [THIRD]);
    let over = rig.receive(THIRD, vote(id, no("3w")));
    let all = Refusal::Stale { current: vec![current("2w"), current("3w")], kept: Some(id) };
    assert_eq!(refusal(&over), &all);
    assert_eq!(sent(over), [PEER, THIRD].map(|to| (to, Message::Keep { tranx: id })));
    assert_eq!(rig.node.status().locking, 1, "its own part keeps them, too");
    rig.now_ms = rig.node.config().lock_keep_ms;
    rig.on(Input::Tick);
    assert_eq!((rig.node.status().locking, rig.node.status().coordinating), (0, 0));
}

/// Each server may have it wait for the whole of `lock_wait_ms`; a snapshot that waits for its
/// first part must not have to wait for the sum.
#[test]
fn in_order_locks_are_not_held_for_longer_than_half_of_what_a_snapshot_waits() {
    let mut rig = Rig::new(|_| {});
    let client = rig.client();
    let again = Again { keeps: true, ..Again::default() };
    let transaction = put(&["1a", "2a", "3a"]);
    rig.on(Input::Commit { client, message: MessageId(1), transaction, again });
    rig.flush();
    let id = tranx(ME, 1);
    rig.now_ms = 900;
    rig.on(Input::Tick);
    let asked = sent(rig.receive(PEER, vote(id, Vote::Yes)));
    assert!(matches!(asked[..], [(THIRD, Message::Prepare { .. })]), "{asked:?}");
    let refused = loop {
        rig.now_ms = rig.node.next_deadline_ms().unwrap();
        if let Some(answer) = answer(&rig.on(Input::Tick)) {
            break answer.clone();
        }
    };
    assert_eq!(refused, CommitAnswer::Refused(Refusal::NoVote { server: THIRD }));
    assert!((1000..=1200).contains(&rig.now_ms) && rig.node.status().locking == 0, "at {} ms", rig.now_ms);
}

/// To lock and to log costs more than to read again what was stale.
#[test]
fn retry_that_only_reads_is_validated_for_a_while_before_it_locks_what_it_reads() {
    for (waited_ms, locks) in [(19, false), (20, true)] {
        let mut rig = Rig::new(|_| {});
        let (client, message) = (rig.client(), MessageId(1));
        let again = Again { waited_ms, keeps: true, kept: None };
        let transaction = read("2a", Some(tranx(PEER, 1)));
        let asked = sent(rig.on(Input::Commit { client, message, transaction, again }));
        assert!(!asked.is_empty());
        let is_locked = asked.iter().any(|(_, message)| matches!(message, Message::Prepare { .. }));
        assert_eq!(is_locked, locks, "{asked:?}");
    }
}
