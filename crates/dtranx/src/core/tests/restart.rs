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
        Record::Commit { tranx: id, participants: vec![PEER, THIRD], epoch: Epoch(0), request: past_request(1) },
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

/// Commands that are not for other servers.
fn local(commands: Vec<Command>) -> Vec<Command> {
    commands.into_iter().filter(|command| !matches!(command, Command::Send { .. })).collect()
}

/// The marks that a node logs.
fn marks(commands: &[Command]) -> &[(ServerId, u64)] {
    let [(Record::Marks { low_water }, false)] = &records(commands)[..] else { panic!("{commands:?}") };
    low_water
}

/// A node with two segments: one with the outcome of a transaction, and an empty one.
fn with_segments() -> Rig {
    let mut rig = Rig::new(|_| {});
    let mut summary = SegmentSummary::default();
    summary.note(&Record::Outcome { tranx: tranx(PEER, 5), outcome: Outcome::Commit(Epoch(0)) });
    rig.on(Input::SegmentSealed { segment: SegmentId(1), summary });
    rig.on(Input::SegmentSealed { segment: SegmentId(2), summary: SegmentSummary::default() });
    rig
}

#[test]
fn garbage_is_collected_in_order_and_only_once_complete() {
    let mut rig = with_segments();
    rig.on(Input::CollectGarbage);
    assert_eq!(local(rig.flush()), [], "a later segment may not go before an earlier one");
    rig.receive(PEER, low_water(5));
    rig.on(Input::CollectGarbage);
    assert_eq!(local(rig.flush()), [Command::PersistStorage]);
    assert_eq!(local(rig.on(Input::CollectGarbage)), [], "one collection at a time");
    let recorded = local(rig.on(Input::StoragePersisted));
    let [Command::WriteGcRecord(record)] = &recorded[..] else { panic!("{recorded:?}") };
    assert!(record.low_water.contains(&(PEER, 5)) && record.reserved_through > 0);
    let removed = local(rig.on(Input::GcRecorded));
    assert_eq!(removed, [Command::RemoveSegments { through: SegmentId(2) }]);
    assert_eq!(rig.node.status().segments, 0);
}

#[test]
fn segments_go_by_marks_that_are_durable_in_the_log() {
    let mut rig = with_segments();
    rig.receive(PEER, low_water(4));
    assert_eq!(marks(&rig.on(Input::CollectGarbage)), [(ME, 0), (PEER, 4), (THIRD, 0)]);
    rig.receive(PEER, low_water(5));
    assert_eq!(local(rig.on(Input::CollectGarbage)), [], "the last marks are not durable");
    assert_eq!(local(rig.flush()), [], "by them, the segment is needed, whatever is known besides");
    assert_eq!(marks(&rig.on(Input::CollectGarbage)), [(ME, 0), (PEER, 5), (THIRD, 0)]);
    assert_eq!(local(rig.flush()), [Command::PersistStorage]);
}

#[test]
fn marks_that_say_nothing_new_are_not_logged_and_segments_go_by_the_last_ones() {
    let mut rig = Rig::new(|_| {});
    assert_eq!(marks(&rig.on(Input::CollectGarbage)).len(), 3);
    rig.flush();
    assert_eq!(local(rig.on(Input::CollectGarbage)), []);
    rig.on(Input::SegmentSealed { segment: SegmentId(3), summary: SegmentSummary::default() });
    assert_eq!(local(rig.on(Input::CollectGarbage)), [Command::PersistStorage]);
}

#[test]
fn marks_have_what_is_reserved_before_them() {
    let mut rig = Rig::new(|config| config.number_block = 2);
    let before = rig.node.tranx.coordinator.reserved();
    rig.on(Input::CollectGarbage);
    rig.commit(1, put(&["2w"]));
    rig.commit(2, put(&["2x"]));
    assert!(rig.node.tranx.coordinator.reserved() > before, "more is reserved behind the marks");
    rig.on(Input::SegmentSealed { segment: SegmentId(1), summary: SegmentSummary::default() });
    assert_eq!(local(rig.flush()), [Command::PersistStorage]);
    let recorded = local(rig.on(Input::StoragePersisted));
    let [Command::WriteGcRecord(record)] = &recorded[..] else { panic!("{recorded:?}") };
    assert_eq!(record.reserved_through, before);
}

