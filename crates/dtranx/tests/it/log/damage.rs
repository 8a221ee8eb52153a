//! The log distinguishes damage from a torn tail and reports its file and offset. Files of other
//! versions and of other servers are refused.

use std::sync::Arc;

use dtranx::log::{LogError, Medium, Memory, SegmentNumber};

use crate::log::{open, reclaim, record, segment_file};

const SEGMENT_BYTES: u64 = 4096;

/// Makes a log of five durable blocks of 192 bytes each, at offsets 64, 320, 576, 832 and 1088,
/// each with a seal of 64 bytes behind it.
fn five_blocks() -> Memory {
    let medium = Memory::new();
    let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
    for number in 0..5 {
        opened.log.append(&record(number, 134)).unwrap();
        opened.log.persist().unwrap();
    }
    medium
}

#[test]
fn damage_before_the_tail_is_an_error_with_file_and_offset() {
    let medium = five_blocks();
    assert!(medium.damage(&segment_file(1), 320 + 50));
    match open(medium, SEGMENT_BYTES) {
        Err(LogError::Corrupt { file, offset, .. }) => assert_eq!((file, offset), (segment_file(1), 320)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn damage_in_every_byte_of_a_block_is_found() {
    for at in 576..576 + 48 + 4 + 134 {
        let medium = five_blocks();
        assert!(medium.damage(&segment_file(1), at));
        assert!(matches!(open(medium, SEGMENT_BYTES), Err(LogError::Corrupt { offset: 576, .. })), "byte {at}");
    }
}

#[test]
fn damage_at_the_end_of_a_complete_segment_is_an_error() {
    let medium = five_blocks();
    drop(open(medium.clone(), SEGMENT_BYTES).unwrap());
    assert!(medium.damage(&segment_file(1), 1088 + 40));
    assert!(matches!(open(medium, SEGMENT_BYTES), Err(LogError::Corrupt { offset: 1088, .. })));
}

/// Any byte of a log of one to five blocks is changed: either the log is refused, or no persisted
/// record is missing.
#[test]
fn damage_in_any_byte_loses_nothing_that_was_persisted_unnoticed() {
    for blocks in 1..=5 {
        let mut named = 0;
        for at in 0..1500 {
            let medium = Memory::new();
            let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
            for number in 0..blocks {
                opened.log.append(&record(number, 134)).unwrap();
                opened.log.persist().unwrap();
            }
            drop(opened);
            assert!(medium.damage(&segment_file(1), at));
            match open(medium, SEGMENT_BYTES) {
                Ok((_, found)) => assert_eq!(found.len() as u64, blocks, "byte {at} of {blocks} blocks"),
                Err(LogError::Corrupt { file, .. }) => {
                    assert_eq!(file, segment_file(1));
                    named += 1;
                }
                Err(error) => panic!("byte {at}: {error}"),
            }
        }
        // Damage must be reported in the header, and in each block except for the zeros that fill
        // it up.
        assert!(named >= 64 + blocks * (48 + 4 + 134), "{named} for {blocks} blocks");
    }
}

/// Of several blocks that were persisted together, the damaged one is named, and no block is
/// skipped.
#[test]
fn damage_in_what_was_persisted_last_is_named_wherever_it_is() {
    for damaged in [64, 256, 448] {
        let medium = Memory::new();
        let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
        for number in 0..3 {
            opened.log.append(&record(number, 134)).unwrap();
            opened.log.write().unwrap();
        }
        opened.log.persist().unwrap();
        drop(opened);
        assert!(medium.damage(&segment_file(1), damaged + 40));
        match open(medium, SEGMENT_BYTES) {
            Err(LogError::Corrupt { offset, .. }) => assert_eq!(offset, damaged),
            other => panic!("{other:?}"),
        }
    }
}

/// A seal becomes durable only with the next persist. Before that, a power failure may lose the
/// seal, and nothing else.
#[test]
fn lost_seals_are_no_damage_and_kept_ones_are_believed() {
    for seed in 0..100 {
        let medium = five_blocks();
        medium.crash(seed);
        let (mut opened, found) = open(medium.clone(), SEGMENT_BYTES).unwrap();
        assert_eq!(found.len(), 5, "seed {seed}");
        opened.log.append(&record(5, 134)).unwrap();
        opened.log.persist().unwrap();
        opened.log.persist().unwrap();
        drop(opened);
        medium.crash(seed);
        assert!(medium.damage(&segment_file(2), 64 + 40));
        assert!(matches!(open(medium, SEGMENT_BYTES), Err(LogError::Corrupt { offset: 64, .. })), "seed {seed}");
    }
}

#[test]
fn damaged_header_with_blocks_is_an_error() {
    let medium = five_blocks();
    assert!(medium.damage(&segment_file(1), 20));
    assert!(matches!(open(medium, SEGMENT_BYTES), Err(LogError::Corrupt { offset: 0, .. })));
}

#[test]
fn damaged_gc_log_half_leaves_the_other_and_both_are_an_error() {
    let medium = five_blocks();
    let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
    let first = SegmentNumber(1);
    reclaim(&mut opened, first, b"first").unwrap();
    reclaim(&mut opened, first, b"second").unwrap();
    drop(opened);
    // The second half holds generation 3, the newest.
    assert!(medium.damage("gc.log", 64 * 1024 + 42));
    assert_eq!(open(medium.clone(), SEGMENT_BYTES).unwrap().0.gc_payload, b"first");
    assert!(medium.damage("gc.log", 42));
    match open(medium, SEGMENT_BYTES) {
        Err(LogError::Corrupt { file, .. }) => assert_eq!(file, "gc.log"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn missing_segments_are_named() {
    let medium = five_blocks();
    for _ in 0..3 {
        let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
        opened.log.append(b"something").unwrap();
        opened.log.persist().unwrap();
    }
    Medium::remove(&medium, &segment_file(2)).unwrap();
    match open(medium.clone(), SEGMENT_BYTES) {
        Err(LogError::Missing { missing, found }) => assert_eq!((missing, found), (segment_file(2), segment_file(3))),
        other => panic!("{other:?}"),
    }
    Medium::remove(&medium, &segment_file(1)).unwrap();
    assert!(matches!(open(medium, SEGMENT_BYTES), Err(LogError::Missing { .. })));
}

/// Opening must not take the segments before the missing one for leftovers and remove them.
#[test]
fn segments_that_end_before_the_oldest_needed_one_are_kept_and_it_is_missing() {
    let medium = five_blocks();
    let first = medium.contents(&segment_file(1)).unwrap();
    let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
    reclaim(&mut opened, SegmentNumber(2), b"").unwrap();
    drop(opened);
    Medium::remove(&medium, &segment_file(2)).unwrap();
    Medium::create(&medium, &segment_file(1), SEGMENT_BYTES).unwrap().write(0, &first).unwrap();
    match open(medium.clone(), SEGMENT_BYTES) {
        Err(LogError::Missing { missing, found }) => assert_eq!((missing, found), (segment_file(2), segment_file(1))),
        other => panic!("{other:?}"),
    }
    assert_eq!(medium.contents(&segment_file(1)), Some(first));
}

#[test]
fn another_version_and_another_server_are_refused() {
    let medium = five_blocks();
    let foreign = dtranx::log::LogOptions::new(8, SEGMENT_BYTES);
    let refused = dtranx::log::TranxLog::open(Arc::new(medium.clone()), &foreign, |_, _| Ok(()));
    assert!(matches!(refused, Err(LogError::Foreign { found: 7, expected: 8, .. })));

    // Version 4 has no indices and terms: it would be read wrongly.
    for version in [4, 5, 6, 9] {
        let mut header = medium.contents(&segment_file(1)).unwrap()[..64].to_vec();
        header[8] = version;
        header[12..16].fill(0);
        let checksum = crc32c::crc32c(&header);
        header[12..16].copy_from_slice(&checksum.to_le_bytes());
        Medium::open(&medium, &segment_file(1)).unwrap().write(0, &header).unwrap();
        match open(medium.clone(), SEGMENT_BYTES) {
            Err(LogError::Version { found, supported: 8, .. }) => assert_eq!(found, u16::from(version)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn unreadable_record_names_its_file() {
    let refused = dtranx::log::TranxLog::open(Arc::new(five_blocks()), &crate::log::options(SEGMENT_BYTES), |_, _| {
        Err("no such kind".to_owned())
    });
    assert_eq!(
        refused.unwrap_err().to_string(),
        format!("a record in {} cannot be replayed: no such kind", segment_file(1))
    );
}
