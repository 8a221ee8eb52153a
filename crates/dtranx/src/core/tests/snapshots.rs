//! Snapshots: the messages and their order, and what keeps a snapshot from being made.

use super::*;

fn snapshot(rig: &mut Rig, message: u64) -> Vec<Command> {
    let client = rig.client();
    rig.on(Input::Snapshot { client, message: MessageId(message) })
}

fn say(rig: &mut Rig, from: ServerId, message: SnapshotMessage) -> Vec<Command> {
    rig.receive(from, Message::Snapshot(message))
}

/// A server's answer to the question in which epoch it is.
fn asked(rig: &mut Rig, from: ServerId, number: u64, epoch: u64) -> Vec<Command> {
    let by = rig.node.incarnation().unwrap();
    say(rig, from, SnapshotMessage::Asked { by, number, epoch: Epoch(epoch) })
}

fn settled(rig: &mut Rig, from: ServerId, epoch: u64, settlement: Settlement) -> Vec<Command> {
    say(rig, from, SnapshotMessage::Settled { epoch: Epoch(epoch), settlement })
}

fn raised(rig: &mut Rig, from: ServerId, epoch: u64) -> Vec<Command> {
    say(rig, from, SnapshotMessage::Raised { epoch: Epoch(epoch) })
}

fn raise(epoch: u64) -> Message {
    Message::Snapshot(SnapshotMessage::Raise { epoch: Epoch(epoch) })
}

fn settle(epoch: u64) -> Message {
    Message::Snapshot(SnapshotMessage::Settle { epoch: Epoch(epoch) })
}

fn made(commands: &[Command]) -> Vec<(u64, SnapshotAnswer)> {
    let made = |command: &Command| match command {
        Command::ReplySnapshot { message, answer, .. } => Some((message.0, answer.clone())),
        _ => None,
    };
    commands.iter().filter_map(made).collect()
}

/// Until every server is in the new epoch, which is this one.
fn begin(rig: &mut Rig, number: u64, epoch: u64) -> Vec<Command> {
    snapshot(rig, number);
    asked(rig, PEER, number, epoch - 1);
    asked(rig, THIRD, number, 0);
    rig.flush();
    raised(rig, PEER, epoch);
    raised(rig, THIRD, epoch)
}

#[test]
fn snapshot_is_the_end_of_the_largest_epoch_and_waits_for_all_in_each_step() {
    let mut rig = Rig::new(|_| ());
    assert_eq!(sent(snapshot(&mut rig, 1)).len(), 2);
    assert_eq!(asked(&mut rig, PEER, 1, 7), []);
    let begun = asked(&mut rig, THIRD, 1, 3);
    assert!(matches!(records(&begun)[..], [(Record::Epochs { .. }, true)]), "{begun:?}");
    assert_eq!(sent(begun), [(PEER, raise(8)), (THIRD, raise(8))]);
    assert_eq!(raised(&mut rig, PEER, 8), []);
    assert_eq!(raised(&mut rig, THIRD, 8), [], "this server has not entered it durably");
    assert_eq!(sent(rig.flush()), [(PEER, settle(8)), (THIRD, settle(8))]);
    assert_eq!(made(&settled(&mut rig, PEER, 8, Settlement::Settled)), []);
    assert_eq!(made(&settled(&mut rig, THIRD, 8, Settlement::Settled)), [(1, SnapshotAnswer::Made(Epoch(7)))]);
}

#[test]
fn flaw_epoch_not_asked_is_another_snapshot() {
    let mut rig = Rig::new(|config| config.flaw = Some(crate::core::flaw::Flaw::EpochNotAsked));
    snapshot(&mut rig, 1);
    asked(&mut rig, PEER, 1, 7);
    assert_eq!(sent(asked(&mut rig, THIRD, 1, 3)), [(PEER, raise(1)), (THIRD, raise(1))]);
}

