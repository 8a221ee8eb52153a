//! Segments made ahead of their use: appending does not create files then, and no persisted record
//! is lost if the machine stops at any operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dtranx::log::{Disk, LogError, Medium, Memory, Opened, SegmentNumber};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::log::stopping::Stopping;
use crate::log::{open, reclaim, record, segment_file};

const SEGMENT_BYTES: u64 = 4096;

fn segments(medium: &impl Medium) -> usize {
    medium.list().unwrap().iter().filter(|name| name.starts_with("segment-")).count()
}

#[test]
fn full_segment_costs_no_creation_if_the_next_was_made_ahead() {
    let medium = Stopping::never(Memory::new());
    let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
    opened.collector.make_ahead().unwrap();
    opened.collector.make_ahead().unwrap();
    assert_eq!((segments(&medium), opened.log.space().segments), (2, 2));
    let before = medium.creations();
    for number in 0..10 {
        opened.log.append(&record(number, 440)).unwrap();
        opened.log.persist().unwrap();
    }
    assert_eq!((opened.log.current(), medium.creations() - before), (SegmentNumber(2), 0));
    // The third segment was not made ahead, so that appending creates it.
    for number in 10..20 {
        opened.log.append(&record(number, 440)).unwrap();
    }
    opened.log.persist().unwrap();
    assert_eq!((opened.log.current(), medium.creations() - before), (SegmentNumber(3), 1));
    drop(opened);
    let (_, found) = open(medium, SEGMENT_BYTES).unwrap();
    assert_eq!(found, (0..20).map(|number| record(number, 440)).collect::<Vec<_>>());
}

