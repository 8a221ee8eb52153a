//! Entries that others replace, over several segments: they are void by their indices, also when
//! the beginning of the log is removed. What is committed cannot be replaced.

use std::sync::Arc;

use dtranx::log::{LogError, Medium, Memory, SegmentNumber, TranxLog};

use crate::log::member::{
    Content, SEGMENT_BYTES, Step, at, blocks, copy, first, member, name, open, put, records, state, surveyed, write,
    written,
};
use crate::log::{record, segment_file};

fn entry(index: u64, term: u64) -> Step {
    Step::Entry(at(index, term))
}

/// Entries of 1,000 bytes, three in a segment: 1 to 3, then 4 to 6, of which 3 to 6 are replaced by
/// two entries in the third one.
fn over_segments() -> Vec<Step> {
    let mut steps: Vec<Step> = (1..=6).map(|index| entry(index, 1)).collect();
    steps.insert(3, Step::State(state(1, None, 2)));
    steps.extend([Step::State(state(2, Some(9), 2)), entry(3, 2), entry(4, 2)]);
    steps
}

fn segments(medium: &Memory) -> Vec<String> {
    medium.list().unwrap().into_iter().filter(|name| name.starts_with("segment-")).collect()
}

#[test]
fn entries_in_earlier_segments_are_void() {
    let (steps, folder) = (over_segments(), tempfile::tempdir().unwrap());
    let medium = written(&steps, 1000);
    assert_eq!(segments(&medium).len(), 3);
    for cut in (64..SEGMENT_BYTES as usize).step_by(64) {
        let medium = copy(&medium);
        let whole = medium.contents(&segment_file(3)).unwrap();
        let mut bytes = whole.clone();
        bytes[cut..].fill(0);
        put(&medium, &segment_file(3), &bytes);
        // Those of the third segment that are left.
        let kept = blocks(&whole).iter().take_while(|(at, block)| bytes[*at..*at + block.len()] == block[..]).count();
        let expected = Content::after(&steps[..steps.len() - blocks(&whole).len() / 2 + kept.div_ceil(2)]);
        let (found, in_order, behind) = surveyed(&medium, folder.path());
        assert_eq!((in_order, behind), (expected.committed.clone(), expected.uncommitted.clone()), "cut at {cut}");
        let (opened, content) = open(&medium).unwrap();
        assert_eq!((content, opened.void), (expected, found.void), "cut at {cut}");
    }
    assert_eq!(open(&medium).unwrap().0.void, 4);
    // A void entry that is missing is damage.
    assert!(medium.damage(&segment_file(2), 64 + 48 + 100));
    assert!(matches!(open(&medium), Err(LogError::Corrupt { file, offset: 64, .. }) if file == segment_file(2)));
}

/// The first segment has entry 3, which is void, and the second one begins with entry 4, which
/// follows it, and is void too.
#[test]
fn log_without_its_beginning_begins_with_what_is_not_void() {
    let (steps, folder) = (over_segments(), tempfile::tempdir().unwrap());
    let expected = Content::after(&steps);
    let left = ["3.2", "4.2"].map(str::to_owned).to_vec();
    for reopened in [false, true] {
        let medium = Memory::new();
        let mut opened = open(&medium).unwrap().0;
        for step in &steps {
            write(&mut opened.log, *step, 1000).unwrap();
            opened.log.persist().unwrap();
        }
        if reopened {
            drop(opened);
            opened = open(&medium).unwrap().0;
        }
        assert_eq!(opened.collector.remove_through(SegmentNumber(1)).unwrap(), 1);
        drop(opened);
        let (_, in_order, behind) = surveyed(&medium, folder.path());
        assert_eq!((in_order, &behind), (Vec::new(), &left));
        let (mut opened, content) = open(&copy(&medium)).unwrap();
        assert_eq!(content, Content { committed: Vec::new(), uncommitted: left.clone(), ..expected.clone() });
        write(&mut opened.log, entry(5, 2), 10).unwrap();
        assert!(matches!(opened.log.append_entry(at(2, 2), b""), Err(LogError::Cut { .. })));
        opened.log.persist().unwrap();
        // Without what makes them void, entries are missing before these.
        for name in segments(&medium).into_iter().skip(1) {
            Medium::remove(&medium, &name).unwrap();
        }
        let error = open(&medium).map(drop).unwrap_err().to_string();
        assert!(error.contains("entry 6 of term 1 follows entry 2 of term 1"), "{error}");
        for file in folder.path().read_dir().unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        let (found, in_order, behind) = surveyed(&medium, folder.path());
        assert!(found.gap.is_some() && in_order.is_empty() && behind == ["4.1", "5.1", "6.1"], "{found:?}");
    }
}

