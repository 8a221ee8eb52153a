//! State that is kept over a restart, and state that is forgotten or collected when no server needs
//! it.

use super::*;

#[test]
fn promise_is_sent_when_it_is_durable_and_kept_after_a_restart() {
    let mut rig = Rig::new(|_| {});
    let id = tranx(PEER, 1);
    let promising = rig.receive(THIRD, Message::Inquire { tranx: id });
    let record = Record::Outcome { tranx: id, outcome: Outcome::Abort };
    assert_eq!(records(&promising), [(&record, true)]);
    assert_eq!(sent(promising), []);
    assert_eq!(sent(rig.flush()), [(THIRD, inquiry_answer(id, Some(Outcome::Abort)))]);
    let mut rig = Rig::recover(rig.node.config().clone(), None, vec![record]);
    let late = sent(rig.prepare(id, put(&["1w"])));
    assert!(matches!(&late[..], [(PEER, Message::Vote { vote: Vote::No(_), .. })]), "{late:?}");
}

#[test]
fn restart_uses_no_number_twice_and_knows_no_client() {
    let mut rig = Rig::new(|config| config.number_block = 10);
    let before = rig.client();
    rig.commit(1, put(&["2w"]));
    let mut rig = Rig::recover(rig.node.config().clone(), None, vec![Record::Reserve { through: 15 }]);
    let (transaction, again) = (put(&["2w"]), Again::default());
    let repeated = rig.on(Input::Commit { client: before, message: MessageId(1), transaction, again });
    assert_eq!(answer(&repeated), Some(&CommitAnswer::Indeterminate));
    let [(PEER, Message::Prepare { tranx: id, .. })] = sent(rig.commit(1, put(&["2w"])))[..] else { panic!() };
    assert_eq!((id, rig.node.status().low_water), (tranx(ME, 16), 15), "what was reserved is aborted");
    let lost = rig.receive(PEER, Message::Inquire { tranx: tranx(ME, 1) });
    assert_eq!(sent(lost), [(PEER, inquiry_answer(tranx(ME, 1), Some(Outcome::Abort)))]);
}

/// Two lives of one server are there at once only where a group replicates its log.
#[test]
fn inquiry_about_a_number_that_no_life_has_given_here_is_not_answered() {
    for (flaw, answered) in [(None, false), (Some(crate::core::flaw::Flaw::AnswersForLaterLives), true)] {
        let mut rig = Rig::new(|config| config.flaw = flaw);
        rig.commit(1, put(&["2w"]));
        let mut inquire = |number| sent(rig.receive(PEER, Message::Inquire { tranx: tranx(ME, number) }));
        let answer = |number, outcome| vec![(PEER, inquiry_answer(tranx(ME, number), outcome))];
        assert_eq!(inquire(1), answer(1, None));
        let later = if answered { answer(2, Some(Outcome::Abort)) } else { vec![] };
        assert_eq!(inquire(2), later);
    }
}

#[test]
fn restart_tells_participants_of_commits_again() {
    let config = Rig::new(|_| {}).node.config().clone();
    let id = tranx(ME, 4);
    let records = vec![
        Record::Reserve { through: 15 },
        Record::Commit { tranx: id, participants: vec![PEER, THIRD], epoch: Epoch(0) },
    ];
    let mut rig = Rig::recover(config, None, records);
    let commit = |to| (to, Message::Decisions(vec![(id, Outcome::Commit(Epoch(0)))]));
    assert_eq!(sent(rig.on(Input::Tick)), [commit(PEER), commit(THIRD)]);
    assert_eq!(rig.node.status().low_water, 3);
}

#[test]
fn complete_transactions_are_forgotten_a_few_at_a_time() {
    let mut rig = Rig::new(|_| {});
    for number in 1..=200 {
        rig.receive(PEER, Message::Decisions(vec![(tranx(PEER, number), Outcome::Abort)]));
    }
    rig.receive(PEER, low_water(200));
    let left = rig.node.status().remembered;
    assert!(left > 0 && left < 200, "{left}");
    assert_eq!(rig.prepare(tranx(PEER, 200), put(&["1w"])), [], "remembered or not, it is complete");
    for _ in 0..5 {
        rig.receive(PEER, low_water(200));
    }
    assert_eq!(rig.node.status().remembered, 0);
}

#[test]
fn garbage_is_collected_in_order_and_only_once_complete() {
    let mut rig = Rig::new(|_| {});
    let mut summary = SegmentSummary::default();
    summary.note(&Record::Outcome { tranx: tranx(PEER, 5), outcome: Outcome::Commit(Epoch(0)) });
    rig.on(Input::SegmentSealed { segment: SegmentId(1), summary });
    rig.on(Input::SegmentSealed { segment: SegmentId(2), summary: SegmentSummary::default() });
    let local = |commands: Vec<Command>| -> Vec<Command> {
        commands.into_iter().filter(|command| !matches!(command, Command::Send { .. })).collect()
    };
    assert_eq!(local(rig.on(Input::CollectGarbage)), [], "a later segment may not go before an earlier one");
    rig.receive(PEER, low_water(5));
    assert_eq!(local(rig.on(Input::CollectGarbage)), [Command::PersistStorage]);
    assert_eq!(local(rig.on(Input::CollectGarbage)), [], "one collection at a time");
    let recorded = local(rig.on(Input::StoragePersisted));
    let [Command::WriteGcRecord(record)] = &recorded[..] else { panic!("{recorded:?}") };
    assert!(record.low_water.contains(&(PEER, 5)) && record.reserved_through > 0);
    let removed = local(rig.on(Input::GcRecorded));
    assert_eq!(removed, [Command::RemoveSegments { through: SegmentId(2) }]);
    assert_eq!(rig.node.status().segments, 0);
}
