//! Corpus of encoded messages and records, with one of each kind.

use dtranx::cluster::{Cluster, Place, Places, Role, Server};
use dtranx::core::{
    Again, ClientId, CommitAnswer, Current, Epoch, GcRecord, Incarnation, Item, Key, KeyRange, LimitError, Message,
    MessageId, Moved, Moving, Outcome, Read, Record, Refusal, RequestId, ScanRead, ServerId, Settlement,
    SnapshotAnswer, SnapshotMessage, Standing, StoreId, Transaction, TranxId, ValidationId, Value, Vote, Write,
};
use dtranx::log::{Configured, Position, payload};
use dtranx::stage::{QueueReading, Readings, StageReading};
use dtranx::wire::{
    Ask, BatchEntry, Caller, ConnectionStats, GroupMessage, GroupStatus, Hello, LastPiece, MemberMessage, Piece, Proof,
    Reply, Request, Response, ServerStatus, Told, Welcome, decode, encode, next_frame, preface,
};
use serde::Serialize;

use crate::corpus::replay::Corpus;

const PARTICIPANTS: [ServerId; 2] = [ServerId(1), ServerId(300)];
const AGAIN: Again = Again { waited_ms: 300, keeps: true, kept: Some(TRANX) };
const STANDING: Standing = Standing { since_ms: u64::MAX, is_alone: true, keeps: true, kept: Some(TRANX) };
const TRANX: TranxId = TranxId { server: ServerId(300), number: u64::MAX };
const VALIDATION: ValidationId = ValidationId { server: ServerId(300), incarnation: Incarnation(70_000), number: 5 };
const EPOCH: Epoch = Epoch(300);
const STORE: StoreId = StoreId([7; 16]);
const LOST: StoreId = StoreId([6; 16]);
const CLIENT: ClientId = ClientId { incarnation: Incarnation(70_000), number: 3 };
const REQUEST: RequestId = RequestId { client: CLIENT, message: MessageId(300) };

fn key(name: &'static str) -> Key {
    Key::new(name).unwrap()
}

fn item() -> Item {
    Item { value: Value::new("value").unwrap(), version: TRANX }
}

fn writes() -> Vec<Write> {
    vec![
        Write { key: key("a"), value: Some(Value::new("one").unwrap()) },
        Write { key: key("long key with spaces"), value: None },
    ]
}

fn transaction() -> Transaction {
    let reads = vec![Read { key: key("a"), version: Some(TRANX) }, Read { key: key(""), version: None }];
    let range = KeyRange::prefix(key("k"));
    let scans = vec![ScanRead { range, found: vec![(key("k1"), TRANX), (key("k2"), TRANX)] }];
    Transaction { reads, scans, writes: writes(), moving: None }
}

/// Moves a range in which one key was found.
fn a_move() -> Transaction {
    let Moved { range, to, moves } = moved();
    Transaction {
        scans: vec![ScanRead { range: range.clone(), found: vec![(key("k1"), TRANX)] }],
        writes: vec![Write { key: key("k1"), value: Some(Value::new("one").unwrap()) }],
        moving: Some(Box::new(Moving { range, from: ServerId(1), to, moves })),
        ..Transaction::default()
    }
}

fn moved() -> Moved {
    Moved { range: KeyRange::until(key("k"), key("m")), to: ServerId(300), moves: 70_000 }
}

fn cluster() -> Cluster {
    let server = |id: u16| Server { id: ServerId(id), address: ([127, 0, 0, 1], 7000 + id).into() };
    Cluster::hashed("bank", vec![server(1), server(300)])
}

