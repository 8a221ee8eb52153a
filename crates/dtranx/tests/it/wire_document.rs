//! Tests that the page docs/dtranx-wire.md describes the codec: the bytes of its examples, and the
//! number of each case.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use bytes::Bytes;
use dtranx::cluster::{Cluster, Places, Server};
use dtranx::core::{
    Again, ClientId, CommitAnswer, Current, Epoch, Incarnation, Item, Key, KeyRange, LimitError, Map, Message,
    MessageId, Moved, Moving, Outcome, Read, Record, Refusal, RequestId, ScanRead, ServerId, Settlement,
    SnapshotAnswer, SnapshotMessage, Standing, StoreId, Transaction, TranxId, ValidationId, Value, Vote, Write,
    partition::hash, range::KeyBound,
};
use dtranx::log::{Position, payload};
use dtranx::wire::{
    Ask, BatchEntry, Caller, GroupMessage, Hello, MemberMessage, Piece, Reply, Request, Response, Secret, Side, Told,
    Welcome, encode, preface,
};
use serde::Serialize;

const SEEN: TranxId = TranxId { server: ServerId(3), number: 77 };
const OWN: TranxId = TranxId { server: ServerId(2), number: 78 };
const VALIDATION: ValidationId = ValidationId { server: ServerId(2), incarnation: Incarnation(1), number: 1 };

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dtranx-wire.md");
    std::fs::read_to_string(path).unwrap()
}

/// Bytes of each example on the page, by the example's name.
fn examples(page: &str) -> BTreeMap<String, Vec<u8>> {
    let byte = |digits: &str| u8::from_str_radix(digits, 16).unwrap();
    let mut examples = BTreeMap::new();
    for part in page.split("\n**").skip(1) {
        let (name, rest) = part.split_once("**\n\n```text\n").unwrap();
        let (body, _) = rest.split_once("```").unwrap();
        let lines = body.lines().map(|line| line.split(';').next().unwrap());
        examples.insert(name.to_owned(), lines.flat_map(str::split_whitespace).map(byte).collect());
    }
    examples
}

fn frame(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(message, &mut bytes).unwrap();
    bytes
}

fn key(name: &'static str) -> Key {
    Key::new(name).unwrap()
}

fn value(text: &'static str) -> Value {
    Value::new(text).unwrap()
}

fn hello() -> Hello {
    Hello { cluster: String::new(), map: None, to: None, from: Caller::Client(None), nonce: [9; 16] }
}

fn cluster() -> Cluster {
    let server = |id: u16| Server { id: ServerId(id), address: ([127, 0, 0, 1], 7100 + id).into() };
    Cluster::hashed("bank", vec![server(1), server(2)])
}

fn transaction() -> Transaction {
    Transaction {
        reads: vec![Read { key: key("a"), version: Some(SEEN) }, Read { key: key("b"), version: None }],
        scans: vec![ScanRead { range: KeyRange::through(key("k"), key("k2")), found: vec![(key("k1"), SEEN)] }],
        writes: vec![Write { key: key("a"), value: Some(value("two")) }, Write { key: key("c"), value: None }],
        moving: None,
    }
}

/// Moves the range from "k" to "m", in which "k1" was found.
fn a_move() -> Transaction {
    let moving = Moving { range: moved().range, from: ServerId(1), to: ServerId(2), moves: 1 };
    Transaction {
        scans: vec![ScanRead { range: moving.range.clone(), found: vec![(key("k1"), SEEN)] }],
        writes: vec![Write { key: key("k1"), value: Some(value("one")) }],
        moving: Some(Box::new(moving)),
        ..Transaction::default()
    }
}

fn moved() -> Moved {
    Moved { range: KeyRange::until(key("k"), key("m")), to: ServerId(2), moves: 1 }
}

fn asked_about() -> RequestId {
    let client = ClientId { incarnation: Incarnation(70_000), number: 3 };
    RequestId { client, message: MessageId(300) }
}

