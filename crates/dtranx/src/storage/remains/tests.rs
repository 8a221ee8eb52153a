//! A storage that the engine wrote is read without the engine, whole and damaged.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fjall::{Database, KeyspaceCreateOptions, PersistMode};

use super::{ABOUT, ITEMS, Remains, read};

type Items = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A storage with tables, some of whose keys were deleted or written again, and a journal; and what
/// the engine says that it has.
fn written(folder: &Path, large: bool) -> Items {
    let mut expected = Items::new();
    let database = Database::builder(folder).manual_journal_persist(true).open().unwrap();
    let keyspace = |name| database.keyspace(name, KeyspaceCreateOptions::default).unwrap();
    let (about, items) = (keyspace(ABOUT), keyspace(ITEMS));
    about.insert("server", [1, 0]).unwrap();
    let value = |at: u32, life: u32| vec![(at + life) as u8; if large { 3_000 } else { 30 }];
    for life in 0..3 {
        for at in (0..500_u32).filter(|at| at % (life + 1) == 0) {
            let key = format!("k{at:05}").into_bytes();
            if at % 11 == 5 && life == 1 {
                items.remove(key.clone()).unwrap();
                expected.insert(key, None);
            } else {
                items.insert(key.clone(), value(at, life)).unwrap();
                expected.insert(key, Some(value(at, life)));
            }
        }
        if life < 2 {
            items.rotate_memtable_and_wait().unwrap();
        }
    }
    database.persist(PersistMode::SyncAll).unwrap();
    expected
}

fn found(folder: &Path) -> (Items, Remains) {
    let mut items: BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)> = BTreeMap::new();
    let remains = read(folder, &mut |keyspace, entry| {
        let is_newer = items.get(entry.key).is_none_or(|(number, _)| *number <= entry.number);
        if keyspace == ITEMS && is_newer {
            items.insert(entry.key.to_vec(), (entry.number, entry.value.map(<[u8]>::to_vec)));
        }
        Ok(())
    })
    .unwrap();
    (items.into_iter().map(|(key, (_, value))| (key, value)).collect(), remains)
}

fn tables(folder: &Path) -> Vec<std::path::PathBuf> {
    let names = fs::read_dir(folder.join("keyspaces/2/tables")).unwrap().map(|name| name.unwrap().path());
    names.collect()
}

#[test]
fn whole_storage_is_read_as_the_engine_reads_it() {
    for large in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let expected = written(folder.path(), large);
        assert!(!tables(folder.path()).is_empty(), "there is no table");
        let (items, remains) = found(folder.path());
        assert!(remains.damages.is_empty() && remains.unsure.is_empty(), "{remains:?}");
        // A deleted key may have no entry left.
        let live = |items: Items| items.into_iter().filter_map(|(key, value)| Some((key, value?))).collect::<Vec<_>>();
        assert_eq!(live(items), live(expected));
    }
}

#[test]
fn changed_byte_is_named_or_changes_nothing_and_keys_outside_the_lost_ranges_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let expected = written(folder.path(), true);
    let mut ranges = 0;
    for path in tables(folder.path()) {
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(whole.len() / 60) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x20;
            fs::write(&path, damaged).unwrap();
            let (items, remains) = found(folder.path());
            assert!(!remains.damages.is_empty(), "{} at {at}: not named", path.display());
            let is_sure = |key: &[u8]| !remains.unsure.iter().any(|keys| keys.contains(key));
            for (key, value) in expected.iter().filter(|(key, _)| is_sure(key)) {
                assert_eq!(items.get(key).cloned().flatten(), *value, "{} at {at}: {key:?}", path.display());
            }
            ranges += u32::from(expected.keys().any(|key| !is_sure(key)) && expected.keys().any(|key| is_sure(key)));
        }
        fs::write(&path, whole).unwrap();
    }
    assert!(ranges > 40, "damage is confined to a range {ranges} times");
}
