//! A log on a disk that cannot be read everywhere, or that is damaged in a long record.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::Cell;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::{Sight, Surveyed, survey, survey_files};
use crate::core::StoreId;
use crate::files::{Files, failing};
use crate::log::{Disk, LogOptions, SegmentNumber, TranxLog};

const SERVER: u16 = 7;

/// Writes a log; each record is made durable before the next one. Returns its first segment.
fn written(folder: &Path, segment_bytes: u64, records: &[Vec<u8>]) -> PathBuf {
    let medium = Arc::new(Disk::open(folder).unwrap());
    let mut opened = TranxLog::open(medium, &LogOptions::new(SERVER, segment_bytes), |_, _| Ok(())).unwrap();
    for record in records {
        opened.log.append(record).unwrap();
        opened.log.persist().unwrap();
    }
    folder.join(SegmentNumber(1).file_name())
}

fn hundred() -> Vec<Vec<u8>> {
    (0..100).map(|number| vec![number; 3_000]).collect()
}

/// Surveys a log. Returns the first bytes of the records in order, too.
fn surveyed(files: &Files<'_>) -> (Surveyed, Vec<u8>) {
    let mut in_order = Vec::new();
    let found = survey_files(files, SERVER, Some(StoreId::default()), &mut |sight| {
        if let Sight::InOrder(record) = sight {
            in_order.push(record[0]);
        }
        Ok(())
    });
    (found, in_order)
}

/// Offset of the last byte of a file that is not zero.
fn used(path: &Path) -> u64 {
    fs::read(path).unwrap().iter().rposition(|byte| *byte != 0).unwrap() as u64
}

#[test]
fn bytes_that_cannot_be_read_are_a_gap_of_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let segment = written(folder.path(), 1 << 20, &hundred());
    let middle = used(&segment) / 2;
    let open = failing::open(segment.clone(), middle..middle + 1);
    let (found, in_order) = surveyed(&Files::opened_by(folder.path(), &open));
    assert_eq!(found.gap.unwrap().file, segment.display().to_string());
    assert!(in_order.iter().copied().eq(0..in_order.len() as u8), "{in_order:?}");
    assert!((40..60).contains(&in_order.len()) && found.behind > 40, "{} and {}", in_order.len(), found.behind);
    // A sector is of two or three blocks.
    assert!(in_order.len() as u64 + found.behind >= 97, "{} and {}", in_order.len(), found.behind);
    assert_eq!(found.damages.list().len(), 1);
}

#[test]
fn end_that_cannot_be_read_is_no_torn_write() {
    let folder = tempfile::tempdir().unwrap();
    let segment = written(folder.path(), 1 << 20, &hundred());
    let last = used(&segment);
    for at in [last - 3_000, last] {
        let open = failing::open(segment.clone(), at..at + 1);
        let (found, in_order) = surveyed(&Files::opened_by(folder.path(), &open));
        assert!(found.gap.is_some() && in_order.len() >= 97, "{} at {at}", in_order.len());
    }
    // Nothing was ever written there.
    let open = failing::open(segment.clone(), last + 100_000..last + 100_001);
    let (found, in_order) = surveyed(&Files::opened_by(folder.path(), &open));
    assert!(found.gap.is_none() && found.damages.is_empty() && in_order.len() == 100, "{:?}", found.damages);
}

#[test]
fn one_half_of_the_gc_log_that_cannot_be_read_is_not_needed() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 1 << 20, &hundred());
    let gc_log = folder.path().join("gc.log");
    let bytes = fs::metadata(&gc_log).unwrap().len();
    let is_named = [0, bytes / 2].map(|at| {
        let open = failing::open(gc_log.clone(), at..at + 1);
        let (found, _) = surveyed(&Files::opened_by(folder.path(), &open));
        !found.damages.is_empty()
    });
    // Only one of them was ever written.
    assert_eq!(is_named.iter().filter(|is_named| **is_named).count(), 1);
}

#[test]
fn segments_that_are_links_are_named_and_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let segment = written(folder.path(), 1 << 20, &hundred());
    let aside = folder.path().join("aside");
    fs::rename(&segment, &aside).unwrap();
    symlink(&aside, &segment).unwrap();
    let found = survey(folder.path(), SERVER, Some(StoreId::default()), &mut |_| Ok(()));
    let gap = found.gap.unwrap().to_string();
    assert!(gap.contains("it is a symbolic link to ") && found.in_order == 0, "{gap}");
}

/// A record of random bytes looks at every 64th byte like the header of a long block.
#[test]
fn damaged_record_of_random_bytes_is_passed_without_reading_it_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let long: Vec<u8> = (0..12 << 20).map(|_| random()).collect();
    let segment_bytes = 32 << 20;
    let segment = written(folder.path(), segment_bytes, &[vec![1; 10], long, vec![2; 10], vec![3; 10]]);
    let file = OpenOptions::new().write(true).open(&segment).unwrap();
    file.write_all_at(b"damage", 1 << 20).unwrap();
    let read = Rc::new(Cell::new(0));
    let open = failing::counted(segment, Rc::clone(&read));
    let (found, in_order) = surveyed(&Files::opened_by(folder.path(), &open));
    assert!(found.gap.is_some() && in_order == [1] && found.behind == 2, "{found:?}");
    assert!(read.get() < 8 * segment_bytes, "{} bytes are read, of {segment_bytes}", read.get());
}
