//! Tests of the embedded engine, which serves clients without sockets.

use std::thread;

use bytes::Bytes;
use dtranx::client::{Client, ClientOptions, Error};
use dtranx::core::{KeyRange, Refusal};
use dtranx::server::Embedded;

use crate::limit::Limit;

fn client(store: &Embedded) -> Client {
    store.client(ClientOptions::default())
}

#[test]
fn commit_is_seen_and_abort_is_not() {
    let _limit = Limit::of(120, "answer of the engine");
    let store = Embedded::in_memory().unwrap();
    let client = client(&store);
    let mut tranx = client.begin();
    tranx.put("a", "1").unwrap();
    tranx.put("b", "2").unwrap();
    assert_eq!(tranx.get("a").unwrap(), Some(Bytes::from("1")), "its own write");
    assert_eq!(client.get("a").unwrap(), None, "not committed yet");
    let committed = tranx.commit().unwrap();
    assert!(committed.tranx.is_some());
    assert_eq!(client.get("a").unwrap(), Some(Bytes::from("1")));
    let mut tranx = client.begin();
    tranx.delete("a").unwrap();
    tranx.abort();
    assert_eq!(client.get("a").unwrap(), Some(Bytes::from("1")));
    client.delete("a").unwrap();
    assert_eq!(client.get("a").unwrap(), None);
}