/// Without the first segment and the GC log, nothing says where the rest begins but its entries.
#[test]
fn survey_of_a_log_whose_beginning_is_lost_sees_what_is_not_void() {
    let (mut steps, left) = (over_segments(), ["3.2", "4.2"].map(str::to_owned).to_vec());
    for committed in [None, Some(4)] {
        steps.extend(committed.map(|committed| Step::State(state(2, Some(9), committed))));
        let (medium, folder) = (written(&steps, 1000), tempfile::tempdir().unwrap());
        for name in [&segment_file(1), "gc.log"] {
            Medium::remove(&medium, name).unwrap();
        }
        let (found, in_order, behind) = surveyed(&medium, folder.path());
        assert!(found.begins_late && found.void == 3, "{found:?}");
        let expected = if committed.is_some() { (left.clone(), Vec::new()) } else { (Vec::new(), left.clone()) };
        assert_eq!((in_order, behind), expected);
        assert_eq!(found.gap.is_some(), committed.is_none());
    }
}

/// The entry that the GC log knows to be committed may be a later one of that index than the one
/// that is read first.
#[test]
fn entry_that_was_replaced_before_its_index_was_committed_is_no_damage() {
    let mut steps: Vec<Step> = (1..=4).map(|index| entry(index, 1)).collect();
    steps.extend([Step::State(state(2, None, 3)), entry(4, 2), Step::State(state(2, None, 4))]);
    let medium = written(&steps, 1200);
    let (mut opened, content) = open(&medium).unwrap();
    assert_eq!(content, Content::after(&steps));
    assert_eq!(opened.collector.remove_through(SegmentNumber(1)).unwrap(), 1);
    drop(opened);
    let (_, content) = open(&medium).unwrap();
    assert_eq!((content.committed, content.state.committed), (vec!["4.2".to_owned()], 4));
}

