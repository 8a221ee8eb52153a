//! How much of a storage is in memory at once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::core::item::MAX_VALUE_BYTES;
use crate::core::{Epoch, ServerId, Value};

const ITEMS: usize = 40;

/// A storage with many large items, which notes how much it is asked for.
struct Watched {
    items: InMemory,
    gets: AtomicUsize,
    /// The most bytes of one scan.
    scanned: AtomicUsize,
}

impl Watched {
    fn new() -> Self {
        let (items, value) = (InMemory::new(), Value::new(vec![7; MAX_VALUE_BYTES]).unwrap());
        let writes = keys().into_iter().map(|key| Write { key, value: Some(value.clone()) });
        items.apply(&[(version(1), writes.collect())]).unwrap();
        Self { items, gets: AtomicUsize::new(0), scanned: AtomicUsize::new(0) }
    }
}

fn keys() -> Vec<Key> {
    (0..ITEMS).map(|number| Key::new(format!("{number:04}")).unwrap()).collect()
}

fn version(number: u64) -> TranxId {
    TranxId { server: ServerId(1), number }
}

impl Storage for Watched {
    fn get(&self, key: &Key) -> Result<Option<Item>> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.items.get(key)
    }

    fn cached(&self, key: &Key) -> Option<Option<Item>> {
        self.items.cached(key)
    }

    fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<Found> {
        let found = self.items.scan(range, limit)?;
        let bytes = found.items.iter().map(|(_, item)| item.value.as_bytes().len()).sum();
        self.scanned.fetch_max(bytes, Ordering::Relaxed);
        Ok(found)
    }

    fn apply(&self, commits: &[(TranxId, Vec<Write>)]) -> Result<()> {
        self.items.apply(commits)
    }

    fn persist(&self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn check_of_a_scan_compares_large_items_page_by_page() {
    let storage = Watched::new();
    let check = |found: Vec<(Key, TranxId)>, range: KeyRange| {
        storage.check(&[], &[ScanRead { range, found }]).unwrap().stale_scans
    };
    let all: Vec<_> = keys().into_iter().map(|key| (key, version(1))).collect();
    assert!(!check(all.clone(), KeyRange::all()));
    assert!(storage.scanned.load(Ordering::Relaxed) <= CHECK_PAGE_BYTES + MAX_VALUE_BYTES);
    // One is not there any more, there is another one, the last one has changed.
    let more = Key::new("9").unwrap();
    assert!(check([&all[..], &[(more.clone(), version(1))]].concat(), KeyRange::all()));
    assert!(check(all[..ITEMS - 1].to_vec(), KeyRange::all()));
    assert!(!check(all[..ITEMS - 1].to_vec(), KeyRange::until(Key::smallest(), all[ITEMS - 1].0.clone())));
    storage.apply(&[(version(2), vec![Write { key: all[ITEMS - 1].0.clone(), value: None }])]).unwrap();
    assert!(check(all.clone(), KeyRange::all()) && !check(all[..ITEMS - 1].to_vec(), KeyRange::all()));
}

#[test]
fn get_of_a_snapshot_reads_no_more_values_than_one_answer_has() {
    let (storage, limits) = (Watched::new(), HistoryLimits { window_ms: 1000, bytes: 1 << 20 });
    let got = History::new(limits, Epoch(5)).get(&storage, Epoch(5), &keys(), 8 << 20).unwrap().unwrap();
    assert_eq!((got.len(), storage.gets.load(Ordering::Relaxed)), (9, 9));
}
