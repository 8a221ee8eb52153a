//! Frames: what was written is read; damage, excess and nonsense are refused.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use dtranx::core::{
    CommitAnswer, Current, Item, Key, KeyRange, Message, Outcome, Read, Record, Refusal, ScanRead, ServerId,
    Transaction, TranxId, Value, Vote, Write,
};
use dtranx::wire::{
    Ask, FRAME_LIMIT_BYTES, Hello, Reply, Request, Response, Welcome, WireError, check_preface, decode, encode,
    next_frame, preface,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn request() -> Request {
    let key = |name: &'static [u8]| Key::new(name).unwrap();
    let version = Some(TranxId { server: ServerId(3), number: 77 });
    let reads = vec![Read { key: key(b"a"), version }, Read { key: key(b""), version: None }];
    let writes = vec![
        Write { key: key(b"a"), value: Some(Value::new(&b"one"[..]).unwrap()) },
        Write { key: key(b"\xff"), value: None },
    ];
    Request { id: 5, is_repeated: false, ask: Ask::Commit(Transaction { reads, writes, ..Default::default() }) }
}

#[test]
fn frames_are_read_as_they_were_written() {
    let mut bytes = Vec::new();
    encode(&request(), &mut bytes).unwrap();
    let first = bytes.len();
    let message = Message::Decisions(vec![(TranxId { server: ServerId(1), number: 2 }, Outcome::Commit)]);
    encode(&message, &mut bytes).unwrap();
    for end in 0..first {
        assert!(next_frame(&bytes[..end]).unwrap().is_none(), "{end} bytes are no frame");
    }
    let (payload, taken) = next_frame(&bytes).unwrap().unwrap();
    assert_eq!((decode::<Request>(payload).unwrap(), taken), (request(), first));
    let (payload, _) = next_frame(&bytes[first..]).unwrap().unwrap();
    assert_eq!(decode::<Message>(payload).unwrap(), message);
}

#[test]
fn every_damaged_byte_is_noticed() {
    let mut whole = Vec::new();
    encode(&request(), &mut whole).unwrap();
    for at in 4..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        assert!(matches!(next_frame(&bytes), Err(WireError::Damaged)), "byte {at}");
    }
}

#[test]
fn oversized_frames_are_refused_before_they_arrive() {
    let mut header = (FRAME_LIMIT_BYTES as u32 + 1).to_le_bytes().to_vec();
    header.extend([0; 4]);
    assert!(matches!(next_frame(&header), Err(WireError::TooLong { .. })));
    let mut out = b"before".to_vec();
    let refused = encode(&vec![0_u8; FRAME_LIMIT_BYTES + 1], &mut out);
    assert!(matches!(refused, Err(WireError::TooLong { .. })));
    assert_eq!(out, b"before");
}

#[test]
fn key_over_the_limit_is_refused_when_it_is_read() {
    let mut bytes = Vec::new();
    encode(&(1_u64, false, 0_u8, vec![vec![7_u8; 4097]]), &mut bytes).unwrap();
    let (payload, _) = next_frame(&bytes).unwrap().unwrap();
    assert!(matches!(decode::<Request>(payload), Err(WireError::Unreadable { .. })));
}

/// One of each kind of message, encoded.
fn corpus() -> Vec<Vec<u8>> {
    let tranx = TranxId { server: ServerId(300), number: u64::MAX };
    let Ask::Commit(transaction) = request().ask else { panic!("it is a commit") };
    let key = Key::new(&b"key"[..]).unwrap();
    let item = Item { value: Value::new(&b"value"[..]).unwrap(), version: tranx };
    let scan = ScanRead { range: KeyRange::prefix(key.clone()), found: vec![(key.clone(), tranx)] };
    let scanned = Transaction { scans: vec![scan], ..transaction.clone() };
    let refusal = Refusal::Stale { current: vec![Current { key: key.clone(), item: Some(item.clone()) }] };
    let participants = vec![ServerId(1), ServerId(2)];
    let found = Reply::Found { items: vec![(key.clone(), item.clone())], complete: false };
    let mut all = Vec::new();
    let mut add = |encoded: Result<Vec<u8>, postcard::Error>| all.push(encoded.unwrap());
    add(postcard::to_stdvec(&request()));
    add(postcard::to_stdvec(&Request { id: 9, is_repeated: true, ask: Ask::Commit(scanned.clone()) }));
    add(postcard::to_stdvec(&Message::Prepare { tranx, participants: participants.clone(), part: scanned }));
    add(postcard::to_stdvec(&Message::Vote { tranx, vote: Vote::No(refusal.clone()) }));
    add(postcard::to_stdvec(&Message::Decisions(vec![(tranx, Outcome::Abort); 5])));
    add(postcard::to_stdvec(&Response { id: 1, reply: Reply::Commit(CommitAnswer::Refused(refusal)) }));
    add(postcard::to_stdvec(&Response { id: 2, reply: Reply::Values(vec![None, Some(item)]) }));
    add(postcard::to_stdvec(&Response { id: 3, reply: found }));
    add(postcard::to_stdvec(&Record::OnePhase { tranx, writes: transaction.writes.clone() }));
    add(postcard::to_stdvec(&Record::Ready {
        tranx,
        participants,
        shared: vec![key],
        ranges: vec![KeyRange::all()],
        writes: transaction.writes,
    }));
    all
}

/// Whatever is read, is written so that the same is read again; nothing panics.
fn read_and_write<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(payload: &[u8]) -> bool {
    let Ok(read) = decode::<T>(payload) else { return false };
    let mut written = Vec::new();
    encode(&read, &mut written).unwrap();
    let (payload, _) = next_frame(&written).unwrap().unwrap();
    assert_eq!(decode::<T>(payload).unwrap(), read);
    true
}

#[test]
fn nonsense_is_an_error_and_never_a_panic() {
    let mut random = StdRng::seed_from_u64(1);
    let corpus = corpus();
    let mut understood = 0;
    for _ in 0..20_000 {
        let mut payload = corpus[random.random_range(0..corpus.len())].clone();
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..payload.len());
            payload[at] = random.random();
        }
        if random.random_bool(0.2) {
            payload.truncate(random.random_range(0..=payload.len()));
        }
        understood += usize::from(read_and_write::<Request>(&payload));
        understood += usize::from(read_and_write::<Response>(&payload));
        understood += usize::from(read_and_write::<Message>(&payload));
        understood += usize::from(read_and_write::<Record>(&payload));
        understood += usize::from(read_and_write::<Hello>(&payload));
        understood += usize::from(read_and_write::<Welcome>(&payload));
        // As a stream of frames, too.
        let _ = next_frame(&payload);
    }
    assert!(understood > 5000, "hardly anything was understood: {understood}");
    let mut followed = corpus[0].clone();
    followed.push(0);
    assert!(matches!(decode::<Request>(&followed), Err(WireError::Unreadable { .. })));
}

#[test]
fn preface_of_another_version_or_program_is_refused() {
    check_preface(&preface()).unwrap();
    let mut other = preface();
    other[4] = 9;
    assert!(matches!(check_preface(&other), Err(WireError::Version { found: 9 })));
    assert!(matches!(check_preface(b"GET / HT"), Err(WireError::Stranger)));
}
