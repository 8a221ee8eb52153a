//! Moves of ranges: what a server takes before, during and after one, and what a coordinator
//! learns.

use super::*;
use crate::core::map::Map;

/// The range from "1b" up to "1d", which goes from this server to server 2.
fn moving(moves: u64) -> Moving {
    Moving { range: KeyRange::until(key("1b"), key("1d")), from: ME, to: PEER, moves }
}

/// The transaction that moves it, with one key that was found there.
fn a_move(moves: u64) -> Transaction {
    let found = vec![(key("1c"), tranx(THIRD, 1))];
    let scans = vec![ScanRead { range: moving(moves).range, found }];
    Transaction { scans, moving: Some(Box::new(moving(moves))), ..put(&["1c"]) }
}

fn part_of(server: ServerId, moves: u64) -> Transaction {
    Map::from(&Rig::new(|_| {}).node.config().partition).split(a_move(moves)).remove(&server).unwrap()
}

fn is_well(rig: &mut Rig, id: TranxId) -> Vec<Command> {
    rig.on(Input::Checked { work: id.into(), answer: CheckAnswer::default() })
}

/// The vote among the commands, if it is a no.
fn no(commands: Vec<Command>) -> Option<Refusal> {
    sent(commands).into_iter().find_map(|(_, message)| match message {
        Message::Vote { vote: Vote::No(refusal), .. } => Some(refusal),
        _ => None,
    })
}

fn ready(commands: &[Command]) -> Vec<Write> {
    match records(commands)[..] {
        [(Record::Ready { writes, .. }, true)] => writes.clone(),
        ref other => panic!("{other:?}"),
    }
}

/// A server that has given the range to server 2.
fn given() -> Rig {
    let (mut rig, id) = (Rig::new(|_| {}), tranx(PEER, 1));
    rig.prepare(id, part_of(ME, 1));
    is_well(&mut rig, id);
    rig.flush();
    rig.receive(PEER, Message::Decisions(vec![(id, Outcome::Commit(Epoch(0)))]));
    rig.on(Input::Applied { tranx: id });
    rig.flush();
    rig
}

#[test]
fn giver_logs_the_deletions_and_its_new_map() {
    let (mut rig, id) = (Rig::new(|_| {}), tranx(PEER, 1));
    let checks = rig.prepare(id, part_of(ME, 1));
    assert!(matches!(&checks[..], [Command::Check { scans, .. }] if scans[0].found.len() == 1), "{checks:?}");
    let writes = ready(&is_well(&mut rig, id));
    assert_eq!(writes[1], Write { key: key("1c"), value: None });
    let map = Map::written(&writes).unwrap();
    assert_eq!(["1a", "1b", "1c", "1d"].map(|name| map.server_of(&key(name)).0), [1, 2, 2, 1]);
    assert_eq!(map.moves_of(&KeyRange::all()), 1);
}

#[test]
fn range_is_refused_while_it_moves_and_named_elsewhere_afterwards() {
    let (mut rig, id) = (Rig::new(|_| {}), tranx(PEER, 1));
    rig.prepare(id, part_of(ME, 1));
    let within = rig.prepare(tranx(PEER, 2), put(&["1a", "1bb"]));
    assert_eq!(no(within), Some(Refusal::IsMoving { key: key("1bb") }));
    assert!(no(rig.prepare(tranx(PEER, 3), put(&["1a"]))).is_none());
    let mut rig = given();
    let moved = vec![Moved { range: moving(1).range, to: PEER, moves: 1 }];
    let elsewhere = |name| Refusal::NotHere { server: ME, key: key(name), moved: moved.clone() };
    assert_eq!(no(rig.prepare(tranx(PEER, 4), put(&["1a", "1c"]))), Some(elsewhere("1c")));
    let range = KeyRange::until(key("1a"), key("1e"));
    let scan = Transaction { scans: vec![ScanRead { range, found: vec![] }], ..put(&["1a"]) };
    assert_eq!(no(rig.prepare(tranx(PEER, 5), scan)), Some(elsewhere("1b")));
    assert!(no(rig.prepare(tranx(PEER, 6), put(&["1a", "1d"]))).is_none());
    // A transaction of its own clients goes to the new holder, too.
    let message = sent(rig.commit(1, put(&["1c"])));
    assert!(matches!(&message[..], [(PEER, Message::Prepare { .. })]), "{message:?}");
}

#[test]
fn aborted_move_leaves_the_range_where_it_was() {
    let (mut rig, id) = (Rig::new(|_| {}), tranx(PEER, 1));
    rig.prepare(id, part_of(ME, 1));
    is_well(&mut rig, id);
    rig.receive(PEER, Message::Decisions(vec![(id, Outcome::Abort)]));
    assert_eq!(rig.node.status().locking, 0);
    assert!(no(rig.prepare(tranx(PEER, 2), put(&["1c"]))).is_none());
}

