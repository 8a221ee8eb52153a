//! Tests of the members of a group in processes of their own: what was acknowledged is there after
//! the loss of a member, and writes go on.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use dtranx::client::{Client, Error};

use crate::limit::Limit;
use crate::processes::trio::{REQUEST_MS, Trio};

/// Writes numbers to one key, each after the one before is there, until `over` is set.
/// `acknowledged` holds the last one.
fn count(client: &Client, over: &AtomicBool, acknowledged: &AtomicU64) {
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

fn number(value: Option<Bytes>) -> u64 {
    value.map_or(0, |value| u64::from_be_bytes(*value.first_chunk().unwrap()))
}

/// Waits until ten more numbers are acknowledged.
fn wait_for_more(acknowledged: &AtomicU64) {
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