fn requests() -> Vec<(&'static str, Vec<u8>)> {
    let request = |id, ask| frame(&Request { id, is_repeated: id == 302, ask });
    let again = Again { waited_ms: 25, keeps: true, kept: Some(OWN) };
    let until_m = KeyRange::until(key("a"), key("m"));
    vec![
        ("request to get two keys", request(5, Ask::Get(vec![key("a"), key("")]))),
        ("request to commit", request(300, Ask::Commit(transaction()))),
        ("request to move a range", request(306, Ask::Commit(a_move()))),
        ("request to commit again", request(301, Ask::CommitAgain { transaction: transaction(), again })),
        ("request for a snapshot, repeated", request(302, Ask::Snapshot)),
        (
            "request that asks what became of another",
            request(304, Ask::RequestOutcome { request: asked_about(), above: 77 }),
        ),
        ("request to scan a snapshot", request(303, Ask::ScanAt { epoch: Epoch(9), range: until_m, items: 100 })),
    ]
}

fn responses() -> Vec<(&'static str, Vec<u8>)> {
    let response = |id, reply| frame(&Response { id, reply });
    let one = Item { value: value("one"), version: SEEN };
    let new = Item { value: value("new"), version: TranxId { number: 79, ..SEEN } };
    let stale = Refusal::Stale { current: vec![Current { key: key("a"), item: Some(new) }], kept: Some(OWN) };
    let restarted = Refusal::Restarted { server: ServerId(2) };
    vec![
        ("response with two values", response(5, Reply::Values(vec![Some(one), None]))),
        ("response that it is committed", response(300, Reply::Commit(CommitAnswer::Committed(OWN)))),
        ("response that a read is stale", response(300, Reply::Commit(CommitAnswer::Refused(stale)))),
        ("response that it was not committed", response(304, Reply::Commit(CommitAnswer::Refused(restarted)))),
        ("response that the range has moved", response(305, Reply::NotHere(moved()))),
        ("response with a snapshot", response(302, Reply::Snapshot(SnapshotAnswer::Made(Epoch(9))))),
    ]
}

fn batch() -> MemberMessage {
    let record = postcard::to_stdvec(&Record::Reserve { through: 65_536 }).unwrap();
    let entries = vec![
        BatchEntry { term: 5, payload: Bytes::new() },
        BatchEntry { term: 5, payload: payload([&record[..]]).into() },
    ];
    MemberMessage::Batch { term: 5, committed: 7, before: Position { term: 4, index: 8 }, entries }
}

fn member_messages() -> Vec<MemberMessage> {
    let (term, number, last) = (1, 1, Position::default());
    let told = Told { at: last, is_settled: true, places: Places::default(), stores: vec![] };
    vec![
        batch(),
        MemberMessage::Acknowledge { term, last, is_full: false },
        MemberMessage::Stand { term, last },
        MemberMessage::Vote { term, is_granted: true },
        MemberMessage::Round { term, number },
        MemberMessage::Confirm { term, number },
        MemberMessage::Ask { term, last },
        MemberMessage::Would { term, asked: 2, is_granted: true },
        MemberMessage::Spare { term, through: 1 },
        MemberMessage::Piece(Piece { term, before: last, after: None, items: vec![], last: None }),
        MemberMessage::Taken { term, before: last, through: None },
        MemberMessage::Rejoin,
        MemberMessage::RejoinAnswer { term, last, is_rejoining: false, members: vec![], settled: None },
        MemberMessage::Told(told),
    ]
}

fn group_messages() -> Vec<GroupMessage<Message>> {
    vec![GroupMessage::Leads { term: 1 }, GroupMessage::Message(Message::Keep { tranx: OWN })]
}

fn others() -> Vec<(&'static str, Vec<u8>)> {
    let client = ClientId { incarnation: Incarnation(70_000), number: 3 };
    let store = StoreId([7; 16]);
    let welcome =
        Welcome::Client { client, server: ServerId(1), store, cluster: cluster(), addresses_of: 0, window: 1024 };
    let standing = Standing { since_ms: 1_000_000, ..Standing::default() };
    let participants = vec![ServerId(1), ServerId(2)];
    let prepare = Message::Prepare { tranx: OWN, participants, part: transaction(), standing };
    let secret = Secret::new(b"sixteen bytes, 1").unwrap();
    let nonce = std::array::from_fn(|at| at as u8);
    let prove = |side| secret.prove(side, &hello(), &nonce).unwrap();
    let member = |port: u16| ([127, 0, 0, 1], port).into();
    let group = Cluster::of_group("bank", ServerId(1), vec![member(7101), member(7102), member(7103)]);
    let not_leading = Welcome::NotLeading { leads: Some(3), cluster: group, addresses_of: 0 };
    let challenge = Welcome::Challenge { nonce, proof: prove(Side::Called) };
    let mut map = Map::from(&Cluster::ranges([(Key::smallest(), ServerId(1))]));
    map.learn(&moved());
    vec![
        ("preface", preface().to_vec()),
        ("hello of a client that knows nothing", frame(&hello())),
        ("welcome of a client", frame(&welcome)),
        ("prepare, from a server", frame(&prepare)),
        ("refusal by a member that does not lead", frame(&not_leading)),
        ("batch, from a member that leads", frame(&batch())),
        ("challenge to that hello, with the secret `sixteen bytes, 1`", frame(&challenge)),
        ("the client's answer to that challenge", frame(&prove(Side::Caller))),
        ("the map of a server after that move", postcard::to_stdvec(&map).unwrap()),
        ("map id of that welcome's cluster", postcard::to_stdvec(&cluster().map_id()).unwrap()),
        ("hash of the key `alice`, little-endian", hash(b"alice").to_le_bytes().to_vec()),
    ]
}