#[test]
fn taker_demands_that_it_holds_nothing_of_the_range() {
    let mut rig = Rig::new(|_| {});
    let take = |from, moves| {
        let moving = Moving { from, to: ME, range: KeyRange::until(key("2"), key("2b")), moves };
        let scans = vec![ScanRead { range: moving.range.clone(), found: vec![] }];
        Transaction { scans, moving: Some(Box::new(moving)), ..put(&["2a"]) }
    };
    let id = tranx(PEER, 1);
    rig.prepare(id, take(PEER, 1));
    let writes = ready(&is_well(&mut rig, id));
    assert!(writes[1].value.is_some() && Map::written(&writes).unwrap().server_of(&key("2a")) == ME);
    rig.flush();
    rig.receive(PEER, Message::Decisions(vec![(id, Outcome::Commit(Epoch(0)))]));
    rig.on(Input::Applied { tranx: id });
    let here = Refusal::Here { server: ME, key: key("2") };
    assert_eq!(no(rig.prepare(tranx(PEER, 2), take(PEER, 2))), Some(here));
    assert!(no(rig.prepare(tranx(PEER, 3), put(&["2a", "1a"]))).is_none(), "it holds the key now");
}

#[test]
fn move_that_counts_too_few_moves_is_refused() {
    let mut rig = Rig::new(|_| {});
    let id = tranx(PEER, 1);
    rig.prepare(id, part_of(ME, 0));
    let refused = no(is_well(&mut rig, id));
    assert!(
        matches!(&refused, Some(Refusal::Invalid(LimitError::Move { why })) if why.contains("0 moves")),
        "{refused:?}"
    );
    assert_eq!(rig.node.status().locking, 0);
}

#[test]
fn coordinator_asks_the_giver_first_and_alone() {
    let mut rig = Rig::new(|_| {});
    let moving = Moving { from: THIRD, to: PEER, range: KeyRange::until(key("3"), key("3b")), moves: 1 };
    let scans = vec![ScanRead { range: moving.range.clone(), found: vec![] }];
    let transaction = Transaction { scans, moving: Some(Box::new(moving)), ..Transaction::default() };
    let asked = sent(rig.commit(1, transaction));
    assert!(matches!(&asked[..], [(THIRD, Message::Prepare { .. })]), "{asked:?}");
    let asked = sent(rig.receive(THIRD, vote(tranx(ME, 1), Vote::Yes)));
    assert!(matches!(&asked[..], [(PEER, Message::Prepare { .. })]), "{asked:?}");
}

#[test]
fn coordinator_learns_where_a_range_is_from_the_refusal() {
    let mut rig = Rig::new(|_| {});
    rig.commit(1, put(&["2w"]));
    let moved = |to, moves| vec![Moved { range: KeyRange::until(key("2"), key("3")), to, moves }];
    let not_here = |to, moves| Vote::No(Refusal::NotHere { server: PEER, key: key("2w"), moved: moved(to, moves) });
    let done = rig.receive(PEER, vote(tranx(ME, 1), not_here(THIRD, 1)));
    assert_eq!(refusal(&done).advice(), Advice::Restart);
    let receivers = |rig: &mut Rig, message| {
        let asked = sent(rig.commit(message, put(&["2w"])));
        asked.into_iter().map(|(to, _)| to).collect::<Vec<_>>()
    };
    assert_eq!(receivers(&mut rig, 2), [THIRD]);
    // An older word of another server does not count.
    rig.receive(THIRD, vote(tranx(ME, 2), not_here(PEER, 0)));
    assert_eq!(receivers(&mut rig, 3), [THIRD]);
}

/// A server that was started with this map among its items.
fn with_map(me: ServerId, map: &Map) -> Rig {
    let partition = Partition::Ranges(vec![(key(""), ME), (key("2"), PEER), (key("3"), THIRD)]);
    let mut recovery = Recovery::new(NodeConfig::new(me, partition), None);
    let value = Value::new(postcard::to_allocvec(map).unwrap()).unwrap();
    recovery.stored_map(Some(&Item { value, version: tranx(PEER, 1) })).unwrap();
    let mut rig = Rig { node: recovery.finish(0, &mut vec![]), last: 1, now_ms: 0 };
    rig.on(Input::Logged { through: LogTicket(1) });
    rig
}

/// Server 2's map once it has given these single keys of its range to server 3.
fn scattered(keys: impl Iterator<Item = Key>) -> Map {
    let mut map = Map::from(&Rig::new(|_| {}).node.config().partition);
    for key in keys {
        map.learn(&Moved { range: KeyRange::through(key.clone(), key), to: THIRD, moves: 1 });
    }
    map
}

