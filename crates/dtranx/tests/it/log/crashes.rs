//! Power failures at points that seeds choose: all persisted records come back, in order, and no
//! record that was never appended.

use dtranx::log::Memory;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::log::{open, reclaim, record};

const SEGMENT_BYTES: u64 = 4096;

/// Each round appends, sometimes persists and reclaims, and loses power. Records are numbered
/// consecutively, so the records found must be a run of numbers that includes all that were
/// persisted and not reclaimed.
#[test]
fn crash_persisted_records_come_back() {
    let mut torn_tails = 0;
    for seed in 0..150 {
        let mut random = StdRng::seed_from_u64(seed);
        let medium = Memory::new();
        let mut next = 0;
        // Records below `persisted` are persisted; records from `needed` on are not reclaimed.
        let (mut persisted, mut needed) = (0, 0);
        for round in 0..8 {
            let (mut opened, found) = open(medium.clone(), SEGMENT_BYTES).unwrap();
            let numbers: Vec<u64> = found.iter().map(|r| u64::from_le_bytes(*r.first_chunk().unwrap())).collect();
            assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "seed {seed} round {round}: {numbers:?}");
            if let (Some(first), Some(last)) = (numbers.first(), numbers.last()) {
                assert!(*first <= needed, "seed {seed} round {round}: {first} > {needed}");
                assert!(*last + 1 >= persisted && *last < next, "seed {seed} round {round}");
            } else {
                assert!(needed >= persisted, "seed {seed} round {round}: nothing of {needed}..{persisted} is left");
            }
            let end = numbers.last().map_or(persisted, |last| last + 1);
            torn_tails += usize::from(end < next);
            next = end;
            persisted = end;
            let mut segments: Vec<(u64, _)> = Vec::new();
            for _ in 0..random.random_range(0..60) {
                let segment = opened.log.append(&record(next, random.random_range(8..600))).unwrap();
                segments.push((next, segment));
                next += 1;
                match random.random_range(0..8) {
                    0 => opened.log.write().unwrap(),
                    1 => {
                        opened.log.persist().unwrap();
                        persisted = next;
                    }
                    2 if persisted == next => {
                        let oldest = opened.log.current();
                        reclaim(&mut opened, oldest, &next.to_le_bytes()).unwrap();
                        let kept = segments.iter().find(|(_, segment)| *segment >= oldest);
                        needed = kept.map_or(next, |(number, _)| *number);
                    }
                    _ => {}
                }
            }
            drop(opened);
            medium.crash(seed * 100 + round);
        }
    }
    assert!(torn_tails > 50, "the crashes tore next to nothing: {torn_tails}");
}

/// Whole blocks behind a torn block must not come back once the log has grown over the torn one.
#[test]
fn reopen_whole_blocks_behind_a_torn_one_stay_lost() {
    for seed in 0..200 {
        let medium = Memory::new();
        let (mut opened, _) = open(medium.clone(), SEGMENT_BYTES).unwrap();
        for number in 0..6 {
            opened.log.append(&record(number, 100)).unwrap();
            opened.log.write().unwrap();
        }
        drop(opened);
        medium.crash(seed);
        let (mut opened, found) = open(medium.clone(), SEGMENT_BYTES).unwrap();
        let kept = found.len() as u64;
        for number in 0..6 {
            opened.log.append(&record(1000 + number, 100)).unwrap();
            opened.log.persist().unwrap();
        }
        drop(opened);
        let (_, found) = open(medium, SEGMENT_BYTES).unwrap();
        let numbers: Vec<u64> = found.iter().map(|r| u64::from_le_bytes(*r.first_chunk().unwrap())).collect();
        let expected: Vec<u64> = (0..kept).chain(1000..1006).collect();
        assert_eq!(numbers, expected, "seed {seed}");
    }
}
