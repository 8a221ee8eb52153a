//! Tests of both storages, which must behave alike. The one on a disk must also come back after it
//! was closed.
use dtranx::core::{CheckAnswer, Current, Item, Key, KeyRange, Read, ScanRead, ServerId, TranxId, Value, Write};
use dtranx::storage::{InMemory, Lsm, LsmOptions, ScanLimit, Storage, StorageError};
use tempfile::TempDir;

const SERVER: ServerId = ServerId(3);
const ALL: ScanLimit = ScanLimit { items: 1000, bytes: usize::MAX };

fn key(bytes: &str) -> Key {
    Key::new(bytes.to_owned().into_bytes()).unwrap()
}

fn version(number: u64) -> TranxId {
    TranxId { server: SERVER, number }
}

fn put(name: &str, value: &str) -> Write {
    Write { key: key(name), value: Some(Value::new(value.to_owned().into_bytes()).unwrap()) }
}

fn item(value: &str, number: u64) -> Item {
    Item { value: Value::new(value.to_owned().into_bytes()).unwrap(), version: version(number) }
}

fn open(folder: &TempDir) -> Lsm {
    Lsm::open(folder.path(), SERVER, LsmOptions::default()).unwrap()
}

fn apply(storage: &dyn Storage, number: u64, writes: Vec<Write>) {
    storage.apply(&[(version(number), writes)]).unwrap();
}

/// Runs a test on both storages, and on two disk storages with a tiny item cache and without one.
fn on_each(test: impl Fn(&dyn Storage)) {
    test(&InMemory::new());
    test(&open(&tempfile::tempdir().unwrap()));
    for item_cache_bytes in [1, 0] {
        let small = LsmOptions { item_cache_bytes, block_cache_bytes: 1 << 20, ..LsmOptions::default() };
        test(&Lsm::open(tempfile::tempdir().unwrap().path(), SERVER, small).unwrap());
    }
}

#[test]
fn get_sees_last_write_with_its_version() {
    on_each(|storage| {
        assert_eq!(storage.get(&key("a")).unwrap(), None);
        apply(storage, 1, vec![put("a", "one"), put("", "empty key")]);
        assert_eq!(storage.get(&key("a")).unwrap(), Some(item("one", 1)));
        assert_eq!(storage.get(&key("")).unwrap(), Some(item("empty key", 1)));
        apply(storage, 2, vec![Write { key: key("a"), value: None }]);
        assert_eq!(storage.get(&key("a")).unwrap(), None);
        apply(storage, 3, vec![put("a", "")]);
        assert_eq!(storage.get(&key("a")).unwrap(), Some(item("", 3)));
    });
}

#[test]
fn commits_that_are_applied_together_are_applied_in_their_order() {
    on_each(|storage| {
        let gone = Write { key: key("b"), value: None };
        let commits =
            [(1, vec![put("a", "one"), put("b", "one")]), (2, vec![put("a", "two"), gone]), (3, vec![put("c", "")])];
        storage.apply(&commits.map(|(number, writes)| (version(number), writes))).unwrap();
        let found: Vec<_> = ["a", "b", "c"].iter().map(|name| storage.get(&key(name)).unwrap()).collect();
        assert_eq!(found, [Some(item("two", 2)), None, Some(item("", 3))]);
        assert_eq!(storage.scan(&KeyRange::all(), ALL).unwrap().items.len(), 2);
    });
}

#[test]
fn what_is_cached_is_what_there_is() {
    for storage in [&InMemory::new() as &dyn Storage, &open(&tempfile::tempdir().unwrap())] {
        let (a, b) = (key("a"), key("b"));
        apply(storage, 1, vec![put("a", "one")]);
        assert_eq!(storage.cached(&a), Some(Some(item("one", 1))));
        apply(storage, 2, vec![put("a", "two")]);
        assert_eq!(storage.cached(&a), Some(Some(item("two", 2))));
        // The cache also notes an absent key, once a read has found it absent.
        storage.get(&b).unwrap();
        assert_eq!(storage.cached(&b), Some(None));
        let old = Read { key: a.clone(), version: Some(version(1)) };
        let absent = Read { key: b, version: None };
        let answer = storage.check_cached(&[absent.clone(), old.clone()]).unwrap();
        assert_eq!(answer, storage.check(&[absent, old], &[]).unwrap());
        assert_eq!(answer.stale, [Current { key: a, item: Some(item("two", 2)) }]);
    }
}

