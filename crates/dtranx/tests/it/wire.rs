//! Tests of frames: encoded messages are decoded, and damaged and oversized frames are refused.
//! `corpus` tests frames that make no sense.
use dtranx::core::{Epoch, Key, Message, Outcome, Read, ServerId, Transaction, TranxId, Value, Write};
use dtranx::wire::{Ask, FRAME_LIMIT_BYTES, Request, WireError, check_preface, decode, encode, next_frame, preface};

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
    let message = Message::Decisions(vec![(TranxId { server: ServerId(1), number: 2 }, Outcome::Commit(Epoch(3)))]);
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

#[test]
fn message_with_something_behind_it_is_refused() {
    let mut followed = postcard::to_stdvec(&request()).unwrap();
    decode::<Request>(&followed).unwrap();
    followed.push(0);
    assert!(matches!(decode::<Request>(&followed), Err(WireError::Unreadable { .. })));
}

#[test]
fn preface_of_another_version_or_program_is_refused() {
    check_preface(&preface()).unwrap();
    let mut other = preface();
    other[4] += 1;
    let found = u16::from(other[4]);
    assert!(matches!(check_preface(&other), Err(WireError::Version { found: version }) if version == found));
    assert!(matches!(check_preface(b"GET / HT"), Err(WireError::Stranger)));
}
