//! Checks of DTranx's readers for any bytes, from a connection or from its log; for the fuzzer and
//! for the tests that do without it.
//!
//! A checksum that no longer fits ends nearly every input at once. So each input is read twice: as
//! it is, and with its checksums put right.
#![allow(dead_code, clippy::unwrap_used, reason = "each target uses a part of it, and may panic")]

use std::fmt::Debug;
use std::sync::Arc;

use dtranx::core::{GcRecord, Message, Record};
use dtranx::log::{LogError, LogOptions, Medium, Memory, SegmentNumber, TranxLog};
use dtranx::wire::{
    GroupMessage, Hello, MemberMessage, PREFACE_BYTES, Request, Response, Welcome, check_preface, decode, encode,
    next_frame,
};
use serde::{Serialize, de::DeserializeOwned};

const FRAME_HEADER_BYTES: usize = 8;

/// The bytes of a connection in one direction: refused at some place, or messages.
pub(crate) fn frames(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first_chunk::<PREFACE_BYTES>() else { return };
    let _ = check_preface(first);
    read_frames(rest);
    let mut mended = rest.to_vec();
    mend_frames(&mut mended);
    read_frames(&mended);
}

fn read_frames(mut rest: &[u8]) {
    while let Ok(Some((payload, taken))) = next_frame(rest) {
        assert_eq!(taken, FRAME_HEADER_BYTES + payload.len());
        (0..KINDS).for_each(|kind| read_as(kind, payload));
        rest = &rest[taken..];
    }
}

fn mend_frames(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + FRAME_HEADER_BYTES) {
        let length = u32::from_le_bytes(*header.first_chunk().unwrap()) as usize;
        let start = at + FRAME_HEADER_BYTES;
        let Some(payload) = bytes.get(start..start + length) else { return };
        let checksum = crc32c::crc32c(payload);
        bytes[at + 4..start].copy_from_slice(&checksum.to_le_bytes());
        at = start + length;
    }
}

/// A byte that says what kind of message follows, and its payload: refused, or a message.
pub(crate) fn payload(bytes: &[u8]) {
    if let Some((kind, payload)) = bytes.split_first() {
        read_as(kind % KINDS, payload);
    }
}

/// Number of kinds of payload that [`payload`] reads.
const KINDS: u8 = 9;

fn read_as(kind: u8, payload: &[u8]) {
    match kind {
        0 => read_and_write::<Hello>(payload),
        1 => read_and_write::<Welcome>(payload),
        2 => read_and_write::<Request>(payload),
        3 => read_and_write::<Response>(payload),
        4 => read_and_write::<Message>(payload),
        5 => read_and_write::<Record>(payload),
        6 => read_and_write::<GcRecord>(payload),
        7 => read_and_write::<MemberMessage>(payload),
        _ => read_and_write::<GroupMessage<Message>>(payload),
    }
}

/// Checks that a value that was read is written so that the same is read again.
fn read_and_write<T: Serialize + DeserializeOwned + PartialEq + Debug>(payload: &[u8]) {
    let Ok(read) = decode::<T>(payload) else { return };
    let mut written = Vec::new();
    encode(&read, &mut written).unwrap();
    let (payload, _) = next_frame(&written).unwrap().unwrap();
    assert_eq!(decode::<T>(payload).unwrap(), read);
}

const SERVER: u16 = 7;
const SEGMENT: &str = "segment-00000000000000000001.wal";
const GC_LOG: &str = "gc.log";
const HALF_BYTES: usize = 64 * 1024;

/// The only segment of a log: refused with its name and left alone, or a log that goes on behind
/// what it holds.
pub(crate) fn segment(bytes: &[u8]) {
    let mut mended = bytes.to_vec();
    mend_segment(&mut mended);
    for bytes in [bytes, &mended] {
        let medium = Memory::new();
        drop(open(&medium));
        replace(&medium, SEGMENT, bytes);
        go_on(&medium, SEGMENT);
    }
}

/// The two halves of the GC log, the first after its length, and behind them zeros: refused, or a
/// log that goes on.
pub(crate) fn gc_log(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let Some((first, second)) = rest.split_at_checked(u16::from_le_bytes(*length).into()) else { return };
    for mend in [false, true] {
        let halves = [first, second].map(|half| {
            let mut whole = half.to_vec();
            whole.resize(HALF_BYTES, 0);
            if mend {
                mend_half(&mut whole);
            }
            whole
        });
        let medium = Memory::new();
        drop(open(&medium));
        replace(&medium, GC_LOG, &halves.concat());
        go_on(&medium, GC_LOG);
    }
}

/// Opens a log with a file in it that may be anything.
fn go_on(medium: &Memory, file: &str) {
    let before = medium.contents(file);
    let (mut log, mut found) = match open(medium) {
        Ok(opened) => opened,
        Err(error) => {
            assert_eq!(medium.contents(file), before, "{error}");
            return assert!(!error.to_string().is_empty());
        }
    };
    found.iter().for_each(|record| read_and_write::<Record>(record));
    log.append(b"one more").unwrap();
    log.persist().unwrap();
    drop(log);
    found.push(b"one more".to_vec());
    assert_eq!(open(medium).unwrap().1, found);
}

fn open(medium: &Memory) -> Result<(TranxLog, Vec<Vec<u8>>), LogError> {
    let options = LogOptions::new(SERVER, 4096);
    let mut found = Vec::new();
    let replay = |_: SegmentNumber, record: &[u8]| {
        found.push(record.to_vec());
        Ok(())
    };
    let opened = TranxLog::open(Arc::new(medium.clone()), &options, replay)?;
    read_and_write::<GcRecord>(&opened.gc_payload);
    Ok((opened.log, found))
}

fn replace(medium: &Memory, file: &str, bytes: &[u8]) {
    medium.remove(file).unwrap();
    let mut made = medium.create(file, bytes.len() as u64).unwrap();
    made.write(0, bytes).unwrap();
    made.persist().unwrap();
}

/// The header gets the number and size that fit; every block of a plausible length gets its
/// checksum, those without a payload among them.
fn mend_segment(bytes: &mut [u8]) {
    let size = bytes.len() as u64;
    let Some(header) = bytes.first_chunk_mut::<64>() else { return };
    header[16..24].copy_from_slice(&1_u64.to_le_bytes());
    header[24..32].copy_from_slice(&size.to_le_bytes());
    mend(header, 12);
    let mut at = 64;
    while let Some(header) = bytes.get(at..at + 48) {
        let length = u32::from_le_bytes(*header.first_chunk().unwrap()) as usize;
        let end = at + 48 + length;
        let is_begun = header.iter().any(|byte| *byte != 0);
        let Some(block) = bytes.get_mut(at..end).filter(|_| is_begun) else {
            at += 64;
            continue;
        };
        let numbered = crc32c::crc32c_append(crc32c::crc32c(&1_u64.to_le_bytes()), &block[..4]);
        let checksum = crc32c::crc32c_append(numbered, &block[8..]);
        block[4..8].copy_from_slice(&checksum.to_le_bytes());
        at = end.next_multiple_of(64);
    }
}

fn mend_half(half: &mut [u8]) {
    let length = u32::from_le_bytes(*half[32..].first_chunk().unwrap()) as usize;
    if let Some(used) = half.get_mut(..96 + length) {
        mend(used, 12);
    }
}

/// The checksum at `at` of all these bytes, computed with zeros in its place.
fn mend(bytes: &mut [u8], at: usize) {
    bytes[at..at + 4].fill(0);
    let checksum = crc32c::crc32c(bytes);
    bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}