#[test]
fn segments_into_which_nothing_was_written_are_removed_when_the_log_is_opened() {
    let medium = Memory::new();
    for _ in 0..10 {
        let (opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
        opened.collector.make_ahead().unwrap();
        assert_eq!((opened.log.current(), segments(&medium)), (SegmentNumber(1), 2));
    }
    let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
    opened.log.append(b"kept").unwrap();
    opened.log.persist().unwrap();
    drop(opened);
    for _ in 0..10 {
        assert_eq!(open(medium.clone(), SEGMENT_BYTES).unwrap().1, [b"kept".to_vec()]);
    }
    assert_eq!(segments(&medium), 2);
}

#[test]
fn no_room_for_a_segment_made_ahead_is_no_failure_until_it_is_needed() {
    let medium = Memory::new();
    medium.limit_room(128 * 1024 + SEGMENT_BYTES);
    let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
    assert!(matches!(opened.collector.make_ahead(), Err(LogError::Full { .. })));
    opened.log.append(&record(0, 3000)).unwrap();
    opened.log.persist().unwrap();
    assert!(matches!(opened.log.append(&record(1, 3000)), Err(LogError::Full { .. })));
    medium.limit_room(1024 * 1024);
    opened.collector.make_ahead().unwrap();
    opened.log.append(&record(1, 3000)).unwrap();
    opened.log.persist().unwrap();
    drop(opened);
    assert_eq!(open(medium, SEGMENT_BYTES).unwrap().1, [record(0, 3000), record(1, 3000)]);
}

/// The GC log has its room from the beginning, so that it can be written on a full medium.
#[test]
fn collection_makes_room_on_a_full_medium() {
    let medium = Memory::new();
    medium.limit_room(128 * 1024 + 2 * SEGMENT_BYTES);
    let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
    for number in 0..20 {
        let segment = opened.log.append(&record(number, 3000)).unwrap();
        opened.log.persist().unwrap();
        if segment > SegmentNumber(1) {
            assert!(matches!(opened.collector.make_ahead(), Err(LogError::Full { .. })));
            reclaim(&mut opened, segment, &number.to_le_bytes()).unwrap();
            opened.collector.make_ahead().unwrap();
        }
    }
    assert_eq!(opened.log.current(), SegmentNumber(20));
    drop(opened);
    // The segment made ahead was never used. Its room serves for the segment that a new start
    // needs.
    assert_eq!(open(medium, SEGMENT_BYTES).unwrap().1, [record(19, 3000)]);
}

/// Records that must be found after a stop.
#[derive(Default)]
struct Expected {
    next: u64,
    /// Records with lower numbers were persisted.
    persisted: u64,
    /// Records with lower numbers may have been reclaimed.
    needed: u64,
}

impl Expected {
    fn check(&mut self, found: &[Vec<u8>], about: &str) {
        let numbers: Vec<u64> = found.iter().map(|record| u64::from_le_bytes(*record.first_chunk().unwrap())).collect();
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{about}: {numbers:?}");
        match (numbers.first(), numbers.last()) {
            (Some(first), Some(last)) => {
                assert!(
                    *first <= self.needed && *last + 1 >= self.persisted && *last < self.next,
                    "{about}: {numbers:?}"
                );
                self.persisted = last + 1;
            }
            _ => assert!(self.needed >= self.persisted, "{about}: nothing is left"),
        }
        self.next = self.persisted;
    }

    /// Appends records, makes segments ahead and reclaims segments until the medium stops.
    fn work(&mut self, opened: &mut Opened, random: &mut StdRng) -> Result<(), LogError> {
        let mut first_of: Vec<(SegmentNumber, u64)> = Vec::new();
        for _ in 0..40 {
            let number = self.next;
            // A record whose append fails may be found, too.
            self.next += 1;
            let segment = opened.log.append(&record(number, random.random_range(8..900)))?;
            if first_of.last().is_none_or(|(last, _)| *last != segment) {
                first_of.push((segment, number));
            }
            match random.random_range(0..6) {
                0 => opened.log.write()?,
                1 => {
                    opened.log.persist()?;
                    self.persisted = self.next;
                }
                2 | 3 => opened.collector.make_ahead()?,
                4 if self.persisted == number => {
                    opened.log.persist()?;
                    self.persisted = self.next;
                    self.needed = first_of.last().map_or(self.needed, |(_, first)| *first);
                    reclaim(opened, segment, b"")?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// For every number of operations, the medium stops after so many, and then power fails.
#[test]
fn stop_at_any_operation_loses_nothing_that_was_persisted() {
    let mut stops = 0;
    for seed in 0..6 {
        for operations in 0.. {
            let medium = Memory::new();
            let mut expected = Expected::default();
            let stopping = Stopping::after(medium.clone(), operations);
            let mut random = StdRng::seed_from_u64(seed);
            let worked =
                open(stopping, SEGMENT_BYTES).and_then(|(mut opened, _)| expected.work(&mut opened, &mut random));
            medium.crash(seed * 1000 + operations);
            let (opened, found) = open(medium.clone(), SEGMENT_BYTES).unwrap();
            expected.check(&found, &format!("seed {seed}, {operations} operations"));
            drop(opened);
            // A second opening must find the same records.
            let (_, again) = open(medium, SEGMENT_BYTES).unwrap();
            assert_eq!(again, found);
            if worked.is_ok() {
                break;
            }
            stops += 1;
        }
    }
    assert!(stops > 300, "hardly ever stopped: {stops}");
}

/// The medium stops several times over one log, and so also during openings.
#[test]
fn stops_one_after_another_lose_nothing_that_was_persisted() {
    for seed in 0..150 {
        let mut random = StdRng::seed_from_u64(seed);
        let medium = Memory::new();
        let mut expected = Expected::default();
        for round in 0..8 {
            let stopping = Stopping::after(medium.clone(), random.random_range(0..60));
            if let Ok((mut opened, found)) = open(stopping, SEGMENT_BYTES) {
                expected.check(&found, &format!("seed {seed} round {round}"));
                let _ = expected.work(&mut opened, &mut random);
            }
            medium.crash(seed * 100 + round);
        }
        let (_, found) = open(medium, SEGMENT_BYTES).unwrap();
        expected.check(&found, &format!("seed {seed}"));
    }
}

#[test]
fn two_threads_append_and_make_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let (opened, _) = open(Disk::open(folder.path()).unwrap(), SEGMENT_BYTES).unwrap();
    let Opened { mut log, collector, .. } = opened;
    let done = Arc::new(AtomicBool::new(false));
    let seen = done.clone();
    let maker = std::thread::spawn(move || {
        while !seen.load(Ordering::Acquire) {
            collector.make_ahead().unwrap();
        }
    });
    for number in 0..300 {
        log.append(&record(number, 1000)).unwrap();
        if number % 7 == 0 {
            log.persist().unwrap();
        }
    }
    log.persist().unwrap();
    done.store(true, Ordering::Release);
    maker.join().unwrap();
    drop(log);
    let (opened, found) = open(Disk::open(folder.path()).unwrap(), SEGMENT_BYTES).unwrap();
    assert!(found == (0..300).map(|number| record(number, 1000)).collect::<Vec<_>>());
    assert!(folder.path().join(segment_file(opened.log.current().0)).exists());
}
