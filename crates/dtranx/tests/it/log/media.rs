//! The media on a real file system: a second process reads what the first one wrote.

use std::sync::Arc;

use dtranx::log::{Disk, Durability, LogError, Medium, PersistentMemory};

use crate::log::{open, record, segment_file};

const SEGMENT_BYTES: u64 = 64 * 1024;

fn survives_reopening(medium: impl Fn() -> Arc<dyn Medium>) {
    let mut written = Vec::new();
    for round in 0..3 {
        let opened = dtranx::log::TranxLog::open(medium(), &crate::log::options(SEGMENT_BYTES), |_, _| Ok(())).unwrap();
        let mut log = opened.log;
        assert_eq!(opened.records, written.len() as u64);
        for number in 0..100 {
            let next = record(round * 100 + number, 1500);
            log.append(&next).unwrap();
            written.push(next);
        }
        log.persist().unwrap();
    }
    let mut found = Vec::new();
    dtranx::log::TranxLog::open(medium(), &crate::log::options(SEGMENT_BYTES), |_, record| {
        found.push(record.to_vec());
        Ok(())
    })
    .unwrap();
    assert!(found == written, "{} of {} records", found.len(), written.len());
}

#[test]
fn disk_reopened_holds_everything() {
    let folder = tempfile::tempdir().unwrap();
    survives_reopening(|| Arc::new(Disk::open(folder.path()).unwrap()));
}

#[test]
fn persistent_memory_reopened_holds_everything() {
    let folder = tempfile::tempdir().unwrap();
    survives_reopening(|| Arc::new(PersistentMemory::open(folder.path()).unwrap()));
}

/// The disk writes zeros ahead of the data. They cover all skipped room and overwrite no data.
#[test]
fn disk_written_in_any_order_holds_what_was_written_and_zeros() {
    const BYTES: usize = (3 << 20) - 4096;
    let folder = tempfile::tempdir().unwrap();
    let mut file = Disk::open(folder.path()).unwrap().create("file", BYTES as u64).unwrap();
    let mut expected = vec![0; BYTES];
    for (at, length) in
        [(0, 10), (524_280, 8), (524_288, 16), (600_000, 448_576), (2 << 20, 4096), (1 << 20, 100), (BYTES - 7, 7)]
    {
        let bytes = vec![at as u8 | 1; length];
        file.write(at as u64, &bytes).unwrap();
        expected[at..at + length].copy_from_slice(&bytes);
    }
    file.persist().unwrap();
    let mut found = vec![1; BYTES];
    file.read(0, &mut found).unwrap();
    assert!(found == expected);
    assert!(file.write(BYTES as u64, &[1]).is_err());
    assert_eq!(std::fs::metadata(folder.path().join("file")).unwrap().len(), BYTES as u64);
}

#[test]
fn the_two_media_read_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let (mut opened, _) = open(PersistentMemory::open(folder.path()).unwrap(), SEGMENT_BYTES).unwrap();
    opened.log.append(b"by mapping").unwrap();
    opened.log.persist().unwrap();
    drop(opened);
    let (_, found) = open(Disk::open(folder.path()).unwrap(), SEGMENT_BYTES).unwrap();
    assert_eq!(found, [b"by mapping".to_vec()]);
}

#[test]
fn persistent_memory_says_whether_it_is_emulated() {
    let folder = tempfile::tempdir().unwrap();
    let medium = PersistentMemory::open(folder.path()).unwrap();
    let emulated = medium.describe().contains("emulated");
    assert_eq!(emulated, medium.durability() == Durability::Process, "{}", medium.describe());
    assert!(medium.list().unwrap().is_empty(), "the probe is gone");
}

#[test]
fn file_that_cannot_be_reserved_is_full_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let disk = || Box::new(Disk::open(folder.path()).unwrap()) as Box<dyn Medium>;
    let mapped = || Box::new(PersistentMemory::open(folder.path()).unwrap()) as Box<dyn Medium>;
    for open in [&disk as &dyn Fn() -> Box<dyn Medium>, &mapped] {
        let medium = open();
        let refused = medium.create("huge", 1 << 60).err().unwrap();
        assert!(matches!(&refused, LogError::Full { bytes, .. } if *bytes == 1 << 60), "{refused}");
        assert!(refused.to_string().contains("huge"));
        assert!(medium.list().unwrap().is_empty());
    }
}

#[test]
fn folder_has_one_user_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = Disk::open(folder.path()).unwrap();
    let refused = PersistentMemory::open(folder.path()).unwrap_err();
    assert!(
        matches!(&refused, LogError::InUse { folder: named } if named == folder.path().to_str().unwrap()),
        "{refused}"
    );
    assert!(first.list().unwrap().is_empty(), "the lock is no file of the log");
    drop(first);
    PersistentMemory::open(folder.path()).unwrap();
}

#[test]
fn folder_that_was_removed_or_replaced_is_noticed() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("log");
    let medium = Disk::open(&folder).unwrap();
    medium.check().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(matches!(medium.check(), Err(LogError::Gone { .. })));
    assert!(matches!(medium.create("file", 4096), Err(LogError::Gone { .. })));
    let other = Disk::open(&folder).unwrap();
    assert!(matches!(medium.check(), Err(LogError::Gone { .. })));
    assert!(matches!(medium.create("file", 4096), Err(LogError::Gone { .. })));
    assert!(other.list().unwrap().is_empty(), "what would be lost was made");
    assert!(matches!(medium.remove("file"), Err(LogError::Gone { .. })));
}

#[test]
fn strangers_in_the_folder_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["segment-1.wal", "lost+found.txt", "segment-0000000000000000000x.wal"] {
        std::fs::write(folder.path().join(name), "not ours").unwrap();
    }
    drop(open(Disk::open(folder.path()).unwrap(), SEGMENT_BYTES).unwrap());
    assert_eq!(std::fs::read(folder.path().join("segment-1.wal")).unwrap(), b"not ours");
}

#[test]
fn shortened_segment_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (mut opened, _) = open(Disk::open(folder.path()).unwrap(), SEGMENT_BYTES).unwrap();
    opened.log.append(&record(1, 100)).unwrap();
    opened.log.persist().unwrap();
    drop(opened);
    let file = std::fs::OpenOptions::new().write(true).open(folder.path().join(segment_file(1))).unwrap();
    file.set_len(1000).unwrap();
    assert!(matches!(
        open(Disk::open(folder.path()).unwrap(), SEGMENT_BYTES),
        Err(LogError::Corrupt { offset: 0, .. })
    ));
}
