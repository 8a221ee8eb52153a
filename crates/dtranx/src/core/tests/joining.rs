//! A server that joins: what it waits for, what it refuses meanwhile, and what it asks.

use super::*;

/// Server 1 of three, which is new.
fn new() -> Rig {
    Rig::new(|config| config.joins = true)
}

fn question(rig: &Rig) -> Message {
    let by = rig.node.incarnation().unwrap();
    Message::Snapshot(SnapshotMessage::Ask { by, number: 0 })
}

/// A server's answer to the question for its epoch, as if life `by` had asked.
fn asked(rig: &mut Rig, from: ServerId, by: Incarnation, epoch: u64) -> Vec<Command> {
    rig.receive(from, Message::Snapshot(SnapshotMessage::Asked { by, number: 0, epoch: Epoch(epoch) }))
}

/// The vote among the commands.
fn voted(commands: Vec<Command>) -> Option<Vote> {
    sent(commands).into_iter().find_map(|(_, message)| match message {
        Message::Vote { vote, .. } | Message::Validated { vote, .. } => Some(vote),
        _ => None,
    })
}

#[test]
fn new_server_refuses_parts_and_commits_by_name_and_answers_about_epochs() {
    let mut rig = new();
    let refused = Refusal::Joining { server: ME };
    assert_eq!(voted(rig.prepare(tranx(PEER, 1), put(&["1a"]))), Some(Vote::No(refused.clone())));
    let validate = Message::Validate { validation: validation(PEER, 1), part: read("1a", None), epoch: Epoch(3) };
    assert_eq!(voted(rig.receive(PEER, validate)), Some(Vote::No(refused.clone())));
    assert_eq!(refusal(&rig.commit(1, put(&["1a"]))), &refused);
    let ask = SnapshotMessage::Ask { by: Incarnation(7), number: 4 };
    let answered = SnapshotMessage::Asked { by: Incarnation(7), number: 4, epoch: Epoch(0) };
    assert_eq!(sent(rig.receive(PEER, Message::Snapshot(ask))), [(PEER, Message::Snapshot(answered))]);
    rig.receive(PEER, Message::Snapshot(SnapshotMessage::Raise { epoch: Epoch(2) }));
    let raised = Message::Snapshot(SnapshotMessage::Raised { epoch: Epoch(2) });
    assert_eq!(sent(rig.flush()), [(PEER, raised)]);
    assert!(!rig.node.has_joined() && rig.node.status().remembered == 0);
}

#[test]
fn server_that_all_know_takes_part_in_the_largest_epoch_once_that_is_durable() {
    let mut rig = new();
    let life = rig.node.incarnation().unwrap();
    let question = question(&rig);
    assert_eq!(sent(rig.on(Input::Met)), [(PEER, question.clone()), (THIRD, question.clone())]);
    assert_eq!(asked(&mut rig, PEER, life, 9), []);
    // An answer to a question of an earlier life does not count.
    assert_eq!(asked(&mut rig, THIRD, Incarnation(life.0 + 1), 2), []);
    // Those that have not answered are asked again, for as long as it takes.
    for _ in 0..20 {
        rig.now_ms = rig.node.next_deadline_ms().unwrap();
        assert_eq!(sent(rig.on(Input::Tick)), [(THIRD, question.clone())]);
        assert_eq!(sent(rig.on(Input::Met)), [], "it is told again");
    }
    let entering = asked(&mut rig, THIRD, life, 4);
    assert!(matches!(records(&entering)[..], [(Record::Epochs { through }, true)] if *through >= Epoch(9)));
    assert!(!rig.node.has_joined());
    assert!(matches!(voted(rig.prepare(tranx(PEER, 1), put(&["1a"]))), Some(Vote::No(_))));
    rig.flush();
    assert!(rig.node.has_joined());
    rig.prepare(tranx(PEER, 2), put(&["1a"]));
    let voted = sent(rig.flush());
    let yes = Message::Vote { tranx: tranx(PEER, 2), vote: Vote::Yes, epoch: Epoch(9) };
    assert_eq!(voted, [(PEER, yes)]);
}

#[test]
fn server_of_a_cluster_without_snapshots_joins_without_a_record() {
    let mut rig = new();
    let life = rig.node.incarnation().unwrap();
    rig.on(Input::Met);
    asked(&mut rig, PEER, life, 0);
    assert_eq!(asked(&mut rig, THIRD, life, 0), []);
    assert!(rig.node.has_joined());
}

#[test]
fn server_without_a_name_for_its_life_asks_once_it_has_one() {
    let partition = Partition::Ranges(vec![(key(""), ME), (key("2"), PEER)]);
    let config = NodeConfig { joins: true, ..NodeConfig::new(ME, partition) };
    let mut node = Recovery::new(config, None).finish(0, &mut vec![]);
    let mut commands = Vec::new();
    node.on(0, Input::Met, &mut commands);
    assert_eq!(commands, []);
    node.on(0, Input::Logged { through: LogTicket(1) }, &mut commands);
    assert!(matches!(&sent(commands)[..], [(PEER, Message::Snapshot(SnapshotMessage::Ask { number: 0, .. }))]));
}

/// A leader that others have replaced must not answer it: its group may have entered later epochs.
#[test]
fn answer_to_a_server_that_joins_speaks_of_now_and_one_to_a_maker_does_not() {
    let mut rig = Rig::new(|_| ());
    let mut speaks = |number| {
        let ask = SnapshotMessage::Ask { by: Incarnation(7), number };
        let answers = rig.receive(PEER, Message::Snapshot(ask));
        assert_eq!(answers.len(), 1);
        answers[0].speaks_of_now()
    };
    assert_eq!([speaks(0), speaks(1)], [true, false]);
}