#[test]
fn what_is_not_cached_is_not_checked_without_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    {
        let storage = open(&folder);
        apply(&storage, 1, vec![put("a", "one")]);
        storage.persist().unwrap();
    }
    let storage = open(&folder);
    let read = Read { key: key("a"), version: Some(version(1)) };
    assert_eq!((storage.cached(&read.key), storage.check_cached(std::slice::from_ref(&read))), (None, None));
    assert_eq!(storage.check(std::slice::from_ref(&read), &[]).unwrap(), CheckAnswer::default());
}

#[test]
fn scan_is_ordered_and_stops_at_either_limit() {
    on_each(|storage| {
        let writes: Vec<Write> = ["b", "a", "ab", "c", ""].iter().map(|name| put(name, "12345678")).collect();
        apply(storage, 1, writes);
        let names = |range: KeyRange, limit: ScanLimit| {
            let found = storage.scan(&range, limit).unwrap();
            let names: Vec<_> =
                found.items.iter().map(|(key, _)| String::from_utf8(key.as_bytes().to_vec()).unwrap()).collect();
            (names.join(","), found.complete)
        };
        assert_eq!(names(KeyRange::all(), ALL), (",a,ab,b,c".to_owned(), true));
        assert_eq!(names(KeyRange::prefix(key("a")), ALL), ("a,ab".to_owned(), true));
        assert_eq!(names(KeyRange::until(key("ab"), key("c")), ALL), ("ab,b".to_owned(), true));
        assert_eq!(names(KeyRange::until(key("c"), key("a")), ALL), (String::new(), true));
        let two = ScanLimit { items: 2, ..ALL };
        assert_eq!(names(KeyRange::prefix(key("a")), two), ("a,ab".to_owned(), true));
        assert_eq!(names(KeyRange::all(), two), (",a".to_owned(), false));
        let few_bytes = ScanLimit { bytes: 9, ..ALL };
        assert_eq!(names(KeyRange::all(), few_bytes), (",a".to_owned(), false));
    });
}

#[test]
fn check_finds_changed_deleted_and_new_items() {
    on_each(|storage| {
        apply(storage, 1, vec![put("a", "1"), put("c", "1")]);
        let read = |name: &str, version| Read { key: key(name), version };
        let same = storage.check(&[read("a", Some(version(1))), read("b", None)], &[]).unwrap();
        assert!(same.stale.is_empty() && !same.stale_scans);
        let scan = ScanRead { range: KeyRange::all(), found: vec![(key("a"), version(1)), (key("c"), version(1))] };
        assert!(!storage.check(&[], std::slice::from_ref(&scan)).unwrap().stale_scans);

        apply(storage, 2, vec![put("b", "2")]);
        let stale = storage.check(&[read("b", None), read("a", Some(version(1)))], &[]).unwrap().stale;
        assert_eq!(stale.len(), 1);
        assert_eq!((&stale[0].key, &stale[0].item), (&key("b"), &Some(item("2", 2))));
        assert!(storage.check(&[], std::slice::from_ref(&scan)).unwrap().stale_scans);

        // A key that was deleted and written again with the same value has another version, so the
        // read is stale.
        apply(storage, 3, vec![Write { key: key("a"), value: None }]);
        apply(storage, 4, vec![put("a", "1")]);
        assert_eq!(storage.check(&[read("a", Some(version(1)))], &[]).unwrap().stale.len(), 1);
    });
}

#[test]
fn reopened_disk_storage_holds_what_was_persisted() {
    let folder = tempfile::tempdir().unwrap();
    for round in 1..4 {
        let storage = open(&folder);
        for before in 1..round {
            assert_eq!(storage.get(&key(&before.to_string())).unwrap(), Some(item("x", before)));
        }
        apply(&storage, round, vec![put(&round.to_string(), "x")]);
        storage.persist().unwrap();
    }
}

#[test]
fn storage_of_another_server_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder));
    let refused = Lsm::open(folder.path(), ServerId(4), LsmOptions::default()).err().unwrap();
    assert!(matches!(refused, StorageError::Foreign { field: "server", found: 3, expected: 4, .. }), "{refused}");
}