#[test]
fn examples_of_the_page_are_what_is_encoded() {
    let mut found = examples(&page());
    for (name, bytes) in requests().into_iter().chain(responses()).chain(others()) {
        let example = found.remove(name).unwrap_or_else(|| panic!("the page has no example {name:?}"));
        assert_eq!(example, bytes, "{name}");
    }
    assert!(found.is_empty(), "examples that are not compared: {:?}", found.keys());
}

/// Encoded number and name of each case of one enum.
fn numbered<T: Serialize + Debug>(cases: &[T]) -> Vec<(u8, String)> {
    let name = |case: &T| {
        let shown = format!("{case:?}");
        shown.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
    };
    cases.iter().map(|case| (postcard::to_stdvec(case).unwrap()[0], name(case))).collect()
}

fn refusals() -> Vec<Refusal> {
    let (key, server, mistake) = (key("k"), ServerId(1), LimitError::KeyTooLong { bytes: 5000 });
    vec![
        Refusal::ReadLocked { key: key.clone() },
        Refusal::Stale { current: vec![], kept: None },
        Refusal::WriteLocked { key: key.clone() },
        Refusal::LockWaitExpired,
        Refusal::NoVote { server },
        Refusal::Overloaded { limit: String::new() },
        Refusal::NotHere { server, key: key.clone(), moved: vec![moved()] },
        Refusal::Invalid(mistake),
        Refusal::SnapshotInDoubt { server, tranx: OWN },
        Refusal::SnapshotDisturbed { attempts: 1 },
        Refusal::SnapshotTooOld { server, why: String::new() },
        Refusal::Restarted { server },
        Refusal::Here { server, key: key.clone() },
        Refusal::IsMoving { key },
        Refusal::Joining { server },
    ]
}

fn mistakes() -> Vec<LimitError> {
    vec![
        LimitError::KeyTooLong { bytes: 1 },
        LimitError::ValueTooLong { bytes: 1 },
        LimitError::TooManyItems { items: 1 },
        LimitError::TooManyBytes { bytes: 1 },
        LimitError::KeyTwice { key: key("k"), list: String::new() },
        LimitError::ScanOutOfOrder { key: key("k") },
        LimitError::Reserved { key: key("k") },
        LimitError::Move { why: String::new() },
        LimitError::Map { ranges: 1 },
    ]
}

fn asks() -> Vec<Ask> {
    let (epoch, range, keys, transaction) = (Epoch(1), KeyRange::all(), vec![], Transaction::default());
    vec![
        Ask::Get(vec![]),
        Ask::Scan { range: range.clone(), items: 1 },
        Ask::Commit(transaction.clone()),
        Ask::Status,
        Ask::Snapshot,
        Ask::GetAt { epoch, keys },
        Ask::ScanAt { epoch, range, items: 1 },
        Ask::CommitAgain { transaction, again: Again::default() },
        Ask::RequestOutcome { request: asked_about(), above: 1 },
        Ask::AddMember { address: ([127, 0, 0, 1], 7104).into(), store: StoreId([7; 16]) },
        Ask::RemoveMember(4),
    ]
}

