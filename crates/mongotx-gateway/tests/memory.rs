//! Memory that messages can make the codec take: no more than a message may be large, whatever
//! length its header claims.
//!
//! One test, alone in its process: it measures the peak of all that is allocated.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "it/common/mod.rs"]
mod common;

use std::{alloc::System, io::Write};

use bson::doc;
use cap::Cap;
use common::raw::{framed, message};
use mongotx_gateway::wire::{Compressor, HEADER_BYTES, Header, MAX_MESSAGE_BYTES, WireError, compress, decode};

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// The error, and the most that was allocated at any time since the process began, beyond what is
/// allocated now.
fn refused(bytes: &[u8]) -> (WireError, usize) {
    let before = MEMORY.allocated();
    let (header, payload) = bytes.split_first_chunk::<HEADER_BYTES>().unwrap();
    let error = decode(&Header::decode(header).unwrap(), payload).unwrap_err();
    (error, MEMORY.max_allocated().saturating_sub(before))
}

/// A message that becomes 40 MB of zeros and declares that it becomes `declared`. Making it takes
/// little memory: the peak of that would hide the other one.
fn bomb(compressor: u8, declared: i32) -> Vec<u8> {
    let mut packed = Vec::new();
    match compressor {
        2 => fill(flate2::write::ZlibEncoder::new(&mut packed, flate2::Compression::fast())),
        _ => fill(zstd::Encoder::new(&mut packed, 1).unwrap().auto_finish()),
    }
    let declared = [2013, declared].map(i32::to_le_bytes).concat();
    framed(2012, &[&declared[..], &[compressor], &packed].concat())
}

fn fill(mut writer: impl Write) {
    for _ in 0..40 * 16 {
        writer.write_all(&[0; 64 * 1024]).unwrap();
    }
}

#[test]
fn messages_take_no_more_memory_than_they_may_have() {
    const SMALL: usize = 4 * 1024 * 1024;
    for compressor in [2, 3] {
        let (error, peak) = refused(&bomb(compressor, 1000));
        assert!(matches!(error, WireError::Decompress(_)), "{error}");
        assert!(peak < SMALL, "{compressor}: {peak}");
    }
    // Messages that declare much and are little.
    let tiny = message(&doc! {"ping": 1, "$db": "d"}, 0);
    let limit = i32::try_from(MAX_MESSAGE_BYTES - HEADER_BYTES).unwrap();
    for compressor in Compressor::ALL {
        let mut bytes = compress(&tiny, compressor);
        bytes[20..24].copy_from_slice(&limit.to_le_bytes());
        let (error, peak) = refused(&bytes);
        assert_eq!(error, WireError::Decompress(compressor.name()));
        assert!(peak <= MAX_MESSAGE_BYTES + SMALL, "{}: {peak}", compressor.name());
        bytes[20..24].copy_from_slice(&(limit + 1).to_le_bytes());
        assert_eq!(refused(&bytes).0, WireError::Length((limit + 1).into()));
    }
    // One that may be so large. It is unpacked, and is no message.
    for compressor in [2, 3] {
        let (error, peak) = refused(&bomb(compressor, 40 * 16 * 64 * 1024));
        assert!(matches!(error, WireError::Malformed(_)), "{error}");
        assert!(peak <= 2 * MAX_MESSAGE_BYTES + SMALL, "{compressor}: {peak}");
    }
}