#[test]
fn stale_read_is_refused_with_what_is_there_now() {
    let _limit = Limit::of(120, "answer of the engine");
    let store = Embedded::in_memory().unwrap();
    let client = client(&store);
    client.put("a", "1").unwrap();
    let mut tranx = client.begin();
    tranx.get("a").unwrap();
    tranx.put("b", "x").unwrap();
    client.put("a", "2").unwrap();
    match tranx.commit() {
        Err(Error::Refused(Refusal::Stale { current, .. })) => {
            assert_eq!(current.len(), 1);
            assert_eq!(current[0].item.as_ref().unwrap().value.as_bytes(), b"2");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(client.get("b").unwrap(), None);
}

#[test]
fn phantom_in_a_scanned_range_is_refused() {
    let _limit = Limit::of(120, "answer of the engine");
    let store = Embedded::in_memory().unwrap();
    let client = client(&store);
    for name in ["p1", "p3", "q"] {
        client.put(name, "x").unwrap();
    }
    let mut tranx = client.begin();
    assert_eq!(tranx.scan_prefix("p", 10).unwrap().items.len(), 2);
    tranx.put("count", "2").unwrap();
    client.put("p2", "x").unwrap();
    assert!(matches!(tranx.commit(), Err(Error::Refused(Refusal::Stale { .. }))));

    // A new key behind the last key of a limited scan is no phantom for that scan.
    let mut tranx = client.begin();
    let found = tranx.scan_prefix("p", 2).unwrap();
    assert!(!found.complete && found.items.len() == 2);
    tranx.put("count", "2").unwrap();
    client.put("p9", "x").unwrap();
    tranx.commit().unwrap();
}

#[test]
fn scan_sees_own_writes_and_deletes() {
    let _limit = Limit::of(120, "answer of the engine");
    let store = Embedded::in_memory().unwrap();
    let client = client(&store);
    client.put("a", "1").unwrap();
    client.put("b", "1").unwrap();
    let mut tranx = client.begin();
    tranx.put("c", "own").unwrap();
    tranx.delete("a").unwrap();
    let found = tranx.scan(KeyRange::all(), 10).unwrap();
    let keys: Vec<_> = found.items.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!(keys, [Bytes::from("b"), Bytes::from("c")]);
    tranx.commit().unwrap();
    assert_eq!(client.scan(&KeyRange::all(), 10).unwrap(), found);
}

#[test]
fn concurrent_increments_all_count() {
    let _limit = Limit::of(120, "answer of the engine");
    let store = Embedded::in_memory().unwrap();
    let options = ClientOptions { attempts: 10_000, ..ClientOptions::default() };
    thread::scope(|scope| {
        for _ in 0..4 {
            let client = store.client(options.clone());
            scope.spawn(move || {
                for _ in 0..50 {
                    client
                        .transact(|tranx| {
                            let value = tranx.get("counter")?.map_or(0, |value| value.len());
                            tranx.put("counter", vec![b'x'; value + 1])
                        })
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(client(&store).get("counter").unwrap().map(|value| value.len()), Some(200));
}

#[test]
fn reopened_store_has_what_was_committed() {
    let _limit = Limit::of(120, "answer of the engine");
    let folder = tempfile::tempdir().unwrap();
    for round in 0..3_u8 {
        let store = Embedded::open(folder.path()).unwrap();
        let client = client(&store);
        for before in 0..round {
            assert_eq!(client.get(vec![before]).unwrap(), Some(Bytes::from("x")), "round {round}");
        }
        client.put(vec![round], "x").unwrap();
    }
}

#[test]
fn limits_are_refused_by_name() {
    let _limit = Limit::of(120, "answer of the engine");
    let store = Embedded::in_memory().unwrap();
    let client = client(&store);
    let long_key = client.put(vec![0; 5000], "x").unwrap_err();
    assert_eq!(long_key.to_string(), "the key has 5000 bytes; the limit is 4096");
    let long_value = client.put("a", vec![0; (1 << 20) + 1]).unwrap_err();
    assert!(long_value.to_string().contains("1048576"), "{long_value}");
    let mut tranx = client.begin();
    for number in 0..1001_u32 {
        tranx.put(number.to_be_bytes().to_vec(), "x").unwrap();
    }
    assert!(matches!(tranx.commit(), Err(Error::Limit(_))));
    let mut tranx = client.begin();
    for number in 0..9_u8 {
        tranx.put(vec![number], vec![0; 1 << 20]).unwrap();
    }
    assert!(matches!(tranx.commit(), Err(Error::Limit(_))));
    // This transaction has exactly the largest size that is allowed.
    let mut tranx = client.begin();
    for number in 0..8_u8 {
        tranx.put(vec![number], vec![0; (1 << 20) - 1]).unwrap();
    }
    tranx.commit().unwrap();
}

#[test]
fn client_cache_serves_reads_and_is_checked_at_the_commit() {
    let _limit = Limit::of(120, "answer of the engine");
    let store = Embedded::in_memory().unwrap();
    let cached = store.client(ClientOptions { cache_items: 100, ..ClientOptions::default() });
    let other = client(&store);
    cached.put("a", "1").unwrap();
    other.put("a", "2").unwrap();
    let mut tranx = cached.begin();
    assert_eq!(tranx.get("a").unwrap(), Some(Bytes::from("1")), "from the cache");
    assert!(matches!(tranx.commit(), Err(Error::Refused(Refusal::Stale { .. }))));
    // The refusal carried the current value, which is in the cache now.
    let mut tranx = cached.begin();
    assert_eq!(tranx.get("a").unwrap(), Some(Bytes::from("2")));
    tranx.commit().unwrap();
}

#[test]
fn begin_again_does_not_read_what_the_refusal_brought() {
    let store = Embedded::in_memory().unwrap();
    let (stale, other) = (client(&store), client(&store));
    other.put("a", "1").unwrap();
    let mut tranx = stale.begin();
    tranx.get("a").unwrap();
    other.put("a", "2").unwrap();
    let Err(Error::Refused(refusal)) = tranx.commit() else { panic!("it read what is no longer so") };
    other.put("a", "3").unwrap();
    let mut tranx = stale.begin_again(refusal);
    assert_eq!(tranx.get("a").unwrap(), Some(Bytes::from("2")), "from the refusal, stale by now");
    assert!(matches!(tranx.commit(), Err(Error::Refused(Refusal::Stale { .. }))), "and checked again");
}

/// Waits until the condition holds; the test's limit bounds the wait.
fn wait_for(what: impl Fn() -> bool) {
    while !what() {
        thread::yield_now();
    }
}

/// Number of events that a stage has handled.
fn handled(store: &Embedded, stage: &str) -> u64 {
    store.status().readings.stages.iter().find(|reading| reading.name == stage).unwrap().handled
}

#[test]
fn cached_keys_are_read_and_checked_without_a_stage_that_waits_for_disks() {
    let _limit = Limit::of(300, "answer of the engine");
    let folder = tempfile::tempdir().unwrap();
    {
        let store = Embedded::open(folder.path()).unwrap();
        let client = client(&store);
        client.put("a", "1").unwrap();
        // The write is applied, and gets into the cache, only after the answer to its commit.
        wait_for(|| handled(&store, "storage") == 1);
        for round in 0..20 {
            let mut tranx = client.begin();
            tranx.get("a").unwrap();
            tranx.put("b", round.to_string()).unwrap();
            tranx.commit().unwrap();
        }
        assert_eq!(client.get("b").unwrap(), Some(Bytes::from("19")));
        let (applied, asked) = (handled(&store, "storage"), handled(&store, "read"));
        assert!(applied <= 21, "{applied} of 21 commits: some were asked about first");
        assert_eq!(asked, 0);
        // There may be more: a read before the last write was applied is tried again.
        assert!(store.status().cached_reads >= 21);
    }
    // After a restart, the cache holds only what the log brings back, so the next read needs a
    // stage.
    let store = Embedded::open(folder.path()).unwrap();
    let client = client(&store);
    assert_eq!(client.get("c").unwrap(), None);
    // A stage counts an event only after it has handed on the answer, so the count may be late.
    wait_for(|| handled(&store, "read") == 1);
}

/// A closure may fail because of stale values in the client's cache. Its transaction is tried again
/// then.
#[test]
fn error_of_a_closure_is_returned_only_if_what_it_read_was_so() {
    let _limit = Limit::of(120, "answer of the engine");
    let store = Embedded::in_memory().unwrap();
    let (caching, other) =
        (store.client(ClientOptions { cache_items: 100, ..ClientOptions::default() }), client(&store));
    caching.put("a", "old").unwrap();
    for (round, new) in ["new", "newer"].into_iter().enumerate() {
        other.put("a", new).unwrap();
        let mut calls = 0;
        let expected = caching.transact(|tranx| {
            calls += 1;
            tranx.put("b", new)?;
            match tranx.get("a")? {
                Some(value) if value == new => Ok(()),
                found => Err(Error::Aborted(format!("{found:?}"))),
            }
        });
        expected.unwrap();
        assert_eq!(calls, 2, "round {round}: it has not read what was out of date");
    }
}

#[test]
fn error_of_a_closure_is_returned_and_nothing_written_if_what_it_read_is_so() {
    let _limit = Limit::of(120, "answer of the engine");
    let store = Embedded::in_memory().unwrap();
    let client = client(&store);
    client.put("a", "1").unwrap();
    for name in ["a", "absent"] {
        let mut calls = 0;
        let given_up: Result<(), Error> = client.transact(|tranx| {
            calls += 1;
            tranx.put("b", "2")?;
            let found = tranx.get(name)?;
            tranx.scan_prefix("a", 10)?;
            Err(Error::Aborted(format!("{found:?}")))
        });
        assert!(matches!(given_up, Err(Error::Aborted(_))), "{given_up:?}");
        assert_eq!((calls, client.get("b").unwrap()), (1, None));
    }
    // A closure without reads has nothing to validate, so its error is returned at once.
    let too_long = client.transact(|tranx| tranx.put(vec![0; 1 << 20], "x"));
    assert!(matches!(too_long, Err(Error::Limit(_))), "{too_long:?}");
}

#[test]
fn error_of_a_closure_whose_reads_are_never_so_is_not_returned() {
    let _limit = Limit::of(120, "answer of the engine");
    let store = Embedded::in_memory().unwrap();
    let (hasty, other) = (store.client(ClientOptions { attempts: 3, ..ClientOptions::default() }), client(&store));
    let mut round = 0_u8;
    let given_up: Result<(), Error> = hasty.transact(|tranx| {
        tranx.get("a")?;
        round += 1;
        other.put("a", vec![round])?;
        Err(Error::Aborted("no".to_owned()))
    });
    assert!(matches!(given_up, Err(Error::GivenUp { attempts: 3, .. })), "{given_up:?}");
}