/// Number of attempts until server 2 does not refuse a transaction that scans all of its range
/// and writes at server 3, by a coordinator that has heard of no move.
fn attempts(map: &Map) -> u64 {
    let (mut rig, mut holder) = (Rig::new(|_| {}), with_map(PEER, map));
    for attempt in 1.. {
        let found = vec![ScanRead { range: KeyRange::until(key("2"), key("3")), found: vec![] }];
        let asked = sent(rig.commit(attempt, Transaction { scans: found, ..put(&["3w"]) }));
        let prepare = asked.into_iter().find_map(|(to, message)| (to == PEER).then_some(message)).unwrap();
        let Some(refusal) = no(holder.receive(ME, prepare)) else { return attempt };
        assert!(matches!(refusal, Refusal::NotHere { .. }), "{refusal}");
        rig.receive(PEER, vote(tranx(ME, attempt), Vote::No(refusal)));
    }
    0
}

#[test]
fn coordinator_learns_of_many_moves_in_few_attempts() {
    let small = scattered((0..150).map(|n| key(&format!("2{n:03}"))));
    assert_eq!(attempts(&small), 4);
    // A hint has two of these keys, so that fewer go with one refusal.
    let large = scattered((0..100).map(|n| key(&format!("2{n:03}{}", "k".repeat(3996)))));
    assert_eq!(attempts(&large), 13);
}

#[test]
fn refusal_names_all_that_is_elsewhere_once() {
    let map = scattered([key("2b"), key("2d"), key("2f")].into_iter());
    let mut rig = with_map(PEER, &map);
    let ranges = [("2a", "2e"), ("2c", "2f")].map(|(from, until)| KeyRange::until(key(from), key(until)));
    let scans = ranges.map(|range| ScanRead { range, found: vec![] }).to_vec();
    let part = Transaction { scans, ..put(&["2c", "2f", "2d", "1w"]) };
    let asked =
        Message::Prepare { tranx: tranx(ME, 1), participants: vec![ME, PEER], part, standing: Standing::default() };
    let Some(Refusal::NotHere { server, key: first, moved }) = no(rig.receive(ME, asked)) else { panic!("no refusal") };
    assert_eq!((server, first), (PEER, key("2f")));
    let named: Vec<_> = moved.iter().map(|moved| (moved.range.start.clone(), moved.to)).collect();
    assert_eq!(named, [(key("2f"), THIRD), (key("2d"), THIRD), (key(""), ME), (key("2b"), THIRD)]);
}

#[test]
fn restarted_server_in_doubt_about_a_move_keeps_the_range_closed() {
    for (server, other) in [(ME, PEER), (PEER, ME)] {
        let (range, id) = (moving(1).range, tranx(THIRD, 1));
        let partition = Partition::Ranges(vec![(key(""), ME), (key("2"), PEER), (key("3"), THIRD)]);
        let map = Map::from(&partition).after(&moving(1)).unwrap();
        let ready = Record::Ready {
            tranx: id,
            participants: vec![server, other],
            shared: vec![],
            ranges: vec![range],
            writes: vec![map.clone()],
        };
        let mut recovery = Recovery::new(NodeConfig::new(server, partition), None);
        recovery.record(SegmentId(1), ready);
        // The storage may have the move's writes already.
        let item = Item { value: map.value.unwrap(), version: id };
        recovery.stored_map(Some(&item).filter(|_| server == PEER)).unwrap();
        let mut rig = Rig { node: recovery.finish(0, &mut vec![]), last: 1, now_ms: 0 };
        rig.on(Input::Logged { through: LogTicket(1) });
        let refused = no(rig.prepare(tranx(THIRD, 2), put(&["1cc"])));
        assert_eq!(refused, Some(Refusal::IsMoving { key: key("1cc") }), "server {server}");
    }
}

#[test]
fn contradictory_moves_are_refused_before_anything_is_sent() {
    let mut rig = Rig::new(|_| {});
    let mut refused = |message, transaction| {
        let done = rig.commit(message, transaction);
        assert_eq!(sent(done.clone()), []);
        refusal(&done).clone()
    };
    let with = |change: fn(&mut Transaction)| {
        let mut transaction = a_move(1);
        change(&mut transaction);
        transaction
    };
    let cases: [fn(&mut Transaction); 6] = [
        |tranx| tranx.moving.as_mut().unwrap().to = ServerId(999),
        |tranx| tranx.scans.clear(),
        |tranx| tranx.writes[0].value = None,
        |tranx| tranx.writes.clear(),
        |tranx| tranx.scans[0].range = KeyRange::all(),
        |tranx| tranx.moving.as_mut().unwrap().to = ME,
    ];
    for (message, change) in (1..).zip(cases) {
        assert!(matches!(refused(message, with(change)), Refusal::Invalid(LimitError::Move { .. })));
    }
    let reserved = Transaction { writes: vec![Write { key: Key::of_map(), value: None }], ..put(&[]) };
    assert!(matches!(refused(9, reserved), Refusal::Invalid(LimitError::Reserved { .. })));
}