fn hellos() -> Vec<(&'static str, Hello)> {
    let (map, to) = (Some(cluster().map_id()), Some(ServerId(1)));
    let hello = |from| Hello { cluster: "bank".to_owned(), map: map.clone(), to, from, nonce: [9; 16] };
    vec![
        ("server", hello(Caller::Server { server: ServerId(300), store: STORE, is_new: false })),
        ("new_server", hello(Caller::Server { server: ServerId(300), store: STORE, is_new: true })),
        ("client", Hello { cluster: String::new(), map: None, to: None, from: Caller::Client(None), nonce: [9; 16] }),
        ("client_again", hello(Caller::Client(Some(CLIENT)))),
        (
            "member",
            hello(Caller::Member { server: ServerId(300), member: 2, store: STORE, replaces: vec![], told: None }),
        ),
        (
            "member_in_a_lost_ones_place",
            hello(Caller::Member {
                server: ServerId(300),
                member: 2,
                store: STORE,
                replaces: vec![LOST],
                told: told(),
            }),
        ),
    ]
}

fn welcomes() -> Vec<(&'static str, Welcome)> {
    let (server, store, cluster, addresses_of) = (ServerId(1), STORE, cluster(), 0);
    let client = Welcome::Client { client: CLIENT, server, store, cluster, addresses_of, window: 1024 };
    let refused = Welcome::Refused { why: "another cluster".to_owned(), is_temporary: true };
    let challenge = Welcome::Challenge { nonce: [9; 16], proof: Proof([5; 32]) };
    vec![
        ("challenge", challenge),
        ("server", Welcome::Server { store: STORE }),
        ("client", client),
        ("refused", refused),
        ("member", Welcome::Member { member: 3, store: STORE, told: told() }),
        ("not_leading", Welcome::NotLeading { leads: Some(3), cluster: group(), addresses_of: 70_000 }),
        ("removed", Welcome::Removed { at: 70_000 }),
        ("waiting", Welcome::Waiting { cluster: "bank".to_owned(), server: ServerId(300), store: STORE }),
    ]
}

/// A configuration with a member in each of the roles, as one of them tells it.
fn told() -> Option<Told> {
    let roles = [Role::Votes, Role::Goes, Role::Comes, Role::Learns];
    let place = |(number, role): (u8, Role)| {
        let address = ([127, 0, 0, 1], 7000 + u16::from(number)).into();
        Place { number, store: StoreId([number; 16]), address, role }
    };
    let places = Places { given: 9, places: (1..).zip(roles).map(place).collect() };
    let at = Position { term: 69_999, index: 70_000 };
    Some(Told { at, is_settled: false, places, stores: vec![(1, STORE)] })
}

/// A cluster of one server, which is a group.
fn group() -> Cluster {
    let member = |port: u16| ([127, 0, 0, 1], port).into();
    Cluster::of_group("bank", ServerId(300), vec![member(7001), member(7002), member(7003)])
}

/// One message of members of each kind.
fn member_messages() -> Vec<(&'static str, MemberMessage)> {
    let (term, number, last) = (70_000, 5, Position { term: 69_999, index: u64::MAX });
    let entry = |term, records: &[&[u8]]| BatchEntry { term, payload: payload(records.iter().copied()).into() };
    let entries = vec![entry(69_999, &[b"one", b""]), entry(70_000, &[])];
    let items = vec![(key("a"), item()), (key("b"), item())];
    let configured = Some(Configured { at: Position { term: 3, index: 7 }, bytes: b"members".to_vec() });
    let end = Some(LastPiece { gc_payload: b"marks".to_vec().into(), configured });
    let last_piece = Piece { term, before: last, after: Some(key("b")), items: vec![], last: end };
    let (members, settled) = (vec![1, u64::MAX], Some(last));
    vec![
        ("batch", MemberMessage::Batch { term, committed: 3, before: last, entries }),
        ("heartbeat", MemberMessage::Batch { term, committed: 3, before: last, entries: vec![] }),
        ("acknowledge", MemberMessage::Acknowledge { term, last, is_full: true }),
        ("stand", MemberMessage::Stand { term, last }),
        ("vote", MemberMessage::Vote { term, is_granted: true }),
        ("round", MemberMessage::Round { term, number }),
        ("confirm", MemberMessage::Confirm { term, number }),
        ("ask", MemberMessage::Ask { term, last }),
        ("would", MemberMessage::Would { term, asked: 70_001, is_granted: false }),
        ("spare", MemberMessage::Spare { term, through: 70_002 }),
        ("piece", MemberMessage::Piece(Piece { term, before: last, after: None, items, last: None })),
        ("last_piece", MemberMessage::Piece(last_piece)),
        ("taken", MemberMessage::Taken { term, before: last, through: Some(key("b")) }),
        ("rejoin", MemberMessage::Rejoin),
        ("rejoin_answer", MemberMessage::RejoinAnswer { term, last, is_rejoining: true, members, settled }),
        ("told", MemberMessage::Told(told().unwrap())),
    ]
}

