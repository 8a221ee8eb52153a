//! Test that decoding allocates memory in proportion to the bytes that are there, and not to the
//! lengths that they claim.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::alloc::System;
use std::fmt::Debug;

use cap::Cap;
use dtranx::core::{GcRecord, Message, Record};
use dtranx::log::{Disk, LogError, Medium};
use dtranx::wire::{Hello, Request, Response, Welcome, decode, next_frame};
use serde::de::DeserializeOwned;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// Limit of allocated bytes per byte of a message. An empty key takes one byte in a message and
/// four words in memory, and a growing list is copied.
const FACTOR: usize = 128;
const ERROR_BYTES: usize = 1024;

/// Total number of bytes that `run` allocates, whether freed or not.
fn allocated(run: impl FnOnce()) -> usize {
    let before = MEMORY.total_allocated();
    run();
    MEMORY.total_allocated() - before
}

fn check<T: DeserializeOwned + Debug>(payload: &[u8]) {
    let bytes = allocated(|| drop(decode::<T>(payload)));
    assert!(bytes <= FACTOR * payload.len() + ERROR_BYTES, "{bytes} for {payload:02x?}");
}

/// Encodes a number as `postcard` does.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// All checks are one test, because tests on other threads would allocate memory meanwhile.
#[test]
fn lengths_that_lie_allocate_nothing() {
    for length in [1_u64 << 20, 1 << 31, 1 << 32, 1 << 60, u64::MAX] {
        // The claimed length is put behind up to seven bytes, so that it meets length fields in
        // various places of a message.
        for before in 0..8 {
            for fill in [0, 1, 2, 3] {
                let payload = [vec![fill; before], varint(length), vec![fill; 40]].concat();
                check::<Hello>(&payload);
                check::<Welcome>(&payload);
                check::<Request>(&payload);
                check::<Response>(&payload);
                check::<Message>(&payload);
                check::<Record>(&payload);
                check::<GcRecord>(&payload);
            }
        }
    }
    for length in [FRAME_LIMIT, u32::MAX] {
        let header = [length.to_le_bytes(), [0; 4]].concat();
        assert_eq!(allocated(|| drop(next_frame(&header))), 0);
    }
    lists_that_are_too_long_are_refused_at_once();
    sparse_segment_is_refused_unread();
}

/// A request of a client may be as long as a frame, and have nothing but empty keys.
fn lists_that_are_too_long_are_refused_at_once() {
    let full = |before: &[u8]| [before, &varint(15 << 20), &vec![0; 15 << 20]].concat();
    // Behind the number of the request: its kind, and what comes before the list.
    let [get, get_at, commit] = [&[7, 0, 0][..], &[7, 0, 5, 3], &[7, 0, 2]].map(full);
    let scans = [&[7, 0, 2, 0][..], &varint(5 << 20), &vec![0; 15 << 20]].concat();
    let writes = full(&[7, 0, 2, 0, 0]);
    for request in [get, get_at, commit, scans, writes] {
        let mut is_refused = false;
        let bytes = allocated(|| is_refused = decode::<Request>(&request).is_err());
        assert!(is_refused && bytes < 8 << 20, "{bytes} for {:?}", &request[..8]);
    }
}

const FRAME_LIMIT: u32 = dtranx::wire::FRAME_LIMIT_BYTES as u32;

/// A sparse file may have any size without taking room on the disk, and must be refused unread.
fn sparse_segment_is_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    let options = dtranx::log::LogOptions::new(7, 4096);
    let open = || {
        let medium: std::sync::Arc<dyn Medium> = std::sync::Arc::new(Disk::open(folder.path()).unwrap());
        dtranx::log::TranxLog::open(medium, &options, |_, _| Ok(()))
    };
    drop(open().unwrap());
    for name in ["segment-00000000000000000001.wal", "gc.log"] {
        let file = std::fs::OpenOptions::new().write(true).open(folder.path().join(name)).unwrap();
        let size = file.metadata().unwrap().len();
        file.set_len(1 << 40).unwrap();
        let mut refused = None;
        let bytes = allocated(|| refused = open().err());
        assert!(matches!(&refused, Some(LogError::Corrupt { file, .. }) if file.contains(name)), "{name}: {refused:?}");
        assert!(bytes < 1 << 20, "{name}: {bytes}");
        file.set_len(size).unwrap();
    }
    drop(open().unwrap());
}
