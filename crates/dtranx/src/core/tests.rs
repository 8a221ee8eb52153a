//! One node, event by event: what it wants done, and in which order.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;

const ME: ServerId = ServerId(1);
const PEER: ServerId = ServerId(2);
const THIRD: ServerId = ServerId(3);

/// A node, and the number of the last record that it logged.
struct Rig {
    node: Node,
    last: u64,
    now_ms: u64,
}

impl Rig {
    /// Server 1 of three: it holds the keys before "2", server 2 those from "2" on, server 3 those from "3" on.
    fn new(change: impl FnOnce(&mut NodeConfig)) -> Self {
        let partition = Partition::Ranges(vec![(key(""), ME), (key("2"), PEER), (key("3"), THIRD)]);
        let mut config = NodeConfig::new(ME, partition);
        config.decision_delay_ms = 0;
        change(&mut config);
        Self::recover(config, None, vec![])
    }

    fn recover(config: NodeConfig, gc: Option<GcRecord>, records: Vec<Record>) -> Self {
        let mut recovery = Recovery::new(config, gc);
        for record in records {
            recovery.record(SegmentId(1), record);
        }
        let mut rig = Self { node: recovery.finish(0, &mut vec![]), last: 1, now_ms: 0 };
        rig.on(Input::Logged { through: LogTicket(1) });
        rig.on(Input::ClientConnected { client: rig.client() });
        rig
    }

    fn client(&self) -> ClientId {
        ClientId { incarnation: self.node.incarnation().unwrap(), number: 1 }
    }

    fn on(&mut self, input: Input) -> Vec<Command> {
        let mut commands = Vec::new();
        self.node.on(self.now_ms, input, &mut commands);
        for command in &commands {
            if let Command::Log { ticket, .. } = command {
                self.last = ticket.0;
            }
        }
        commands
    }

    fn commit(&mut self, message: u64, transaction: Transaction) -> Vec<Command> {
        let client = self.client();
        self.on(Input::Commit { client, message: MessageId(message), transaction })
    }

    fn receive(&mut self, from: ServerId, message: Message) -> Vec<Command> {
        self.on(Input::Receive { from, message })
    }

    /// Everything that was logged is durable.
    fn flush(&mut self) -> Vec<Command> {
        self.on(Input::Logged { through: LogTicket(self.last) })
    }

    fn prepare(&mut self, tranx: TranxId, part: Transaction) -> Vec<Command> {
        self.receive(tranx.server, Message::Prepare { tranx, participants: vec![ME, PEER, THIRD], part })
    }
}

fn key(name: &str) -> Key {
    Key::new(name.as_bytes().to_vec()).unwrap()
}

fn tranx(server: ServerId, number: u64) -> TranxId {
    TranxId { server, number }
}

fn put(names: &[&str]) -> Transaction {
    let write = |name: &&str| Write { key: key(name), value: Some(Value::new("v").unwrap()) };
    Transaction { writes: names.iter().map(write).collect(), ..Default::default() }
}

fn read(name: &str, version: Option<TranxId>) -> Transaction {
    Transaction { reads: vec![Read { key: key(name), version }], ..Default::default() }
}

fn vote(tranx: TranxId, vote: Vote) -> Message {
    Message::Vote { tranx, vote }
}

/// The answer among the commands.
fn answer(commands: &[Command]) -> Option<&CommitAnswer> {
    commands.iter().find_map(|command| match command {
        Command::Reply { answer, .. } => Some(answer),
        _ => None,
    })
}

