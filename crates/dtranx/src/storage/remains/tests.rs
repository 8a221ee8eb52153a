//! A storage that the engine wrote is read without the engine, whole and damaged.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::ops::Bound;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use xxhash_rust::xxh3::xxh3_128;

use super::{ABOUT, Between, ITEMS, Remains, read, table};
use crate::files::{Files, failing};

type Items = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Opens the keyspaces of a storage with the engine.
fn opened(folder: &Path) -> (Database, Keyspace, Keyspace) {
    let database = Database::builder(folder).manual_journal_persist(true).open().unwrap();
    let options = || KeyspaceCreateOptions::default().max_memtable_size(1 << 30);
    let (about, items) = [ABOUT, ITEMS].map(|name| database.keyspace(name, options).unwrap()).into();
    (database, about, items)
}

/// A storage with tables, some of whose keys were deleted or written again, and a journal; and what
/// the engine says that it has. `mark` is the last byte of each value.
fn written(folder: &Path, large: bool, mark: u8) -> Items {
    let mut expected = Items::new();
    let (database, about, items) = opened(folder);
    about.insert("server", [1, 0]).unwrap();
    let value = |at: u32, life: u32| {
        let mut value = vec![(at + life) as u8; if large { 3_000 } else { 30 }];
        value.push(mark);
        value
    };
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
    found_in(&Files::new(folder))
}

fn found_in(files: &Files<'_>) -> (Items, Remains) {
    let mut items: BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)> = BTreeMap::new();
    let remains = read(files, &mut |keyspace, entry| {
        let is_newer = items.get(entry.key).is_none_or(|(number, _)| *number <= entry.number);
        if keyspace == ITEMS && is_newer {
            items.insert(entry.key.to_vec(), (entry.number, entry.value.map(<[u8]>::to_vec)));
        }
        Ok(())
    })
    .unwrap();
    (items.into_iter().map(|(key, (_, value))| (key, value)).collect(), remains)
}

fn is_sure(remains: &Remains, key: &[u8]) -> bool {
    !remains.unsure.iter().any(|keys| keys.contains(key))
}

/// Checks that keys outside the lost ranges have their newest values. Returns the number of the
/// others.
fn check(items: &Items, remains: &Remains, expected: &Items, what: &str) -> usize {
    for (key, value) in expected.iter().filter(|(key, _)| is_sure(remains, key)) {
        assert_eq!(items.get(key).cloned().flatten(), *value, "{what}: {key:?}");
    }
    expected.keys().filter(|key| !is_sure(remains, key)).count()
}

/// Returns all damages that are named, in one text.
fn said(remains: &Remains) -> String {
    remains.damages.list().iter().map(|damage| format!("{damage}\n")).collect()
}

/// Checks that damage is named, and that no key is sure.
fn assert_nothing_is_sure(remains: &Remains, what: &str) {
    assert!(said(remains).contains(what), "{}", said(remains));
    assert!(remains.unsure.contains(&Between::all()), "{remains:?}");
}

fn tables(folder: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(folder.join("keyspaces/2/tables")).unwrap().map(|name| name.unwrap().path());
    let mut tables: Vec<PathBuf> = names.collect();
    tables.sort();
    tables
}

#[test]
fn whole_storage_is_read_as_the_engine_reads_it() {
    for large in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let expected = written(folder.path(), large, 0);
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
    let expected = written(folder.path(), true, 0);
    let mut ranges = 0;
    for path in tables(folder.path()) {
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(whole.len() / 60) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x20;
            fs::write(&path, damaged).unwrap();
            let (items, remains) = found(folder.path());
            assert!(!remains.damages.is_empty(), "{} at {at}: not named", path.display());
            let uncertain = check(&items, &remains, &expected, &format!("{} at {at}", path.display()));
            ranges += u32::from(uncertain > 0 && uncertain < expected.len());
        }
        fs::write(&path, whole).unwrap();
    }
    assert!(ranges > 40, "damage is confined to a range {ranges} times");
}

