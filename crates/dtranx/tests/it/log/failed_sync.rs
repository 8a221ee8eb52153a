//! Disks whose sync fails once. The system then still shows data that it could not write, and
//! counts it as written. A server that goes on, or that restarts and trusts what it reads, loses
//! that data in a power failure.

use std::sync::Arc;

use dtranx::log::{LogError, LogReader, Memory, SegmentNumber, TranxLog};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::log::{open, options, reclaim, record};

const SEGMENT_BYTES: u64 = 4096;

#[test]
fn log_whose_sync_failed_is_not_written_again() {
    let medium = Memory::new();
    let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
    opened.log.append(b"one").unwrap();
    medium.fail_sync_after(0);
    assert!(matches!(opened.log.persist(), Err(LogError::Io { action: "sync", .. })));
    // The disk's next sync would succeed, but the log must not count on earlier writes any more.
    assert!(matches!(opened.log.persist(), Err(LogError::Failed { .. })));
    opened.log.append(b"two").unwrap();
    assert!(matches!(opened.log.write(), Err(LogError::Failed { .. })));
}

/// A restarted server acts on the records that it reads, so a later power failure must not lose
/// them. Persisted records are there in any case.
#[test]
fn what_is_read_after_a_failed_sync_stays_after_a_power_failure() {
    let mut read_unsynced = 0;
    for seed in 0..300 {
        let mut random = StdRng::seed_from_u64(seed);
        let medium = Memory::new();
        let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
        medium.fail_sync_after(random.random_range(0..12));
        let mut persisted = 0;
        for number in 0.. {
            let appended = opened.log.append(&record(number, random.random_range(8..600)));
            let written = appended.and_then(|_| if random.random() { opened.log.write() } else { Ok(()) });
            let synced =
                written.and_then(|()| if random.random() { opened.log.persist().map(|()| true) } else { Ok(false) });
            match synced {
                Ok(true) => persisted = number + 1,
                Ok(false) => {}
                Err(_) => break,
            }
        }
        drop(opened);
        // The process restarts and reads what the system shows, which includes unwritten data.
        let (opened, read) = open(medium.clone(), SEGMENT_BYTES).unwrap();
        drop(opened);
        assert!(read.len() as u64 >= persisted, "seed {seed}");
        read_unsynced += usize::from(read.len() as u64 > persisted);
        medium.crash(seed);
        let (_, left) = open(medium, SEGMENT_BYTES).unwrap();
        assert_eq!(left, read, "seed {seed}");
    }
    assert!(read_unsynced > 100, "next to nothing was left unsynced: {read_unsynced}");
}

struct Gathered(Vec<Vec<u8>>);

impl LogReader for Gathered {
    fn state(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn record(&mut self, _: SegmentNumber, record: &[u8]) -> Result<(), String> {
        self.0.push(record.to_vec());
        Ok(())
    }
}

/// An operator decides by what is read of a server's log, which is not opened for writing.
#[test]
fn what_is_inspected_after_a_failed_sync_stays_after_a_power_failure() {
    let mut read_unsynced = 0;
    for seed in 0..100 {
        let medium = Memory::new();
        let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
        opened.log.append(&record(0, 100)).unwrap();
        opened.log.persist().unwrap();
        opened.log.append(&record(1, 100)).unwrap();
        medium.fail_sync_after(0);
        assert!(opened.log.persist().is_err());
        drop(opened);
        medium.fail_sync_after(u64::MAX);
        let mut read = Gathered(Vec::new());
        TranxLog::inspect(Arc::new(medium.clone()), &options(SEGMENT_BYTES), &mut read).unwrap();
        read_unsynced += usize::from(read.0.len() == 2);
        medium.crash(seed);
        let (_, left) = open(medium, SEGMENT_BYTES).unwrap();
        assert_eq!(left, read.0, "seed {seed}");
    }
    assert!(read_unsynced > 50, "next to nothing was left unsynced: {read_unsynced}");
}

#[test]
fn sync_that_fails_when_a_log_is_opened_is_an_error_and_loses_nothing() {
    for seed in 0..40 {
        let medium = Memory::new();
        let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
        for number in 0..4 {
            opened.log.append(&record(number, 200)).unwrap();
            opened.log.persist().unwrap();
        }
        drop(opened);
        medium.fail_sync_after(seed % 8);
        let refused = open(medium.clone(), SEGMENT_BYTES);
        let fails = refused.is_err();
        drop(refused);
        medium.fail_sync_after(u64::MAX);
        medium.crash(seed);
        let (_, found) = open(medium, SEGMENT_BYTES).unwrap();
        assert_eq!(found, (0..4).map(|number| record(number, 200)).collect::<Vec<_>>(), "seed {seed}, {fails}");
    }
}

/// The GC log's contents decide which segments are removed, so they must be durable first, and not
/// only readable.
#[test]
fn gc_log_whose_sync_failed_removes_nothing_that_is_needed() {
    for seed in 0..40 {
        let medium = Memory::new();
        let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
        for number in 0..20 {
            opened.log.append(&record(number, 500)).unwrap();
            opened.log.persist().unwrap();
        }
        medium.fail_sync_after(1);
        assert!(reclaim(&mut opened, SegmentNumber(3), b"state").is_err());
        drop(opened);
        let (opened, found) = open(medium.clone(), SEGMENT_BYTES).unwrap();
        drop(opened);
        medium.crash(seed);
        let (_, left) = open(medium, SEGMENT_BYTES).unwrap();
        assert_eq!(left, found, "seed {seed}");
    }
}