fn refusal(commands: &[Command]) -> &Refusal {
    match answer(commands) {
        Some(CommitAnswer::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

/// What is sent, with the receivers.
fn sent(commands: Vec<Command>) -> Vec<(ServerId, Message)> {
    let message = |command| match command {
        Command::Send { to, message } => Some((to, message)),
        _ => None,
    };
    commands.into_iter().filter_map(message).collect()
}

fn records(commands: &[Command]) -> Vec<(&Record, bool)> {
    let record = |command| match command {
        &Command::Log { ref record, durable, .. } => Some((record, durable)),
        _ => None,
    };
    commands.iter().filter_map(record).collect()
}

#[test]
fn one_phase_checks_logs_applies_and_then_answers() {
    let mut rig = Rig::new(|_| {});
    let both = Transaction { reads: read("1r", None).reads, ..put(&["1w"]) };
    let id = tranx(ME, 1);
    assert!(matches!(rig.commit(1, both)[..], [Command::Check { tranx, .. }] if tranx == id));
    let logs = rig.on(Input::Checked { tranx: id, answer: CheckAnswer::default() });
    assert!(matches!(logs[..], [Command::Log { record: Record::OnePhase { .. }, durable: true, .. }]), "{logs:?}");
    assert!(matches!(rig.flush()[..], [Command::Apply { tranx, .. }] if tranx == id));
    let done = rig.on(Input::Applied { tranx: id });
    assert_eq!(answer(&done), Some(&CommitAnswer::Committed(id)));
    assert!(rig.node.participant().locks().is_empty());
}

#[test]
fn one_phase_stale_read_comes_with_what_is_there() {
    let mut rig = Rig::new(|_| {});
    rig.commit(1, Transaction { reads: read("1r", None).reads, ..put(&["1w"]) });
    let item = Item { value: Value::new("new").unwrap(), version: tranx(PEER, 9) };
    let current = vec![Current { key: key("1r"), item: Some(item) }];
    let check = CheckAnswer { stale: current.clone(), stale_scans: false };
    let done = rig.on(Input::Checked { tranx: tranx(ME, 1), answer: check });
    assert_eq!(refusal(&done), &Refusal::Stale { current });
    assert_eq!(refusal(&done).advice(), Advice::Restart);
    assert!(rig.node.participant().locks().is_empty());
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
    let told = (PEER, Message::Decisions(vec![(id, Outcome::Commit)]));
    assert_eq!(sent(durable), std::slice::from_ref(&told));
    rig.on(Input::Applied { tranx: id });
    rig.now_ms = 10_000;
    assert_eq!(sent(rig.on(Input::Tick)), [told]);
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
    assert!(rig.node.participant().locks().is_empty());
    assert_eq!(sent(rig.receive(THIRD, Message::Inquire { tranx: id }))[0].1, told(id, Some(Outcome::Abort)));
}

fn told(tranx: TranxId, outcome: Option<Outcome>) -> Message {
    Message::Told { tranx, outcome }
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
fn two_phases_decisions_are_sent_together() {
    let mut rig = Rig::new(|config| config.decision_delay_ms = 3);
    rig.commit(1, put(&["2a"]));
    rig.commit(2, put(&["2b"]));
    rig.receive(PEER, vote(tranx(ME, 1), Vote::Yes));
    rig.receive(PEER, vote(tranx(ME, 2), Vote::Yes));
    assert_eq!(sent(rig.flush()), []);
    rig.now_ms = 3;
    let both = vec![(tranx(ME, 1), Outcome::Commit), (tranx(ME, 2), Outcome::Commit)];
    assert_eq!(sent(rig.on(Input::Tick)), [(PEER, Message::Decisions(both))]);
}

#[test]
fn reads_of_versions_are_validated_without_log_and_locks() {
    let mut rig = Rig::new(|_| {});
    let version = Some(tranx(PEER, 1));
    let mut reads = read("1r", version);
    reads.reads.extend(read("2r", version).reads);
    let begun = rig.commit(1, reads);
    assert!(records(&begun).is_empty() && rig.node.participant().locks().is_empty());
    assert!(matches!(sent(begun)[..], [(PEER, Message::Validate { .. })]));
    rig.on(Input::Checked { tranx: tranx(ME, 1), answer: CheckAnswer::default() });
    let done = rig.receive(PEER, vote(tranx(ME, 1), Vote::Yes));
    assert_eq!(answer(&done), Some(&CommitAnswer::Committed(tranx(ME, 1))));
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
    assert!(rig.node.participant().locks().is_empty());
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

#[test]
fn promise_is_told_when_it_is_durable_and_kept_after_a_restart() {
    let mut rig = Rig::new(|_| {});
    let id = tranx(PEER, 1);
    let promising = rig.receive(THIRD, Message::Inquire { tranx: id });
    let record = Record::Outcome { tranx: id, outcome: Outcome::Abort };
    assert_eq!(records(&promising), [(&record, true)]);
    assert_eq!(sent(promising), []);
    assert_eq!(sent(rig.flush()), [(THIRD, told(id, Some(Outcome::Abort)))]);
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
    let repeated = rig.on(Input::Commit { client: before, message: MessageId(1), transaction: put(&["2w"]) });
    assert_eq!(answer(&repeated), Some(&CommitAnswer::Indeterminate));
    let [(PEER, Message::Prepare { tranx: id, .. })] = sent(rig.commit(1, put(&["2w"])))[..] else { panic!() };
    assert_eq!((id, rig.node.status().low_water), (tranx(ME, 16), 15), "what was reserved is aborted");
    let lost = rig.receive(PEER, Message::Inquire { tranx: tranx(ME, 1) });
    assert_eq!(sent(lost), [(PEER, told(tranx(ME, 1), Some(Outcome::Abort)))]);
}

#[test]
fn restart_tells_participants_of_commits_again() {
    let config = Rig::new(|_| {}).node.config().clone();
    let id = tranx(ME, 4);
    let records = vec![Record::Reserve { through: 15 }, Record::Commit { tranx: id, participants: vec![PEER, THIRD] }];
    let mut rig = Rig::recover(config, None, records);
    let commit = |to| (to, Message::Decisions(vec![(id, Outcome::Commit)]));
    assert_eq!(sent(rig.on(Input::Tick)), [commit(PEER), commit(THIRD)]);
    assert_eq!(rig.node.status().low_water, 3);
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
    rig.commit(1, put(&["2a"]));
    rig.commit(2, put(&["2b"]));
    assert_eq!(limit(&rig.commit(3, put(&["2c"]))), "2 transactions since one that is not complete");
    let mut rig = Rig::new(|config| config.number_block = 1);
    rig.commit(1, put(&["2a"]));
    assert_eq!(limit(&rig.commit(2, put(&["2b"]))), "transaction numbers that are durably reserved");
    rig.flush();
    assert!(answer(&rig.commit(3, put(&["2b"]))).is_none());
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

#[test]
fn complete_transactions_are_forgotten_a_few_at_a_time() {
    let mut rig = Rig::new(|_| {});
    for number in 1..=200 {
        rig.receive(PEER, Message::Decisions(vec![(tranx(PEER, number), Outcome::Abort)]));
    }
    rig.receive(PEER, Message::LowWater { number: 200 });
    let left = rig.node.status().remembered;
    assert!(left > 0 && left < 200, "{left}");
    assert_eq!(rig.prepare(tranx(PEER, 200), put(&["1w"])), [], "remembered or not, it is complete");
    for _ in 0..5 {
        rig.receive(PEER, Message::LowWater { number: 200 });
    }
    assert_eq!(rig.node.status().remembered, 0);
}

#[test]
fn garbage_is_collected_in_order_and_only_once_complete() {
    let mut rig = Rig::new(|_| {});
    let mut summary = SegmentSummary::default();
    summary.note(&Record::Outcome { tranx: tranx(PEER, 5), outcome: Outcome::Commit });
    rig.on(Input::SegmentSealed { segment: SegmentId(1), summary });
    rig.on(Input::SegmentSealed { segment: SegmentId(2), summary: SegmentSummary::default() });
    let local = |commands: Vec<Command>| -> Vec<Command> {
        commands.into_iter().filter(|command| !matches!(command, Command::Send { .. })).collect()
    };
    assert_eq!(local(rig.on(Input::CollectGarbage)), [], "a later segment may not go before an earlier one");
    rig.receive(PEER, Message::LowWater { number: 5 });
    assert_eq!(local(rig.on(Input::CollectGarbage)), [Command::PersistStorage]);
    assert_eq!(local(rig.on(Input::CollectGarbage)), [], "one collection at a time");
    let recorded = local(rig.on(Input::StoragePersisted));
    let [Command::WriteGcRecord(record)] = &recorded[..] else { panic!("{recorded:?}") };
    assert!(record.low_water.contains(&(PEER, 5)) && record.reserved_through > 0);
    let removed = local(rig.on(Input::GcRecorded));
    assert_eq!(removed, [Command::RemoveSegments { through: SegmentId(2) }]);
    assert_eq!(rig.node.status().segments, 0);
}