#[test]
fn sectors_that_cannot_be_read_concern_keys_near_them_only() {
    let folder = tempfile::tempdir().unwrap();
    let expected = written(folder.path(), true, 0);
    let mut ranges = 0;
    for path in tables(folder.path()) {
        let bytes = fs::metadata(&path).unwrap().len();
        for at in (0..bytes).step_by(bytes as usize / 40) {
            let open = failing::open(path.clone(), at..at + 1);
            let (items, remains) = found_in(&Files::opened_by(folder.path(), &open));
            assert!(!remains.damages.is_empty(), "{} at {at}: not named", path.display());
            let uncertain = check(&items, &remains, &expected, &format!("{} at {at}", path.display()));
            // A block has two of every second key, and a sector is of two blocks and a header.
            assert!(uncertain <= 20, "{} at {at}: {uncertain} keys are uncertain", path.display());
            ranges += u32::from(uncertain > 0);
        }
    }
    assert!(ranges > 40, "some keys are uncertain {ranges} times");
}

#[test]
fn journal_that_cannot_be_read_somewhere_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let expected = written(folder.path(), true, 0);
    let path = folder.path().join("0.jnl");
    let open = failing::open(path.clone(), 1_000_000..1_000_001);
    let (items, remains) = found_in(&Files::opened_by(folder.path(), &open));
    assert_nothing_is_sure(&remains, "0.jnl, offset ");
    assert!(items.len() > 300 && items.len() <= expected.len());
}

#[test]
fn older_entry_behind_a_damaged_block_is_not_sure() {
    let folder = tempfile::tempdir().unwrap();
    let (database, _, items) = opened(folder.path());
    items.insert("k1", vec![1; 5_000]).unwrap();
    // What it shows is kept.
    let snapshot = database.snapshot();
    for key in ["k0", "k1", "k2"] {
        items.insert(key, vec![2; 5_000]).unwrap();
    }
    items.rotate_memtable_and_wait().unwrap();
    drop((snapshot, items, database));
    let path = &tables(folder.path())[0];
    let number = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
    // Each entry has a block of its own; the second one is the newer one of k1.
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(b"damage", 7_000).unwrap();
    let (mut remains, mut entries) = (Remains::default(), Vec::new());
    table::read(&Files::new(folder.path()), path, number, None, &mut remains, &mut |entry| {
        entries.push((entry.key.to_vec(), entry.value.unwrap()[0]));
        Ok(())
    })
    .unwrap();
    assert_eq!(entries, [(b"k0".to_vec(), 2), (b"k1".to_vec(), 1), (b"k2".to_vec(), 2)]);
    let between = Between { start: Bound::Excluded(b"k0".to_vec()), end: Bound::Included(b"k1".to_vec()) };
    assert_eq!(remains.unsure, [between]);
    assert!(!is_sure(&remains, b"k1") && is_sure(&remains, b"k0") && is_sure(&remains, b"k2"));
}

#[test]
fn table_with_the_content_of_another_one_is_named_and_not_used() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let expected = written(folder.path(), true, 0);
    written(other.path(), true, 9);
    let tables = tables(folder.path());
    assert!(tables.len() > 1, "{tables:?}");
    for (path, from) in tables.iter().zip(tables.iter().skip(1).chain(tables.first())) {
        let whole = fs::read(path).unwrap();
        fs::copy(from, path).unwrap();
        let (_, remains) = found(folder.path());
        let number = from.file_name().unwrap().to_str().unwrap();
        assert_nothing_is_sure(&remains, &format!("it has the content of table {number}"));
        // It has the same number in another storage.
        fs::copy(other.path().join(path.strip_prefix(folder.path()).unwrap()), path).unwrap();
        let (items, remains) = found(folder.path());
        assert_nothing_is_sure(&remains, "it is not the table that the manifest names");
        assert!(items.values().flatten().all(|value| value.last() == Some(&0)), "values of another storage");
        fs::write(path, whole).unwrap();
    }
    assert_eq!(check(&found(folder.path()).0, &found(folder.path()).1, &expected, "as it was"), 0);
}

