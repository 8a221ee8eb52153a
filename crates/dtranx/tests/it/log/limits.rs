//! Limits of records, the GC log's state, the medium's room and the options. Each error names the
//! limit or the file.

use dtranx::log::{GC_PAYLOAD_LIMIT_BYTES, LogError, Memory, SegmentNumber};

use crate::log::{open, reclaim, record, segment_file};

#[test]
fn largest_record_fits_and_one_byte_more_is_refused_without_harm() {
    let medium = Memory::new();
    let (mut opened, _) = open(medium.clone(), 4096).unwrap();
    let limit = opened.log.record_limit_bytes();
    assert_eq!(limit, 4096 - 64 - 48 - 4 - 64);
    match opened.log.append(&record(1, limit + 1)) {
        Err(LogError::RecordTooLarge { bytes, limit_bytes }) => assert_eq!((bytes, limit_bytes), (limit + 1, limit)),
        other => panic!("{other:?}"),
    }
    opened.log.append(&record(2, 8)).unwrap();
    opened.log.append(&record(3, limit)).unwrap();
    opened.log.persist().unwrap();
    drop(opened);
    let (_, found) = open(medium, 4096).unwrap();
    assert_eq!(found, [record(2, 8), record(3, limit)]);
}

#[test]
fn full_medium_names_the_file_and_loses_nothing() {
    let medium = Memory::new();
    medium.limit_room(128 * 1024 + 2 * 4096);
    let (mut opened, _) = open(medium.clone(), 4096).unwrap();
    let mut written = Vec::new();
    let error = loop {
        let next = record(written.len() as u64, 500);
        match opened.log.append(&next).and_then(|_| opened.log.persist()) {
            Ok(()) => written.push(next),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, LogError::Full { file, bytes: 4096 } if *file == segment_file(3)), "{error}");
    assert!(written.len() > 8);
    drop(opened);
    medium.limit_room(1024 * 1024);
    assert_eq!(open(medium, 4096).unwrap().1, written);
}

#[test]
fn oversized_gc_state_is_refused() {
    let medium = Memory::new();
    let (mut opened, _) = open(medium.clone(), 4096).unwrap();
    let oldest = SegmentNumber(1);
    reclaim(&mut opened, oldest, &vec![1; GC_PAYLOAD_LIMIT_BYTES]).unwrap();
    let refused = reclaim(&mut opened, oldest, &vec![1; GC_PAYLOAD_LIMIT_BYTES + 1]);
    assert!(matches!(refused, Err(LogError::GcPayloadTooLarge { .. })));
    drop(opened);
    assert_eq!(open(medium, 4096).unwrap().0.gc_payload.len(), GC_PAYLOAD_LIMIT_BYTES);
}

#[test]
fn reclaim_removes_whole_segments_below_only() {
    let medium = Memory::new();
    let (mut opened, _) = open(medium.clone(), 4096).unwrap();
    let mut segments = Vec::new();
    for number in 0..30 {
        segments.push(opened.log.append(&record(number, 500)).unwrap());
    }
    opened.log.persist().unwrap();
    let (before, oldest) = (opened.log.space(), segments[15]);
    let removed = reclaim(&mut opened, oldest, b"").unwrap() as u64;
    assert_eq!(removed, oldest.0 - 1);
    assert_eq!(opened.log.space().segments, before.segments - removed);
    assert_eq!(opened.log.space().bytes, before.bytes - removed * 4096);
    drop(opened);
    let (_, found) = open(medium, 4096).unwrap();
    let first = segments.iter().position(|segment| *segment == oldest).unwrap() as u64;
    assert_eq!(found, (first..30).map(|number| record(number, 500)).collect::<Vec<_>>());
}

#[test]
fn reclaim_never_removes_the_current_segment() {
    let medium = Memory::new();
    let (mut opened, _) = open(medium.clone(), 4096).unwrap();
    opened.log.append(b"kept").unwrap();
    opened.log.persist().unwrap();
    assert_eq!(reclaim(&mut opened, SegmentNumber(99), b"").unwrap(), 0);
    drop(opened);
    assert_eq!(open(medium, 4096).unwrap().1, [b"kept".to_vec()]);
}

#[test]
fn segment_size_out_of_range_is_refused() {
    for bytes in [0, 4095, 4096 + 1, 1024 * 1024 * 1024 + 64] {
        match open(Memory::new(), bytes) {
            Err(error) => assert!(error.to_string().contains("segment_bytes"), "{error}"),
            Ok(_) => panic!("{bytes} was taken"),
        }
    }
}
