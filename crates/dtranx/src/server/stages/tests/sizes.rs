//! What a server logs of the largest part of a transaction, and is sent, fits into the log and into
//! a frame.

use super::{ME, OTHER, config};
use crate::core::item::{MAX_CUT_BYTES, MAX_PARTS, MAX_TRANSACTION_ITEMS, MAX_VALUE_BYTES};
use crate::core::{
    CheckAnswer, Command, Input, Key, KeyRange, LogTicket, Message, Node, Read, Record, Recovery, ScanRead, Standing,
    Transaction, TranxId, Value, Write,
};
use crate::log::RECORD_LIMIT_BYTES;
use crate::wire::encode;

const TRANX: TranxId = TranxId { server: OTHER, number: u64::MAX };

fn key(kind: u8, number: usize, bytes: usize) -> Key {
    let mut key = number.to_be_bytes().to_vec();
    key.push(kind);
    key.resize(bytes, 0);
    Key::new(key).unwrap()
}

/// A part with as many ranges, items and bytes as one may have. No two of its ranges touch.
fn largest() -> Transaction {
    let range = |number| KeyRange::until(key(0, number, 500), key(1, number, 500));
    let scan = |number| ScanRead { range: range(number), found: vec![] };
    let value = Value::new(vec![7; MAX_VALUE_BYTES]).unwrap();
    let write = |number| Write { key: key(2, number, 100), value: Some(value.clone()) };
    let read = |number| Read { key: key(3, number, 100), version: Some(TRANX) };
    Transaction {
        reads: (0..MAX_TRANSACTION_ITEMS - 4).map(read).collect(),
        scans: (0..MAX_PARTS).map(scan).collect(),
        writes: (0..4).map(write).collect(),
        moving: None,
    }
}

/// The record of a server's vote for a part.
fn ready(part: Transaction) -> Record {
    let mut node: Node = Recovery::new(config(), None).finish(0, &mut vec![]);
    let mut on = |input| {
        let mut commands = Vec::new();
        node.on(0, input, &mut commands);
        commands
    };
    on(Input::Logged { through: LogTicket(1) });
    let message = Message::Prepare { tranx: TRANX, participants: vec![ME, OTHER], part, standing: Standing::default() };
    on(Input::Receive { from: OTHER, message });
    let commands = on(Input::Checked { work: TRANX.into(), answer: CheckAnswer::default() });
    let record = commands.into_iter().find_map(|command| match command {
        Command::Log { record: record @ Record::Ready { .. }, .. } => Some(record),
        _ => None,
    });
    record.unwrap()
}

#[test]
fn largest_part_fits_into_a_frame_and_into_a_record() {
    let part = largest();
    let bytes = part.bytes();
    assert!((MAX_CUT_BYTES - (1 << 18)..=MAX_CUT_BYTES).contains(&bytes), "{bytes}");
    let Record::Ready { shared, ranges, writes, .. } = &ready(part.clone()) else { panic!("no vote") };
    assert_eq!((shared.len(), ranges.len(), writes.len()), (MAX_TRANSACTION_ITEMS - 4, MAX_PARTS, 4));
    let bytes = postcard::to_stdvec(&ready(part.clone())).unwrap().len();
    // The segment that has the record has a header, too.
    assert!((MAX_CUT_BYTES - (1 << 18)..RECORD_LIMIT_BYTES - (1 << 20)).contains(&bytes), "{bytes}");
    let message = Message::Prepare { tranx: TRANX, participants: vec![ME, OTHER], part, standing: Standing::default() };
    encode(&message, &mut Vec::new()).unwrap();
}