#[test]
fn recovery_forgets_at_marks_what_they_call_complete() {
    let config = Rig::new(|_| {}).node.config().clone();
    let mut recovery = Recovery::new(config, None);
    let ready = |tranx| Record::Ready {
        tranx,
        participants: vec![ME, PEER],
        shared: vec![],
        ranges: vec![],
        writes: put(&["1w"]).writes,
    };
    let commit = |number| Record::Commit {
        tranx: tranx(ME, number),
        participants: vec![PEER],
        epoch: Epoch(0),
        request: past_request(number),
    };
    let outcome = |number| Record::Outcome { tranx: tranx(PEER, number), outcome: Outcome::Commit(Epoch(0)) };
    let reserve = Record::Reserve { through: 15 };
    let records = [reserve, commit(4), commit(5), ready(tranx(PEER, 6)), outcome(7), outcome(9), ready(tranx(PEER, 8))];
    records.into_iter().for_each(|record| drop(recovery.record(SegmentId(1), record)));
    assert_eq!(recovery.doubts().len(), 2);
    recovery.record(SegmentId(1), Record::Marks { low_water: vec![(ME, 4), (PEER, 7)] });
    recovery.record(SegmentId(1), Record::Marks { low_water: vec![(ME, 3)] });
    let doubts: Vec<TranxId> = recovery.doubts().iter().map(|doubt| doubt.tranx).collect();
    assert_eq!(doubts, [tranx(PEER, 8)], "what is complete and has no outcome was aborted");
    assert_eq!(recovery.outcomes().keys().copied().collect::<Vec<_>>(), [tranx(PEER, 9)]);
    let known = [4, 5].map(|number| recovery.known(tranx(ME, number)));
    assert_eq!(known, [Known::Aborted, Known::Committed(Epoch(0))], "nobody is in doubt about a complete commit");
    let marks = recovery.marks();
    assert_eq!((marks.reserved_through, marks.low_water), (15, vec![(ME, 4), (PEER, 7)]));
    let mut rig = Rig { node: recovery.finish(0, &mut vec![]), last: 1, now_ms: 0 };
    rig.flush();
    let again = Message::Decisions(vec![(tranx(ME, 5), Outcome::Commit(Epoch(0)))]);
    assert_eq!(sent(rig.on(Input::Tick)).iter().filter(|(_, message)| *message == again).count(), 1);
    assert_eq!(rig.node.status().low_water, 4);
    assert_eq!(rig.prepare(tranx(PEER, 7), put(&["1x"])), [], "it is complete by the marks");
}

/// Of a member's log less may be known to be committed than when its GC record was written; what is
/// applied again until then brings older values back.
#[test]
fn marks_of_the_gc_record_count_once_the_log_says_as_much() {
    let config = Rig::new(|_| {}).node.config().clone();
    let marks = |own| vec![(ME, own), (PEER, 7)];
    let gc = GcRecord { reserved_through: 15, low_water: marks(6), ..GcRecord::default() };
    let mut recovery = Recovery::new(config.clone(), Some(gc));
    let mut says = |low_water| {
        recovery.record(SegmentId(1), Record::Marks { low_water });
        (recovery.marks().low_water[0].1, recovery.has_caught_up())
    };
    assert_eq!(
        [says(marks(5)), says(vec![(ME, 6)]), says(marks(6)), says(marks(9))],
        [(6, false), (6, false), (6, true), (9, true)]
    );
    assert!(Recovery::new(config, None).has_caught_up());
}