fn messages() -> Vec<Message> {
    let (part, vote, epoch) = (Transaction::default(), Vote::Yes, Epoch(1));
    vec![
        Message::Prepare { tranx: OWN, participants: vec![], part: part.clone(), standing: Standing::default() },
        Message::Validate { validation: VALIDATION, part, epoch },
        Message::Vote { tranx: OWN, vote: vote.clone(), epoch },
        Message::Validated { validation: VALIDATION, vote, epoch },
        Message::Decisions(vec![]),
        Message::Acknowledge(vec![]),
        Message::Inquire { tranx: OWN },
        Message::InquiryAnswer { tranx: OWN, outcome: None },
        Message::LowWater { through: 1, incomplete: vec![] },
        Message::Keep { tranx: OWN },
        Message::Snapshot(SnapshotMessage::Raise { epoch }),
    ]
}

fn steps() -> Vec<SnapshotMessage> {
    let (by, number, epoch) = (Incarnation(1), 1, Epoch(1));
    vec![
        SnapshotMessage::Ask { by, number },
        SnapshotMessage::Asked { by, number, epoch },
        SnapshotMessage::Raise { epoch },
        SnapshotMessage::Raised { epoch },
        SnapshotMessage::Settle { epoch },
        SnapshotMessage::Settled { epoch, settlement: Settlement::Settled },
    ]
}

/// Cases of each enum on the page, by the first word in the header of the table that lists them.
fn choices() -> Vec<(&'static str, Vec<(u8, String)>)> {
    let answers = [
        CommitAnswer::Committed(OWN),
        CommitAnswer::Validated(VALIDATION),
        CommitAnswer::Refused(Refusal::LockWaitExpired),
        CommitAnswer::Indeterminate,
    ];
    let snapshots = [SnapshotAnswer::Made(Epoch(1)), SnapshotAnswer::Refused(Refusal::LockWaitExpired)];
    let replies = [
        Reply::Values(vec![]),
        Reply::Found { items: vec![], complete: true },
        Reply::Commit(CommitAnswer::Indeterminate),
        Reply::Refused(String::new()),
        Reply::Snapshot(snapshots[0].clone()),
        Reply::FoundAt { items: vec![], through: None },
        Reply::NotHere(moved()),
        Reply::Place(4),
    ];
    vec![
        ("end", numbered(&[KeyBound::Before(key("k")), KeyBound::Through(key("k"))])),
        ("ask", numbered(&asks())),
        ("reply", numbered(&replies)),
        ("answer", numbered(&answers)),
        ("snapshot", numbered(&snapshots)),
        ("refusal", numbered(&refusals())),
        ("mistake", numbered(&mistakes())),
        ("message", numbered(&messages())),
        ("member message", numbered(&member_messages())),
        ("group message", numbered(&group_messages())),
        ("vote", numbered(&[Vote::Yes, Vote::No(Refusal::LockWaitExpired)])),
        ("outcome", numbered(&[Outcome::Commit(Epoch(1)), Outcome::Abort])),
        ("step", numbered(&steps())),
        ("settlement", numbered(&[Settlement::Settled, Settlement::Waits(OWN), Settlement::Disturbed])),
        ("stored map", numbered(&[Map::Hash(cluster().partition), Map::Ranges(vec![])])),
        ("partition", numbered(&[cluster().partition, Cluster::ranges([])])),
    ]
}

/// Rows of the page's table whose header begins with the word `table`.
fn rows_of<'a>(page: &'a str, table: &str) -> Vec<&'a str> {
    let header = format!("| {table} |");
    let lines: Vec<&str> = page.lines().collect();
    let is_header = |two: &[&str]| two[0].starts_with(&header) && two[1].starts_with("| ---");
    let at = lines.windows(2).position(is_header).unwrap_or_else(|| panic!("no table {table:?}"));
    lines[at + 2..].iter().copied().take_while(|line| line.starts_with("| ")).collect()
}

#[test]
fn cases_have_the_numbers_that_the_page_says() {
    let page = page();
    for (table, cases) in choices() {
        let rows = rows_of(&page, table);
        for (number, name) in &cases {
            let row = rows.get(usize::from(*number)).copied().unwrap_or_default();
            assert!(
                row.starts_with(&format!("| {number} | `{name}`")),
                "{table}: {name} is {number}; the page: {row:?}"
            );
        }
        // The page lists the reply `Status`, for which this test has no case.
        let listed = rows.len() - usize::from(table == "reply");
        assert_eq!(listed, cases.len(), "{table}: the page lists {rows:?}");
    }
}