#[test]
fn who_asks_while_one_is_made_gets_the_next_one_together() {
    let mut rig = Rig::new(|_| ());
    begin(&mut rig, 1, 8);
    assert_eq!(snapshot(&mut rig, 2), []);
    assert_eq!(snapshot(&mut rig, 3), []);
    settled(&mut rig, PEER, 8, Settlement::Settled);
    let next = settled(&mut rig, THIRD, 8, Settlement::Settled);
    assert_eq!(made(&next), [(1, SnapshotAnswer::Made(Epoch(7)))]);
    assert_eq!(sent(next).len(), 2, "the question for the next one");
    asked(&mut rig, PEER, 2, 8);
    asked(&mut rig, THIRD, 2, 8);
    rig.flush();
    raised(&mut rig, PEER, 9);
    raised(&mut rig, THIRD, 9);
    settled(&mut rig, PEER, 9, Settlement::Settled);
    let both = [2, 3].map(|message| (message, SnapshotAnswer::Made(Epoch(8))));
    assert_eq!(made(&settled(&mut rig, THIRD, 9, Settlement::Settled)), both);
}

#[test]
fn snapshot_that_is_disturbed_begins_again_a_few_times() {
    let mut rig = Rig::new(|config| config.snapshot_attempts = 2);
    begin(&mut rig, 1, 8);
    let again = settled(&mut rig, PEER, 8, Settlement::Disturbed);
    assert!(made(&again).is_empty() && sent(again).len() == 2);
    asked(&mut rig, PEER, 2, 8);
    asked(&mut rig, THIRD, 2, 8);
    raised(&mut rig, PEER, 9);
    raised(&mut rig, THIRD, 9);
    let refused = SnapshotAnswer::Refused(Refusal::SnapshotDisturbed { attempts: 2 });
    assert_eq!(made(&settled(&mut rig, PEER, 9, Settlement::Disturbed)), [(1, refused)]);
}

#[test]
fn snapshot_in_doubt_is_refused_with_the_transaction_and_a_silent_server_with_its_name() {
    for waits in [true, false] {
        let mut rig = Rig::new(|config| config.vote_attempts = 2);
        begin(&mut rig, 1, 8);
        settled(&mut rig, THIRD, 8, Settlement::Settled);
        if waits {
            settled(&mut rig, PEER, 8, Settlement::Waits(tranx(THIRD, 5)));
        }
        rig.now_ms += 200;
        assert_eq!(sent(rig.on(Input::Tick)), [(PEER, settle(8))]);
        rig.now_ms += 200;
        let refusal = if waits {
            Refusal::SnapshotInDoubt { server: PEER, tranx: tranx(THIRD, 5) }
        } else {
            Refusal::NoVote { server: PEER }
        };
        assert_eq!(made(&rig.on(Input::Tick)), [(1, SnapshotAnswer::Refused(refusal))]);
    }
}

#[test]
fn commit_of_the_new_epoch_is_answered_when_all_are_in_it_or_after_a_while_that_disturbs_it() {
    for settles in [true, false] {
        let mut rig = Rig::new(|_| ());
        say(&mut rig, PEER, SnapshotMessage::Raise { epoch: Epoch(8) });
        let entered = sent(rig.flush());
        assert_eq!(entered, [(PEER, Message::Snapshot(SnapshotMessage::Raised { epoch: Epoch(8) }))]);
        rig.commit(1, put(&["1a"]));
        rig.flush();
        let id = tranx(ME, 1);
        assert_eq!(answer(&rig.on(Input::Applied { tranx: id })), None);
        if !settles {
            rig.now_ms += 100;
            assert_eq!(answer(&rig.on(Input::Tick)), Some(&CommitAnswer::Committed(id)));
        }
        let said = say(&mut rig, PEER, SnapshotMessage::Settle { epoch: Epoch(8) });
        assert_eq!(answer(&said), settles.then_some(&CommitAnswer::Committed(id)));
        let settlement = if settles { Settlement::Settled } else { Settlement::Disturbed };
        let reply = SnapshotMessage::Settled { epoch: Epoch(8), settlement };
        assert_eq!(sent(said), [(PEER, Message::Snapshot(reply))]);
    }
}

