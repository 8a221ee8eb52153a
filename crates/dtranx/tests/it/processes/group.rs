//! Tests of the members of a group in processes of their own: what was acknowledged is there after
//! the loss of a member, and writes go on; a member that was away for too long gets the items.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use dtranx::client::{Client, Error};

use crate::limit::Limit;
use crate::processes::trio::{REQUEST_MS, Trio};

/// Writes numbers to one key, each after the one before is there, until `over` is set.
/// `acknowledged` holds the last one.
pub(crate) fn count(client: &Client, over: &AtomicBool, acknowledged: &AtomicU64) {
    for number in 1_u64.. {
        match client.put("number", number.to_be_bytes().to_vec()) {
            Ok(_) => acknowledged.store(number, Ordering::SeqCst),
            Err(Error::Unknown(_) | Error::Unavailable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        if over.load(Ordering::SeqCst) {
            return;
        }
    }
}

pub(crate) fn number(value: Option<Bytes>) -> u64 {
    value.map_or(0, |value| u64::from_be_bytes(*value.first_chunk().unwrap()))
}

/// Waits until ten more numbers are acknowledged.
pub(crate) fn wait_for_more(acknowledged: &AtomicU64) {
    let before = acknowledged.load(Ordering::SeqCst);
    while acknowledged.load(Ordering::SeqCst) < before + 10 {
        thread::yield_now();
    }
}

/// Loses the leader in this way while a client writes, and looks at what is there afterwards.
fn lose_the_leader(trio: &mut Trio, lose: impl FnOnce(&mut Trio, usize)) -> usize {
    let (over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let (client, reader) = (trio.client(REQUEST_MS), trio.client(20_000));
    thread::scope(|scope| {
        scope.spawn(|| count(&client, &over, &acknowledged));
        wait_for_more(&acknowledged);
        let lost = trio.leader();
        lose(trio, lost);
        // Writes go on without it, and nothing that was acknowledged is missing.
        wait_for_more(&acknowledged);
        let at_least = acknowledged.load(Ordering::SeqCst);
        assert!(number(reader.get("number").unwrap()) >= at_least);
        over.store(true, Ordering::SeqCst);
        lost
    })
}

#[test]
fn writes_go_on_when_the_leader_is_killed() {
    let _limit = Limit::of(300, "leader");
    let mut trio = Trio::group("disk");
    let lost = lose_the_leader(&mut trio, Trio::kill);
    trio.run(lost);
    lose_the_leader(&mut trio, Trio::kill);
}

#[test]
fn nothing_acknowledged_is_missing_when_the_leaders_folder_is_removed() {
    let _limit = Limit::of(300, "leader");
    let mut trio = Trio::group("disk");
    let lost = lose_the_leader(&mut trio, |trio, at| {
        fs::remove_dir_all(trio.folder(at)).unwrap();
        trio.wait(at);
    });
    // With an empty folder it is another store: no member any more, and it counts for nothing.
    trio.run(lost);
    let client = trio.client(20_000);
    while let Err(error) = client.put("another", "value") {
        assert!(matches!(error, Error::Unknown(_)), "{error}");
    }
    let other = (0..3).find(|at| *at != lost).unwrap();
    trio.kill(other);
    let alone = trio.client(REQUEST_MS);
    assert!(matches!(alone.put("third", "value"), Err(Error::Unavailable { .. } | Error::Unknown(_))));
    trio.run(other);
    assert_eq!(client.get("another").unwrap().as_deref(), Some(&b"value"[..]));
}

/// Id of the store in a member's folder, and whether it says that it has a vote.
pub(crate) fn store(folder: &Path) -> (String, bool) {
    let text = fs::read_to_string(folder.join("identity.toml")).unwrap();
    let store = text.lines().find_map(|line| line.strip_prefix("store = ")).unwrap();
    (store.trim_matches('"').to_owned(), text.contains("state = \"in-use\""))
}

#[test]
fn empty_stores_take_the_places_of_all_members_one_after_the_other() {
    let _limit = Limit::of(500, "member that rejoins");
    let mut trio = Trio::group_with("disk", "log_mib = 128\n");
    let (over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let (client, reader) = (trio.client(REQUEST_MS), trio.client(60_000));
    thread::scope(|scope| {
        scope.spawn(|| count(&client, &over, &acknowledged));
        wait_for_more(&acknowledged);
        for lost in 0..3 {
            // The leader's among them.
            let (old, _) = store(&trio.folder(lost));
            let mut begun = reader.begin();
            begun.get("before").unwrap();
            fs::remove_dir_all(trio.folder(lost)).unwrap();
            trio.kill(lost);
            wait_for_more(&acknowledged);
            trio.run_with(lost, &["--replace", &old]);
            wait_until(|| store(&trio.folder(lost)).1);
            let (new, _) = store(&trio.folder(lost));
            assert_ne!(new, old);
            wait_for_more(&acknowledged);
            // To clients it is the same cluster: what was read before is read still.
            reader.get("number").unwrap();
            begun.put("before", "").unwrap();
            begun.commit().unwrap();
        }
        over.store(true, Ordering::SeqCst);
    });
    // No member has its first store; each counts, after a start as well.
    for away in 0..3 {
        trio.kill(away);
        assert!(number(reader.get("number").unwrap()) >= acknowledged.load(Ordering::SeqCst));
        put(&reader, "without", Some(&[away as u8]));
        trio.run(away);
    }
}

#[test]
fn empty_store_that_is_killed_again_and_again_takes_a_lost_ones_place_with_the_items() {
    let _limit = Limit::of(500, "member that rejoins");
    let mut trio = Trio::group_with("persistent-memory", "log_mib = 128\n");
    let client = trio.client(60_000);
    let leader = trio.leader();
    let (lost, other) = ((leader + 1) % 3, (leader + 2) % 3);
    put(&client, "key", Some(b"value"));
    let first = segments(&trio.folder(lost)).remove(0);
    let (old, _) = store(&trio.folder(lost));
    trio.kill(lost);
    fs::remove_dir_all(trio.folder(lost)).unwrap();
    let mut number = 0_u32;
    while [leader, other].iter().any(|at| segments(&trio.folder(*at)).contains(&first)) {
        put(&client, &format!("key {}", number % 50), Some(&number.to_be_bytes().repeat(1 << 18)));
        number += 1;
    }
    // The others say whose place it is; until an operator says so, too, it counts for nothing.
    trio.run(lost);
    trio.kill(lost);
    trio.run_with(lost, &["--replace", &old]);
    for pause_ms in [50, 200, 800] {
        thread::sleep(Duration::from_millis(pause_ms));
        trio.kill(lost);
        trio.run_with(lost, &["--replace", &old]);
    }
    wait_until(|| store(&trio.folder(lost)).1);
    trio.kill(other);
    put(&client, "last", Some(b"value"));
    trio.kill(leader);
    trio.run(other);
    assert_eq!(client.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(client.get("last").unwrap().as_deref(), Some(&b"value"[..]));
}

/// Names of the segments in the folder of a member's first log.
fn segments(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder.join("log")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
    names.retain(|name| name.starts_with("segment-"));
    names.sort();
    names
}

pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns true if a member goes on with the items that it was given.
fn is_given(folder: &Path) -> bool {
    fs::read_to_string(folder.join("identity.toml")).unwrap().contains("items-2")
}

/// Writes that may be made twice, until it is known that they are.
pub(crate) fn put(client: &Client, key: &str, value: Option<&[u8]>) {
    let once = || match value {
        Some(value) => client.put(key.to_owned(), value.to_vec()).map(drop),
        None => client.delete(key.to_owned()).map(drop),
    };
    while let Err(error) = once() {
        assert!(matches!(error, Error::Unknown(_) | Error::Unavailable { .. }), "{error}");
    }
}

/// Keeps a member away until the others have removed entries that it needs, and kills it so often
/// while it is given the items.
fn keep_away_for_too_long(medium: &str, kills: usize) {
    let _limit = Limit::of(500, "items");
    let mut trio = Trio::group_with(medium, "log_mib = 128\n");
    let client = trio.client(60_000);
    let mut expected: BTreeMap<String, Option<Vec<u8>>> = BTreeMap::new();
    let mut write = |key: String, value: Option<Vec<u8>>| {
        put(&client, &key, value.as_deref());
        expected.insert(key, value);
    };
    write("deleted".to_owned(), Some(b"value".to_vec()));
    write("changed".to_owned(), Some(b"value".to_vec()));
    let leader = trio.leader();
    let (away, other) = ((leader + 1) % 3, (leader + 2) % 3);
    trio.kill(away);
    write("deleted".to_owned(), None);
    write("changed".to_owned(), Some(b"another".to_vec()));
    let first = segments(&trio.folder(away)).remove(0);
    let mut number = 0_u32;
    // Both others: either may lead by now.
    while [leader, other].iter().any(|at| segments(&trio.folder(*at)).contains(&first)) {
        write(format!("key {}", number % 50), Some(number.to_be_bytes().repeat(1 << 18)));
        number += 1;
    }
    trio.run(away);
    for _ in 0..kills {
        let folder = trio.folder(away);
        wait_until(|| folder.join("items-2").exists());
        trio.kill(away);
        trio.run(away);
    }
    write("meanwhile".to_owned(), Some(b"value".to_vec()));
    wait_until(|| is_given(&trio.folder(away)));
    let leader = trio.leader();
    let other = (0..3).find(|at| *at != leader && *at != away).unwrap();
    // Acknowledged by the leader and by the one that was away, which is elected because of it.
    trio.kill(other);
    write("after".to_owned(), Some(b"value".to_vec()));
    trio.kill(leader);
    trio.run(other);
    let reader = trio.client(60_000);
    for (key, value) in &expected {
        assert_eq!(reader.get(key.clone()).unwrap().as_deref(), value.as_deref(), "{key}");
    }
    assert_eq!(trio.leader(), away);
    assert!(!trio.folder(away).join("items").exists() && segments(&trio.folder(away)).is_empty());
    // It is a member like any other, after a start as well.
    trio.kill(away);
    trio.run(leader);
    trio.run(away);
    put(&reader, "last", Some(b"value"));
}

#[test]
fn member_that_was_away_for_too_long_gets_the_items() {
    keep_away_for_too_long("disk", 0);
}

#[test]
fn member_that_is_killed_while_it_gets_the_items_gets_them_later() {
    keep_away_for_too_long("persistent-memory", 3);
}