/// A removal takes the newest state along into the GC log. Of two states the later term counts, of
/// one term the one with a vote, and the largest committed index.
#[test]
fn newest_state_outlives_its_segment_and_keeps_its_vote() {
    let folder = tempfile::tempdir().unwrap();
    let mut steps = vec![entry(1, 1), Step::State(state(5, Some(3), 1))];
    steps.extend((2..=4).map(|index| entry(index, 5)));
    for (added, expected) in [
        (None, state(5, Some(3), 1)),
        // A state of the same term without a vote, as it would come from elsewhere.
        (Some(state(5, None, 2)), state(5, Some(3), 2)),
        (Some(state(4, Some(8), 3)), state(5, Some(3), 3)),
        (Some(state(5, Some(5), 1)), state(5, Some(5), 1)),
        (Some(state(6, None, 0)), state(6, None, 1)),
    ] {
        let medium = written(&steps, 1200);
        let (mut opened, _) = open(&medium).unwrap();
        assert_eq!(opened.collector.remove_through(SegmentNumber(1)).unwrap(), 1);
        if let Some(added) = added {
            opened.log.append_state(added).unwrap();
            opened.log.persist().unwrap();
        }
        assert_eq!(opened.log.state(), expected);
        drop(opened);
        assert_eq!(surveyed(&medium, folder.path()).0.state, expected);
        assert_eq!(open(&medium).unwrap().1.state, expected);
        for file in folder.path().read_dir().unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
}

/// A state that is not synced is not in the GC log: what it calls committed may not be, either.
#[test]
fn state_that_is_not_durable_is_not_in_the_gc_log() {
    let medium = written(&[entry(1, 1), entry(2, 1), entry(3, 1), Step::State(state(1, None, 3))], 1200);
    let mut opened = open(&medium).unwrap().0;
    write(&mut opened.log, entry(4, 1), 10).unwrap();
    opened.log.append_state(state(7, Some(7), 4)).unwrap();
    opened.collector.write(b"").unwrap();
    drop(opened);
    let last = segments(&medium).pop().unwrap();
    let empty = vec![0; SEGMENT_BYTES as usize - 64];
    medium.open(&last).unwrap().write(64, &empty).unwrap();
    assert_eq!(open(&medium).unwrap().1.state, state(1, None, 3));
}

#[test]
fn entry_that_contradicts_the_log_is_refused_with_both_terms_and_not_written() {
    let medium = written(&[entry(1, 1), entry(2, 1), Step::State(state(2, None, 1)), entry(3, 2)], 10);
    let mut log = open(&medium).unwrap().0.log;
    let before = medium.contents(&segment_file(2));
    let mut refused = |entry, payload: &[u8]| log.append_entry(entry, payload).unwrap_err().to_string();
    assert_eq!(refused(at(1, 3), b""), "entry 1 of term 3 would make entry 1 of term 1 void, which is committed");
    assert_eq!(refused(at(0, 3), b""), "entry 0 of term 3 would make entry 0 of term 0 void, which is committed");
    assert_eq!(refused(at(5, 3), b""), "entry 5 of term 3 cannot follow entry 3 of term 2 in the log");
    assert_eq!(refused(at(4, 1), b""), "entry 4 of term 1 cannot follow entry 3 of term 2 in the log");
    assert!(refused(at(4, 2), b"\x09\0\0\0one").contains("a record of entry 4 of term 2 is cut off"));
    assert!(refused(at(4, 2), &records(at(4, 2), 4096)).contains("larger than the limit"));
    assert_eq!(medium.contents(&segment_file(2)), before);
    log.append_entry(at(2, 3), &records(at(2, 3), 10)).unwrap();
    log.persist().unwrap();
    drop(log);
    let content = open(&medium).unwrap().1;
    assert_eq!((content.committed, content.uncommitted), (vec!["1.1".to_owned()], vec!["2.3".to_owned()]));
}

/// Changes index and term of the last entry of a log, with the right checksum: as a log would be
/// that a wrong program has written.
fn with_last(steps: &[Step], entry: (u64, u64)) -> Memory {
    let medium = written(steps, 10);
    let whole = first(&medium);
    let blocks = blocks(&whole);
    let (offset, mut block) = blocks[blocks.len() - 2].clone();
    block[32..40].copy_from_slice(&entry.0.to_le_bytes());
    block[40..48].copy_from_slice(&entry.1.to_le_bytes());
    let payload = records(at(entry.0, entry.1), 10);
    block[48..].copy_from_slice(&payload);
    let sum = crc32c::crc32c_append(crc32c::crc32c(&1_u64.to_le_bytes()), &block[..4]);
    let sum = crc32c::crc32c_append(sum, &block[8..]);
    block[4..8].copy_from_slice(&sum.to_le_bytes());
    medium.open(&segment_file(1)).unwrap().write(offset as u64, &block).unwrap();
    medium
}

#[test]
fn log_whose_entries_contradict_each_other_is_refused_at_that_place() {
    let steps = [entry(1, 1), entry(2, 1), entry(3, 2), Step::State(state(2, None, 2)), entry(4, 2)];
    let folder = tempfile::tempdir().unwrap();
    for (changed, expected) in [
        ((2, 3), "entry 2 of term 3 would make entry 2 of term 1 void, which is committed"),
        ((5, 2), "entry 5 of term 2 follows entry 3 of term 2: entries between them are missing"),
        ((4, 1), "entry 4 of term 1 follows entry 3 of term 2, which has a later term"),
        ((4, 0), "entry 4 of term 0 follows entry 3 of term 2, which has a later term"),
    ] {
        let medium = with_last(&steps, changed);
        let offset = blocks(&first(&medium)).iter().rev().nth(1).unwrap().0 as u64;
        let (found, in_order, behind) = surveyed(&medium, folder.path());
        assert_eq!(
            (in_order, behind),
            (vec!["1.1".to_owned(), "2.1".to_owned()], vec!["3.2".to_owned(), name(at(changed.0, changed.1))])
        );
        assert!(found.damages.list().iter().any(|damage| damage.what == expected), "{found:?}");
        match open(&medium) {
            Err(LogError::Corrupt { offset: at, what, .. }) => assert_eq!((at, &what[..]), (offset, expected)),
            other => panic!("{other:?}"),
        }
    }
    // The same index again, above what is committed, is a replacement.
    assert_eq!(open(&with_last(&steps, (3, 3))).unwrap().1.uncommitted, ["3.3"]);
}

#[test]
fn log_that_ends_before_what_it_calls_committed_is_refused() {
    let medium = written(&[entry(1, 1), Step::State(state(1, None, 3))], 10);
    let error = open(&medium).map(drop).unwrap_err().to_string();
    assert!(error.contains("entries up to 3 are called committed, and the log ends with entry 1 of term 1"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let (found, in_order, _) = surveyed(&medium, folder.path());
    assert!(found.gap.is_some() && in_order == ["1.1"], "{found:?}");
}

/// The GC log is a witness: it calls entries committed that the log does not have any more.
#[test]
fn gc_log_that_knows_more_than_the_log_shows_that_its_end_is_lost() {
    let (steps, folder) = ([entry(1, 1), entry(2, 1), Step::State(state(1, None, 2))], tempfile::tempdir().unwrap());
    let medium = written(&steps, 10);
    let mut opened = open(&medium).unwrap().0;
    opened.collector.write(b"").unwrap();
    drop(opened);
    let mut bytes = first(&medium);
    let (second, _) = blocks(&bytes)[2];
    bytes[second..].fill(0);
    put(&medium, &segment_file(1), &bytes);
    Medium::remove(&medium, &segment_file(2)).unwrap();
    let (found, in_order, _) = surveyed(&medium, folder.path());
    assert!(found.gap.is_some() && in_order == ["1.1"], "{found:?}");
    assert!(matches!(open(&medium), Err(LogError::Corrupt { .. })));
}

/// Appends records as a server does that runs alone.
fn alone(medium: &Memory, numbers: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    let (mut opened, found) = crate::log::open(medium.clone(), SEGMENT_BYTES).unwrap();
    for number in numbers {
        opened.log.append(&record(number, 1200)).unwrap();
        opened.log.persist().unwrap();
    }
    found
}

/// The indices of a server that runs alone count on, also over removed segments, so that its log
/// can become that of a group.
#[test]
fn log_of_a_server_that_runs_alone_goes_on_as_that_of_a_member() {
    let medium = Memory::new();
    alone(&medium, 0..5);
    assert_eq!(alone(&medium, 5..7).len(), 5);
    let (mut opened, _) = crate::log::open(medium.clone(), SEGMENT_BYTES).unwrap();
    assert_eq!(opened.log.last(), at(7, 0));
    let last = opened.segments.last().unwrap().number;
    opened.collector.remove_through(last).unwrap();
    drop(opened);
    assert!(alone(&medium, 7..8).is_empty());
    // Its entries are committed by its own sync.
    let mut content = Content::default();
    let options = member();
    let mut log = TranxLog::read(Arc::new(medium.clone()), &options, &mut content).unwrap().log;
    assert_eq!((content.committed.len(), content.uncommitted.len(), log.last()), (1, 0, at(8, 0)));
    assert!(matches!(log.append_entry(at(8, 1), b""), Err(LogError::Cut { .. })));
    log.append_state(state(1, None, 8)).unwrap();
    log.append_entry(at(9, 1), b"").unwrap();
    log.append_entry(at(10, 1), &records(at(10, 1), 10)).unwrap();
    log.persist().unwrap();
    drop(log);
    let mut content = Content::default();
    TranxLog::read(Arc::new(medium.clone()), &options, &mut content).unwrap();
    assert_eq!((content.committed.len(), content.uncommitted), (1, vec!["10.1".to_owned()]));
}

/// A server that runs alone would take all entries for committed.
#[test]
fn log_of_a_member_is_refused_by_name_where_a_server_runs_alone() {
    for (steps, file) in [
        (vec![entry(1, 1)], segment_file(1)),
        (vec![Step::State(state(1, None, 0))], segment_file(1)),
        (vec![entry(1, 0), Step::State(state(0, None, 1))], segment_file(1)),
    ] {
        let medium = written(&steps, 10);
        match crate::log::open(medium, SEGMENT_BYTES) {
            Err(LogError::OfGroup { file: found, .. }) => assert_eq!(found, file),
            other => panic!("{other:?}"),
        }
    }
    let medium = written(&[entry(1, 1), Step::State(state(1, None, 1))], 10);
    let mut opened = open(&medium).unwrap().0;
    opened.collector.remove_through(SegmentNumber(1)).unwrap();
    // A server that runs alone has term 0, and cannot go on with a log of later terms.
    opened.log.append(b"alone").unwrap();
    assert!(matches!(opened.log.persist(), Err(LogError::OutOfOrder { .. })));
    drop(opened);
    match crate::log::open(medium, SEGMENT_BYTES) {
        Err(LogError::OfGroup { file, term: 1 }) => assert_eq!(file, "gc.log"),
        other => panic!("{other:?}"),
    }
}