/// Messages of a group's member to another server.
fn group_messages() -> Vec<(&'static str, GroupMessage<Message>)> {
    let keep = GroupMessage::Message(Message::Keep { tranx: TRANX });
    vec![("leads", GroupMessage::Leads { term: 70_000 }), ("keep", keep)]
}

fn requests() -> Vec<(&'static str, Request)> {
    let request = |ask| Request { id: 5, is_repeated: false, ask };
    vec![
        ("get", request(Ask::Get(vec![key("a"), key(""), key("b")]))),
        ("scan", request(Ask::Scan { range: KeyRange::until(key("a"), key("m")), items: 100 })),
        ("commit", request(Ask::Commit(transaction()))),
        ("move", request(Ask::Commit(a_move()))),
        ("commit_retry", request(Ask::CommitAgain { transaction: transaction(), again: AGAIN })),
        ("commit_again", Request { id: 5, is_repeated: true, ask: Ask::Commit(transaction()) }),
        ("status", request(Ask::Status)),
        ("snapshot", request(Ask::Snapshot)),
        ("get_at", request(Ask::GetAt { epoch: EPOCH, keys: vec![key("a"), key("")] })),
        ("scan_at", request(Ask::ScanAt { epoch: EPOCH, range: KeyRange::all(), items: 1000 })),
        ("fate", request(Ask::RequestOutcome { request: REQUEST, above: 69_999 })),
    ]
}

fn responses() -> Vec<(&'static str, Response)> {
    let stale = Refusal::Stale { current: vec![Current { key: key("a"), item: Some(item()) }], kept: Some(TRANX) };
    let invalid = Refusal::Invalid(LimitError::KeyTwice { key: key("a"), list: "reads".to_owned() });
    let reserved = Refusal::Invalid(LimitError::Reserved { key: Key::of_map() });
    let no_move = Refusal::Invalid(LimitError::Move { why: "it has not one scan".to_owned() });
    let large_map = Refusal::Invalid(LimitError::Map { ranges: 70_000 });
    let elsewhere = Refusal::NotHere { server: ServerId(300), key: key("k"), moved: vec![moved(), moved()] };
    let here = Refusal::Here { server: ServerId(300), key: key("k") };
    let restarted = Refusal::Restarted { server: ServerId(300) };
    let answered = |refusal| Reply::Commit(CommitAnswer::Refused(refusal));
    let too_old = Refusal::SnapshotTooOld { server: ServerId(300), why: "was restarted since".to_owned() };
    let replies = vec![
        ("values", Reply::Values(vec![None, Some(item())])),
        ("found", Reply::Found { items: vec![(key("a"), item())], complete: false }),
        ("committed", Reply::Commit(CommitAnswer::Committed(TRANX))),
        ("validated", Reply::Commit(CommitAnswer::Validated(VALIDATION))),
        ("stale", answered(stale)),
        ("invalid", answered(invalid)),
        ("reserved", answered(reserved)),
        ("no_move", answered(no_move)),
        ("large_map", answered(large_map)),
        ("elsewhere", answered(elsewhere)),
        ("here", answered(here)),
        ("is_moving", answered(Refusal::IsMoving { key: key("k") })),
        ("joining", answered(Refusal::Joining { server: ServerId(300) })),
        ("status", Reply::Status(Box::new(status()))),
        ("refused", Reply::Refused("the server is at its limit".to_owned())),
        ("snapshot", Reply::Snapshot(SnapshotAnswer::Made(EPOCH))),
        ("restarted", answered(restarted)),
        ("too_old", Reply::Snapshot(SnapshotAnswer::Refused(too_old))),
        ("found_at", Reply::FoundAt { items: vec![(key("a"), item())], through: Some(key("b")) }),
        ("not_here", Reply::NotHere(moved())),
        ("place", Reply::Place(4)),
    ];
    replies.into_iter().map(|(name, reply)| (name, Response { id: 5, reply })).collect()
}