#[test]
fn part_that_was_accepted_before_is_waited_for_and_named() {
    let mut rig = Rig::new(|_| ());
    let id = tranx(PEER, 3);
    rig.prepare(id, put(&["1a"]));
    rig.flush();
    say(&mut rig, THIRD, SnapshotMessage::Raise { epoch: Epoch(1) });
    rig.flush();
    let settled = |settlement| (THIRD, Message::Snapshot(SnapshotMessage::Settled { epoch: Epoch(1), settlement }));
    let settle = SnapshotMessage::Settle { epoch: Epoch(1) };
    assert_eq!(sent(say(&mut rig, THIRD, settle)), [settled(Settlement::Waits(id))]);
    rig.receive(PEER, Message::Decisions(vec![(id, Outcome::Commit(Epoch(0)))]));
    assert_eq!(sent(rig.on(Input::Applied { tranx: id })), [settled(Settlement::Settled)]);
}

#[test]
fn epochs_begin_after_a_restart_where_they_were_reserved() {
    let mut config = NodeConfig::new(ME, Partition::Hash(vec![ME, PEER]));
    config.acknowledgement_delay_ms = 0;
    for (gc, records) in [
        (None, vec![Record::Epochs { through: Epoch(40) }]),
        (Some(GcRecord { epochs_through: Epoch(40), ..GcRecord::default() }), vec![]),
    ] {
        let mut rig = Rig::recover(config.clone(), gc, records);
        assert_eq!(rig.node.tranx.epochs.now(), Epoch(40));
        // Answers to clients in an earlier life were in these epochs.
        for (epoch, settlement) in [(40, Settlement::Disturbed), (41, Settlement::Settled)] {
            let reply = SnapshotMessage::Settled { epoch: Epoch(epoch), settlement };
            let said = sent(say(&mut rig, PEER, SnapshotMessage::Settle { epoch: Epoch(epoch) }));
            assert_eq!(said, [(PEER, Message::Snapshot(reply))]);
        }
    }
}

#[test]
fn epoch_that_a_vote_brings_along_is_reserved_before_the_commit_is_logged() {
    let mut rig = Rig::new(|config| config.snapshot_hold_ms = 0);
    rig.commit(1, put(&["2a"]));
    let id = tranx(ME, 1);
    let decided = rig.receive(PEER, Message::Vote { tranx: id, vote: Vote::Yes, epoch: Epoch(9) });
    let [(Record::Epochs { through }, true), (Record::Commit { epoch: Epoch(9), .. }, true)] = records(&decided)[..]
    else {
        panic!("{decided:?}")
    };
    assert!(*through >= Epoch(9));
    assert_eq!(answer(&rig.flush()), Some(&CommitAnswer::Committed(id)));
}

#[test]
fn validation_in_an_epoch_that_is_new_here_is_answered_when_that_is_durable() {
    let mut rig = Rig::new(|config| config.snapshot_hold_ms = 0);
    let version = Some(tranx(PEER, 1));
    rig.commit(1, read("2a", version));
    let (vote, epoch) = (Vote::Yes, Epoch(9));
    let said = rig.receive(PEER, Message::Validated { validation: validation(ME, 1), vote, epoch });
    assert_eq!(answer(&said), None);
    assert!(matches!(records(&said)[..], [(Record::Epochs { .. }, true)]), "{said:?}");
    assert_eq!(answer(&rig.flush()), Some(&CommitAnswer::Validated(validation(ME, 1))));
}