#[test]
fn commit_has_the_name_of_its_request_which_the_next_life_finds() {
    let mut rig = Rig::new(|_| {});
    let requests = [1, 2, 3].map(|message| rig.request(message));
    let mut log: Vec<Record> = vec![Record::Reserve { through: rig.node.tranx.coordinator.reserved() }];
    let mut note = |commands: &[Command]| log.extend(records(commands).iter().map(|(record, _)| (*record).clone()));
    note(&rig.commit(1, put(&["1w"])));
    rig.commit(2, put(&["2w"]));
    let id = tranx(ME, 2);
    note(&rig.receive(PEER, vote(id, Vote::Yes)));
    rig.commit(3, put(&["2x"]));
    assert_eq!(
        requests.map(|request| rig.node.request_outcome(request, 0)),
        [RequestOutcome::Indeterminate; 3],
        "it is their own life"
    );
    let config = rig.node.config().clone();
    let next = Rig::recover(config.clone(), None, log.clone());
    let committed = |number| RequestOutcome::Committed(tranx(ME, number));
    assert_eq!(
        requests.map(|request| next.node.request_outcome(request, 0)),
        [committed(1), committed(2), RequestOutcome::NotCommitted]
    );
    // The log has been removed up to these marks.
    let gc = GcRecord { low_water: vec![(ME, 2)], reserved_through: log_end(&log), ..GcRecord::default() };
    let next = Rig::recover(config, Some(gc), vec![]);
    let fates = |above| requests.map(|request| next.node.request_outcome(request, above));
    assert_eq!((fates(1), fates(2)), ([RequestOutcome::Indeterminate; 3], [RequestOutcome::NotCommitted; 3]));
}

/// Asks a node what became of a request.
fn asked(rig: &mut Rig, request: RequestId, above: u64) -> Vec<Command> {
    let client = ClientId { incarnation: Incarnation(70_000), number: 9 };
    rig.on(Input::RequestOutcome { client, message: MessageId(4), request, above })
}

#[test]
fn question_what_became_of_a_request_is_answered_by_what_the_log_has() {
    let mut rig = Rig::new(|_| {});
    let (found, lost) = (rig.request(1), rig.request(2));
    let mut log = vec![Record::Reserve { through: rig.node.tranx.coordinator.reserved() }];
    log.extend(records(&rig.commit(1, put(&["1w"]))).iter().map(|(record, _)| (*record).clone()));
    let own = asked(&mut rig, found, 0);
    assert_eq!(answer(&own), Some(&CommitAnswer::Indeterminate), "it is of this life");
    let mut next = Rig::recover(rig.node.config().clone(), None, log.clone());
    let said = asked(&mut next, found, 0);
    let [Command::Reply { client, message, answer: CommitAnswer::Committed(id) }] = &said[..] else {
        panic!("{said:?}")
    };
    let asker = ClientId { incarnation: Incarnation(70_000), number: 9 };
    assert_eq!((*client, *message, *id), (asker, MessageId(4), tranx(ME, 1)));
    let said = asked(&mut next, lost, 0);
    assert_eq!(refusal(&said), &Refusal::Restarted { server: ME });
    assert!(said.iter().all(|command| !command.speaks_of_now()), "no later life can make it untrue");
    // Commits up to 5 may have gone.
    let gc = GcRecord { low_water: vec![(ME, 5)], reserved_through: log_end(&log), ..GcRecord::default() };
    let mut late = Rig::recover(rig.node.config().clone(), Some(gc), vec![]);
    let mut answers = |above| answer(&asked(&mut late, lost, above)).cloned();
    let never = CommitAnswer::Refused(Refusal::Restarted { server: ME });
    assert_eq!([answers(4), answers(5)], [CommitAnswer::Indeterminate, never].map(Some));
}