fn status() -> ServerStatus {
    let stage = StageReading { name: "wal".to_owned(), handled: 5, batches: 2, largest_batch: 3, busy_ns: 1 << 40 };
    let queue =
        QueueReading { name: "entry".to_owned(), length: 1, longest: 2, capacity: 8192, refused: 0, kept_back: 0 };
    ServerStatus {
        server: ServerId(1),
        uptime_ms: 1000,
        medium: "disk".to_owned(),
        log_segments: 2,
        log_bytes: 128 << 20,
        low_water: 7,
        coordinating: 1,
        participating: 3,
        in_doubt: 2,
        asking: 1,
        locking: 1,
        lock_waiting: 1,
        anomalies: 0,
        epoch: EPOCH,
        snapshots_from: Epoch(7),
        snapshot_bytes: 1 << 20,
        clients: 1,
        cached_reads: 7,
        committed: 7,
        refused: 1,
        connections: ConnectionStats {
            descriptors: 1024,
            client_connections: 1,
            most_client_connections: 600,
            ..ConnectionStats::default()
        },
        peers: vec![ServerId(300)],
        readings: Readings { stages: vec![stage], queues: vec![queue] },
        group: told().map(|told| GroupStatus { leads: 3, told, committed: 70_001, reached: vec![(1, 70_000)] }),
    }
}

fn messages() -> Vec<(&'static str, Message)> {
    let refusal = Refusal::WriteLocked { key: key("a") };
    let settled = SnapshotMessage::Settled { epoch: EPOCH, settlement: Settlement::Waits(TRANX) };
    vec![
        (
            "prepare",
            Message::Prepare {
                tranx: TRANX,
                participants: PARTICIPANTS.to_vec(),
                part: transaction(),
                standing: STANDING,
            },
        ),
        ("keep", Message::Keep { tranx: TRANX }),
        (
            "prepare_move",
            Message::Prepare { tranx: TRANX, participants: PARTICIPANTS.to_vec(), part: a_move(), standing: STANDING },
        ),
        ("validate", Message::Validate { validation: VALIDATION, part: transaction(), epoch: EPOCH }),
        ("yes", Message::Vote { tranx: TRANX, vote: Vote::Yes, epoch: EPOCH }),
        ("no", Message::Vote { tranx: TRANX, vote: Vote::No(refusal), epoch: Epoch(0) }),
        ("decisions", Message::Decisions(vec![(TRANX, Outcome::Abort), (TRANX, Outcome::Commit(EPOCH))])),
        ("acknowledge", Message::Acknowledge(vec![TRANX; 3])),
        ("inquire", Message::Inquire { tranx: TRANX }),
        ("inquiry_answer", Message::InquiryAnswer { tranx: TRANX, outcome: Some(Outcome::Commit(EPOCH)) }),
        ("low_water", Message::LowWater { through: 70_000, incomplete: vec![3, 69_999] }),
        ("raise", Message::Snapshot(SnapshotMessage::Raise { epoch: EPOCH })),
        ("settled", Message::Snapshot(settled)),
    ]
}

