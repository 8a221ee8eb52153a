//! Entries of a member's log that is open, read again for another member.

use dtranx::log::{Cursor, Fetched, Medium, Memory, Position, SegmentNumber, TranxLog};

use crate::log::member::{self, at, records};
use crate::log::segment_file;

fn open(medium: &Memory) -> TranxLog {
    member::open(medium).unwrap().0.log
}

/// A log with these entries, some of which make others void.
fn with(medium: &Memory, entries: &[Position]) -> TranxLog {
    let mut log = open(medium);
    for entry in entries {
        log.append_entry(*entry, &records(*entry, 500)).unwrap();
        log.persist().unwrap();
    }
    log
}

fn payloads(fetched: Fetched) -> Vec<Vec<u8>> {
    let Fetched::Payloads(payloads) = fetched else { panic!("{fetched:?}") };
    payloads
}

/// Entries 1 to 20 of term 1, of which those from 11 on are replaced, and entries behind them.
fn replaced() -> (Vec<Position>, Vec<Position>) {
    let first: Vec<_> = (1..=20).map(|index| at(index, 1)).collect();
    let second: Vec<_> = (11..=30).map(|index| at(index, 2)).collect();
    let valid = [&first[..10], &second[..]].concat();
    (first.into_iter().chain(second).collect(), valid)
}

#[test]
fn entries_are_read_as_they_were_written_over_segments_and_replacements() {
    let medium = Memory::new();
    let (written, valid) = replaced();
    let log = with(&medium, &written);
    for log in [&log, &open(&medium)] {
        let (mut cursor, mut found) = (Cursor::default(), Vec::new());
        while found.len() < valid.len() {
            let wanted = valid[found.len()..].iter().copied();
            let some = payloads(log.fetch(&mut cursor, wanted, 1_200).unwrap());
            assert!((1..=2).contains(&some.len()), "a call reads as many as its limit allows");
            found.extend(some);
        }
        let expected: Vec<_> = valid.iter().map(|entry| records(*entry, 500)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn entries_are_found_wherever_the_last_call_ended() {
    let medium = Memory::new();
    let (written, valid) = replaced();
    let log = with(&medium, &written);
    let mut cursor = Cursor::default();
    for from in [29, 3, 3, 12, 0, 25, 9] {
        let found = payloads(log.fetch(&mut cursor, valid[from..].iter().copied(), 0).unwrap());
        assert_eq!(found, [records(valid[from], 500)], "from {from}");
    }
}

#[test]
fn entry_that_is_not_there_or_is_damaged_is_an_error() {
    let medium = Memory::new();
    let (written, valid) = replaced();
    let log = with(&medium, &written);
    let error = |wanted| log.fetch(&mut Cursor::default(), [wanted], 0).unwrap_err().to_string();
    assert!(error(at(31, 2)).contains("entry 31 of term 2 is not in it"), "{}", error(at(31, 2)));
    assert!(error(at(5, 2)).contains("entry 5 of term 2"), "{}", error(at(5, 2)));
    assert!(medium.damage(&segment_file(1), 64 + 48 + 100));
    assert!(error(valid[0]).contains(&segment_file(1)), "{}", error(valid[0]));
    assert!(log.fetch(&mut Cursor::default(), [valid[1]], 0).is_ok(), "others are whole");
}

#[test]
fn outline_has_the_places_of_all_entries() {
    let medium = Memory::new();
    let (written, _) = replaced();
    let outline = with(&medium, &written).outline();
    assert_eq!((outline.before, outline.last, outline.committed), (Position::default(), at(30, 2), 0));
    assert_eq!(outline.runs, [at(1, 1), at(11, 2)]);
    assert_eq!(open(&medium).outline(), outline);
}

#[test]
fn entries_that_were_removed_are_called_so_and_the_rest_is_read() {
    let medium = Memory::new();
    let mut opened = member::open(&medium).unwrap().0;
    let entries: Vec<_> = (1..=20).map(|index| at(index, 1)).collect();
    for entry in &entries {
        opened.log.append_entry(*entry, &records(*entry, 500)).unwrap();
        opened.log.persist().unwrap();
    }
    let mut cursor = Cursor::default();
    let read =
        |log: &TranxLog, cursor: &mut Cursor, from: usize| log.fetch(cursor, entries[from..].to_vec(), 0).unwrap();
    assert_eq!(payloads(read(&opened.log, &mut cursor, 0)), [records(entries[0], 500)]);
    opened.collector.remove_through(SegmentNumber(2)).unwrap();
    let removed = (0..20).take_while(|from| read(&opened.log, &mut cursor, *from) == Fetched::Removed).count();
    assert!((2..19).contains(&removed), "{removed} entries are removed");
    for (from, entry) in entries.iter().enumerate().skip(removed) {
        assert_eq!(payloads(read(&opened.log, &mut cursor, from)), [records(*entry, 500)], "{entry}");
    }
    assert_eq!(read(&opened.log, &mut cursor, removed - 1), Fetched::Removed);
}

/// The file goes before the log's list of segments is shorter.
#[test]
fn segment_that_is_on_its_way_out_does_not_keep_others_from_being_read() {
    let medium = Memory::new();
    let entries: Vec<_> = (1..=20).map(|index| at(index, 1)).collect();
    let log = with(&medium, &entries);
    let mut cursor = Cursor::default();
    let mut read = |from: usize| payloads(log.fetch(&mut cursor, entries[from..].to_vec(), 0).unwrap());
    assert_eq!(read(0), [records(entries[0], 500)]);
    medium.remove(&segment_file(1)).unwrap();
    assert_eq!(read(19), [records(entries[19], 500)]);
}