/// Has the node look at a read of one of its keys, in this epoch.
fn validate(rig: &mut Rig, number: u64, epoch: u64) -> Vec<Command> {
    let (validation, epoch) = (validation(PEER, number), Epoch(epoch));
    let part = read("1a", Some(tranx(PEER, 1)));
    let mut said = rig.receive(PEER, Message::Validate { validation, part, epoch });
    if said.iter().any(|command| matches!(command, Command::Check { .. })) {
        let answer = CheckAnswer { stale: vec![], stale_scans: false };
        said.extend(rig.on(Input::Checked { work: validation.into(), answer }));
    }
    said
}

fn validated(number: u64, vote: Vote, epoch: u64) -> (ServerId, Message) {
    (PEER, Message::Validated { validation: validation(PEER, number), vote, epoch: Epoch(epoch) })
}

#[test]
fn yes_to_a_read_in_an_epoch_that_is_new_here_waits_until_that_is_durable() {
    let mut rig = Rig::new(|_| ());
    let asked = validate(&mut rig, 1, 9);
    assert!(matches!(records(&asked)[..], [(Record::Epochs { .. }, true)]), "{asked:?}");
    assert_eq!(sent(asked), []);
    assert_eq!(validate(&mut rig, 1, 9), [], "a request that is repeated");
    assert_eq!(sent(validate(&mut rig, 2, 9)), []);
    assert_eq!(rig.node.status().participating, 2);
    rig.on(Input::ServerGone { server: PEER });
    assert_eq!(sent(rig.flush()), [validated(1, Vote::Yes, 9), validated(2, Vote::Yes, 9)]);
    assert_eq!(rig.node.status().participating, 0);
    assert_eq!(sent(validate(&mut rig, 3, 9)), [validated(3, Vote::Yes, 9)], "nothing waits in the rest of the block");
}

#[test]
fn yes_to_a_read_waits_for_an_epoch_that_a_commit_has_brought_along() {
    let mut rig = Rig::new(|_| ());
    let id = tranx(PEER, 3);
    rig.prepare(id, put(&["1w"]));
    rig.flush();
    rig.receive(PEER, Message::Decisions(vec![(id, Outcome::Commit(Epoch(9)))]));
    assert_eq!(sent(validate(&mut rig, 1, 0)), []);
    assert_eq!(sent(rig.flush()), [validated(1, Vote::Yes, 9)]);
}

/// A message that was sent before a restart is of no later epoch than the server begins in after
/// it.
#[test]
fn yes_to_a_read_is_of_no_later_epoch_than_the_next_life_begins_in() {
    let mut rig = Rig::new(|_| ());
    let asked = validate(&mut rig, 1, 9);
    let is_kept = |through: &Epoch| vec![Record::Epochs { through: *through }];
    let [(Record::Epochs { through }, _)] = records(&asked)[..] else { panic!("{asked:?}") };
    for (said, log) in [(sent(asked.clone()), vec![]), (sent(rig.flush()), is_kept(through))] {
        let next = Rig::recover(rig.node.config().clone(), None, log).node.tranx.epochs.now();
        let is_later =
            |(_, message): &(ServerId, Message)| matches!(message, Message::Validated { epoch, .. } if *epoch > next);
        assert!(!said.iter().any(is_later), "{said:?}, and the next life begins in {next:?}");
    }
}

#[test]
fn more_reads_than_may_wait_for_an_epoch_are_refused_by_the_limits_name() {
    let mut rig = Rig::new(|config| config.max_validating = 1);
    validate(&mut rig, 1, 9);
    let limit = "1 reads that wait for the log".to_owned();
    assert_eq!(sent(validate(&mut rig, 2, 9)), [validated(2, Vote::No(Refusal::Overloaded { limit }), 9)]);
    assert_eq!(sent(rig.flush()), [validated(1, Vote::Yes, 9)]);
    assert_eq!(rig.node.status().participating, 0);
}

#[test]
fn flaw_validation_before_reserved_says_yes_at_once() {
    let mut rig = Rig::new(|config| config.flaw = Some(crate::core::flaw::Flaw::ValidationBeforeReserved));
    assert_eq!(sent(validate(&mut rig, 1, 9)), [validated(1, Vote::Yes, 9)]);
}