#[test]
fn blocks_of_another_table_are_not_taken_for_those_of_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let expected = written(folder.path(), true, 0);
    let tables = tables(folder.path());
    let (whole, other) = (fs::read(&tables[1]).unwrap(), fs::read(&tables[0]).unwrap());
    let mut mixed = whole;
    let half = mixed.len() / 2;
    mixed[..half].copy_from_slice(&other[..half]);
    fs::write(&tables[1], mixed).unwrap();
    let (items, remains) = found(folder.path());
    let uncertain = check(&items, &remains, &expected, "half of a table");
    assert!(said(&remains).contains("the entries of a block are not those of this table"), "{}", said(&remains));
    assert!(uncertain > 100 && uncertain < 400, "{uncertain} keys are uncertain");
}

/// A storage with two journals: the first one has items that are in no table, unless `is_flushed`;
/// then the items of both are in tables. The length of the batch of an item, in bytes.
fn with_two_journals(folder: &Path, is_flushed: bool) -> u64 {
    let (database, about, items) = opened(folder);
    let value = |at: u8| vec![at; 800_000];
    let write = |from: u8, until: u8| (from..until).for_each(|at| items.insert([b'k', at], value(at)).unwrap());
    about.insert("server", [1, 0]).unwrap();
    write(0, 40);
    items.rotate_memtable_and_wait().unwrap();
    write(40, 90);
    // The journal is long enough now: the next one is begun.
    let into_a_table = if is_flushed { &items } else { &about };
    into_a_table.rotate_memtable_and_wait().unwrap();
    write(90, 100);
    if is_flushed {
        items.rotate_memtable_and_wait().unwrap();
    }
    database.persist(PersistMode::SyncAll).unwrap();
    drop((about, items, database));
    assert!([0, 1].iter().all(|number| folder.join(format!("{number}.jnl")).exists()), "there are not two journals");
    assert!(said(&found(folder).1).is_empty(), "{}", said(&found(folder).1));
    13 + 21 + 2 + 800_000 + 13
}

#[test]
fn first_and_last_journal_are_missed_if_what_they_had_is_not_in_tables() {
    let folder = tempfile::tempdir().unwrap();
    with_two_journals(folder.path(), false);
    let (first, aside) = (folder.path().join("0.jnl"), folder.path().join("aside"));
    fs::rename(&first, &aside).unwrap();
    assert_nothing_is_sure(&found(folder.path()).1, "a journal before this one is missing");
    let folder = tempfile::tempdir().unwrap();
    with_two_journals(folder.path(), true);
    let (first, last) = (folder.path().join("0.jnl"), folder.path().join("1.jnl"));
    fs::rename(&last, &aside).unwrap();
    assert_nothing_is_sure(&found(folder.path()).1, "the last journal is missing, or the end of one");
    fs::rename(&aside, &last).unwrap();
    fs::rename(&first, &aside).unwrap();
    assert_eq!(said(&found(folder.path()).1), "", "tables have everything that was in it");
    // A journal that lost its end, and is the only one.
    fs::rename(&aside, &first).unwrap();
    fs::remove_file(&last).unwrap();
    OpenOptions::new().write(true).open(&first).unwrap().set_len(0).unwrap();
    assert_nothing_is_sure(&found(folder.path()).1, "and the journals have none");
}

#[test]
fn end_of_a_journal_is_missed_if_another_one_follows() {
    let folder = tempfile::tempdir().unwrap();
    let batch = with_two_journals(folder.path(), false);
    let path = folder.path().join("0.jnl");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let before = [13, 21, "server".len() as u64, 2, 13].iter().sum::<u64>();
    // In a batch, and behind one; and with zeros behind it.
    file.set_len(before + 70 * batch + 100).unwrap();
    assert_nothing_is_sure(&found(folder.path()).1, "a batch of writes is cut off, and there is a later journal");
    file.set_len(before + 70 * batch).unwrap();
    assert_nothing_is_sure(&found(folder.path()).1, "is not begun before this one has 64000000 bytes");
    file.set_len(64 << 20).unwrap();
    assert_nothing_is_sure(&found(folder.path()).1, "is not begun before this one has 64000000 bytes");
}

