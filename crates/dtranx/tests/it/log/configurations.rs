//! Configurations of a group in the log of a member: which of them are found again.

use std::sync::Arc;

use dtranx::log::{
    Configured, LogOptions, Memory, Opened, Position, SegmentNumber, Sight, State, TranxLog, configuration_payload,
    payload, survey,
};

use crate::log::options;

fn at(term: u64, index: u64) -> Position {
    Position { term, index }
}

fn configured(at: Position, bytes: &[u8]) -> Configured {
    Configured { at, bytes: bytes.to_vec() }
}

fn open(medium: &Memory) -> Opened {
    let options = LogOptions { is_member: true, ..options(4096) };
    TranxLog::open(Arc::new(medium.clone()), &options, |_, _| Ok(())).unwrap()
}

/// A log with a configuration in each of these entries, and records in the others up to `last`.
fn written(medium: &Memory, configurations: &[u64], last: u64) -> Opened {
    let mut opened = open(medium);
    for index in 1..=last {
        let configuration = configurations.contains(&index).then(|| configuration_payload(&[index as u8]));
        let payload = configuration.unwrap_or_else(|| payload([&[7; 1500][..]]));
        opened.log.append_entry(at(1, index), &payload).unwrap();
    }
    opened.log.append_state(State { term: 1, vote: None, committed: last }).unwrap();
    opened.log.persist().unwrap();
    opened
}

#[test]
fn configurations_that_are_not_void_are_found_committed_or_not() {
    let medium = Memory::new();
    let mut opened = written(&medium, &[2], 3);
    opened.log.append_entry(at(1, 4), &configuration_payload(b"void")).unwrap();
    opened.log.append_entry(at(2, 4), &configuration_payload(b"later")).unwrap();
    opened.log.persist().unwrap();
    let expected = [configured(at(1, 2), &[2]), configured(at(2, 4), b"later")];
    assert_eq!(opened.log.outline().configurations, expected);
    drop(opened);
    let opened = open(&medium);
    assert_eq!(opened.log.outline().configurations, expected);
    assert_eq!((opened.records, opened.void), (2, 1), "a configuration has no records");
}

#[test]
fn configuration_before_the_logs_beginning_is_kept_in_the_gc_log() {
    let medium = Memory::new();
    let mut opened = written(&medium, &[2, 3, 8], 9);
    opened.collector.remove_through(SegmentNumber(2)).unwrap();
    drop(opened);
    let mut opened = open(&medium);
    let outline = opened.log.outline();
    assert!(outline.before.index >= 3 && outline.before.index < 8);
    assert_eq!(outline.configurations, [configured(at(1, 3), &[3]), configured(at(1, 8), &[8])]);
    let last = SegmentNumber(opened.log.current().0 - 1);
    opened.collector.remove_through(last).unwrap();
    drop(opened);
    assert_eq!(open(&medium).log.outline().configurations, [configured(at(1, 8), &[8])]);
}

#[test]
fn survey_takes_a_configuration_for_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(dtranx::log::Disk::open(folder.path()).unwrap());
    let options = LogOptions { is_member: true, ..options(4096) };
    let mut opened = TranxLog::open(disk, &options, |_, _| Ok(())).unwrap();
    opened.log.append_entry(at(1, 1), &configuration_payload(b"members")).unwrap();
    opened.log.append_entry(at(1, 2), &payload([&b"record"[..]])).unwrap();
    opened.log.append_state(State { term: 1, vote: None, committed: 2 }).unwrap();
    opened.log.persist().unwrap();
    drop(opened);
    let mut records = Vec::new();
    let found = survey(folder.path(), options.server, None, &mut |sight| {
        if let Sight::InOrder(record) = sight {
            records.push(record.to_vec());
        }
        Ok(())
    });
    assert!(found.damages.list().is_empty() && found.gap.is_none(), "{:?}", found.damages.list());
    assert_eq!(records, [b"record"]);
}