/// One log record of each kind.
pub(crate) fn records() -> Vec<(&'static str, Record)> {
    let ready = Record::Ready {
        tranx: TRANX,
        participants: PARTICIPANTS.to_vec(),
        shared: vec![key("a")],
        ranges: vec![KeyRange::all(), KeyRange::through(key("a"), key("b"))],
        writes: writes(),
    };
    let participants = PARTICIPANTS.to_vec();
    let commit = Record::Commit { tranx: TRANX, participants, epoch: EPOCH, request: REQUEST };
    vec![
        ("reserve", Record::Reserve { through: 70_000 }),
        ("one_phase", Record::OnePhase { tranx: TRANX, writes: writes(), request: REQUEST }),
        ("ready", ready),
        ("commit", commit),
        ("epochs", Record::Epochs { through: EPOCH }),
        ("outcome", Record::Outcome { tranx: TRANX, outcome: Outcome::Abort }),
        ("marks", Record::Marks { low_water: gc_record().low_water }),
        ("complete", Record::Complete { server: ServerId(300), through: 70_000, incomplete: vec![5, 69_999] }),
    ]
}

/// Payload of the GC log.
pub(crate) fn gc_record() -> GcRecord {
    let low_water = vec![(ServerId(1), 5), (ServerId(300), u64::MAX)];
    GcRecord { reserved_through: 70_000, low_water, epochs_through: EPOCH }
}

/// Payloads, each after a byte for its type.
pub(crate) fn payloads() -> Corpus {
    let mut corpus = Corpus::new();
    add(&mut corpus, 0, "hello", hellos());
    add(&mut corpus, 1, "welcome", welcomes());
    add(&mut corpus, 2, "request", requests());
    add(&mut corpus, 3, "response", responses());
    add(&mut corpus, 4, "message", messages());
    add(&mut corpus, 5, "record", records());
    add(&mut corpus, 6, "gc_record", vec![("marks", gc_record())]);
    add(&mut corpus, 7, "member", member_messages());
    add(&mut corpus, 8, "group", group_messages());
    corpus
}

fn add<T: Serialize>(corpus: &mut Corpus, kind: u8, what: &str, examples: Vec<(&'static str, T)>) {
    for (name, example) in examples {
        let encoded = postcard::to_extend(&example, vec![kind]).unwrap();
        corpus.insert(format!("{what}_{name}"), encoded);
    }
}

/// All bytes that one side of a connection sends: a client, the server that answers it, and a
/// server and a member that call another.
pub(crate) fn frames() -> Corpus {
    let sides = [
        ("client", vec![frame(&hellos()[1].1)], requests().iter().map(|(_, request)| frame(request)).collect()),
        ("server", vec![frame(&welcomes()[1].1)], responses().iter().map(|(_, response)| frame(response)).collect()),
        ("peer", vec![frame(&hellos()[0].1)], messages().iter().map(|(_, message)| frame(message)).collect::<Vec<_>>()),
        ("member", vec![frame(&hellos()[3].1)], member_messages().iter().map(|(_, message)| frame(message)).collect()),
    ];
    let said = |(name, first, rest): (&str, Vec<Vec<u8>>, Vec<Vec<u8>>)| {
        (name.to_owned(), [preface().to_vec(), first.concat(), rest.concat()].concat())
    };
    sides.into_iter().map(said).collect()
}

fn frame(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(message, &mut bytes).unwrap();
    bytes
}

/// Number of frames behind the preface.
pub(crate) fn count_frames(bytes: &[u8]) -> usize {
    let mut rest = &bytes[preface().len()..];
    let mut frames = 0;
    while let Some((_, taken)) = next_frame(rest).unwrap() {
        rest = &rest[taken..];
        frames += 1;
    }
    assert!(rest.is_empty());
    frames
}

/// Returns true if the entry decodes as the type that its first byte gives.
pub(crate) fn is_read(entry: &[u8]) -> bool {
    let (kind, payload) = entry.split_first().unwrap();
    match kind {
        0 => decode::<Hello>(payload).is_ok(),
        1 => decode::<Welcome>(payload).is_ok(),
        2 => decode::<Request>(payload).is_ok(),
        3 => decode::<Response>(payload).is_ok(),
        4 => decode::<Message>(payload).is_ok(),
        5 => decode::<Record>(payload).is_ok(),
        7 => decode::<MemberMessage>(payload).is_ok(),
        8 => decode::<GroupMessage<Message>>(payload).is_ok(),
        _ => decode::<GcRecord>(payload).is_ok(),
    }
}