#[test]
fn numbers_of_batches_that_are_missing_or_changed_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let batch = with_two_journals(folder.path(), false);
    let path = folder.path().join("1.jnl");
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let change = |at: u64, byte: u64| {
        let mut number = [0];
        file.read_exact_at(&mut number, at * batch + 5 + byte).unwrap();
        file.write_all_at(&[number[0] ^ 1], at * batch + 5 + byte).unwrap();
    };
    for byte in [1, 4, 7] {
        // The last one, and the first one.
        change(9, byte);
        assert_nothing_is_sure(&found(folder.path()).1, "no batch has the numbers ");
        change(9, byte);
        change(0, byte);
        assert_nothing_is_sure(&found(folder.path()).1, "a batch of writes is damaged");
        change(0, byte);
    }
    assert_eq!(said(&found(folder.path()).1), "");
}

#[test]
fn other_versions_of_the_engine_are_named_with_the_known_one() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), false, 0);
    let (mark, keyspaces) = (folder.path().join("version"), folder.path().join("keyspaces"));
    fs::write(&mark, b"FJL\x04").unwrap();
    let (_, remains) = found(folder.path());
    let other = "it is in version 4 of the engine's format, and only version 3 is known";
    assert!(said(&remains).contains(other) && said(&remains).contains("nothing is lost"), "{}", said(&remains));
    assert!(remains.unsure.is_empty());
    fs::rename(&keyspaces, folder.path().join("partitions")).unwrap();
    let (_, remains) = found(folder.path());
    assert_nothing_is_sure(&remains, other);
    assert_eq!(remains.damages.list().len(), 1, "the same is said once: {}", said(&remains));
    fs::rename(folder.path().join("partitions"), &keyspaces).unwrap();
    fs::write(&mark, b"FJL\x03").unwrap();

    let current = keyspaces.join("2/current");
    let mut now = fs::read(&current).unwrap();
    let manifest = keyspaces.join(format!("2/v{}", u64::from_le_bytes(now[..8].try_into().unwrap())));
    let mut bytes = fs::read(&manifest).unwrap();
    // The version is the first section.
    assert_eq!(bytes[0], 3);
    bytes[0] = 4;
    now[8..24].copy_from_slice(&xxh3_128(&bytes).to_le_bytes());
    fs::write(&manifest, bytes).unwrap();
    fs::write(&current, now).unwrap();
    assert_nothing_is_sure(&found(folder.path()).1, &format!("{other}; its tables are not read"));
}

#[test]
fn links_are_named_and_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), false, 0);
    let table = tables(folder.path()).remove(0);
    let aside = folder.path().join("aside");
    let names =
        ["0.jnl", "keyspaces/2", "keyspaces/2/current", "keyspaces/2/tables"].map(|name| folder.path().join(name));
    for path in names.into_iter().chain([table]) {
        fs::rename(&path, &aside).unwrap();
        symlink(&aside, &path).unwrap();
        let (_, remains) = found(folder.path());
        assert_nothing_is_sure(&remains, "is a symbolic link to ");
        assert!(said(&remains).contains(&path.display().to_string()), "{}", said(&remains));
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
    // The folder itself may be one: it is on another disk.
    let link = tempfile::tempdir().unwrap();
    symlink(folder.path(), link.path().join("items")).unwrap();
    assert_eq!(said(&found(&link.path().join("items")).1), "");
}

#[test]
fn damaged_table_is_read_a_few_times() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), true, 0);
    let path = &tables(folder.path())[0];
    let bytes = fs::metadata(path).unwrap().len();
    // The headers of every third block are damaged, so that the next one has to be looked for.
    let whole = fs::read(path).unwrap();
    let headers = whole.windows(4).enumerate().filter(|(_, bytes)| bytes == b"LSM\x03").map(|(at, _)| at as u64);
    let file = OpenOptions::new().write(true).open(path).unwrap();
    headers.step_by(3).for_each(|at| file.write_all_at(b"none", at).unwrap());
    let read = Rc::new(Cell::new(0));
    let open = failing::counted(path.clone(), Rc::clone(&read));
    let (_, remains) = found_in(&Files::opened_by(folder.path(), &open));
    assert!(remains.damages.list().len() > 50, "{}", said(&remains));
    assert!(read.get() < 8 * bytes, "{} bytes are read, of {bytes}", read.get());
}