#[test]
fn question_is_not_decided_by_a_life_that_has_no_name_yet() {
    let mut recovery = Recovery::new(Rig::new(|_| {}).node.config().clone(), None);
    recovery.record(SegmentId(1), Record::Reserve { through: 20 });
    let mut rig = Rig { node: recovery.finish(0, &mut vec![]), last: 1, now_ms: 0 };
    let said = asked(&mut rig, past_request(1), 0);
    assert_eq!(answer(&said), Some(&CommitAnswer::Indeterminate));
    rig.on(Input::Logged { through: LogTicket(1) });
    assert_eq!(refusal(&asked(&mut rig, past_request(1), 0)), &Refusal::Restarted { server: ME });
}

/// The last number that a log reserves.
fn log_end(log: &[Record]) -> u64 {
    let reserved = |record: &Record| if let Record::Reserve { through } = record { Some(*through) } else { None };
    log.iter().filter_map(reserved).max().unwrap()
}

/// One commit is not acknowledged by server 3; server 2 acknowledges many others. The low-water
/// mark stays before the first one all the time.
#[test]
fn commits_that_were_acknowledged_behind_one_that_was_not_are_forgotten_by_a_restart() {
    const COMMITS: u64 = 70_000;
    let mut rig = Rig::new(|config| config.number_block = 2 * COMMITS);
    let mut log = vec![Record::Reserve { through: rig.node.tranx.coordinator.reserved() }];
    let take = |log: &mut Vec<Record>, commands: &[Command]| {
        log.extend(records(commands).iter().map(|(record, _)| (*record).clone()));
    };
    for number in 1..=COMMITS {
        let begun = rig.commit(number, put(&[if number == 1 { "3w" } else { "2w" }]));
        take(&mut log, &begun);
        let other = if number == 1 { THIRD } else { PEER };
        let id = tranx(ME, number);
        take(&mut log, &rig.receive(other, vote(id, Vote::Yes)));
        take(&mut log, &rig.flush());
        if other == PEER {
            rig.receive(PEER, Message::Acknowledge(vec![id]));
        }
        if number % 1_000 == 0 {
            take(&mut log, &rig.on(Input::CollectGarbage));
            take(&mut log, &rig.flush());
        }
    }
    assert_eq!(rig.node.status().coordinating, 1);
    let mut next = Rig::recover(rig.node.config().clone(), None, log);
    assert_eq!(next.node.status().coordinating, 1);
    let begun = sent(next.commit(1, put(&["2w"])));
    assert!(matches!(begun[..], [(PEER, Message::Prepare { .. })]), "it is admitted: {begun:?}");
}

#[test]
fn recovery_forgets_what_a_record_calls_complete_above_the_marks() {
    let config = Rig::new(|_| {}).node.config().clone();
    let mut recovery = Recovery::new(config, None);
    let outcome = |number| Record::Outcome { tranx: tranx(PEER, number), outcome: Outcome::Commit(Epoch(0)) };
    let ready = Record::Ready {
        tranx: tranx(PEER, 8),
        participants: vec![ME, PEER],
        shared: vec![],
        ranges: vec![],
        writes: put(&["1w"]).writes,
    };
    let marks = Record::Marks { low_water: vec![(PEER, 4)] };
    let complete = Record::Complete { server: PEER, through: 10, incomplete: vec![7] };
    for record in [outcome(3), outcome(7), ready, outcome(9), outcome(11), marks, complete] {
        recovery.record(SegmentId(1), record);
    }
    assert_eq!(recovery.outcomes().keys().copied().collect::<Vec<_>>(), [tranx(PEER, 7), tranx(PEER, 11)]);
    assert_eq!(recovery.doubts(), [], "it was aborted");
    assert_eq!(recovery.marks().low_water, [(PEER, 4)], "segments go by the mark");
    let mut rig = Rig { node: recovery.finish(0, &mut vec![]), last: 1, now_ms: 0 };
    assert_eq!(rig.prepare(tranx(PEER, 8), put(&["1x"])), []);
    assert_eq!(rig.node.status().remembered, 2);
}
