//! A write-through cache of items in front of a storage (section 4.1); absent keys are cached too.
//!
//! The danger of such a cache is a reader that puts in what it read *before* a writer changed it. A
//! reader therefore reserves the place first; a writer's value takes the place over, or the writer
//! removes the place where its value is too heavy for it, and the reader's item is then not put in.

use std::time::Duration;

use quick_cache::sync::{Cache as QuickCache, GuardResult};
use quick_cache::{DefaultHashBuilder, Weighter};

use super::Result;
use crate::core::{Item, Key};

/// Cost of an entry beside its bytes, in bytes, about.
const ENTRY_BYTES: u64 = 128;

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Option<Item>> for ByBytes {
    fn weight(&self, key: &Key, item: &Option<Item>) -> u64 {
        let value = item.as_ref().map_or(0, |item| item.value.as_bytes().len());
        ENTRY_BYTES + (key.as_bytes().len() + value) as u64
    }
}

/// Items by key, of bounded size; without room every read goes to the storage.
pub(super) struct Cache {
    items: Option<QuickCache<Key, Option<Item>, ByBytes, DefaultHashBuilder>>,
    /// Weight from which on an item may be more than a part of the cache takes.
    heavy: u64,
}

impl Cache {
    /// A cache of about so many bytes; with 0 it holds nothing.
    pub(super) fn new(bytes: u64) -> Self {
        let entries = (bytes / (2 * ENTRY_BYTES)).max(16) as usize;
        let items = (bytes > 0).then(|| QuickCache::with_weighter(entries, bytes, ByBytes));
        // `quick_cache` lets an item have all of its part of the cache but some hundredths.
        let heavy = items.as_ref().map_or(0, |items| items.shard_capacity() / 2);
        Self { items, heavy }
    }

    /// Item in the cache, or else the one that `read` finds, which is put in unless the key was
    /// written meanwhile.
    pub(super) fn get(&self, key: &Key, read: impl FnOnce() -> Result<Option<Item>>) -> Result<Option<Item>> {
        let Some(items) = &self.items else { return read() };
        match items.get_value_or_guard(key, Some(Duration::ZERO)) {
            GuardResult::Value(item) => Ok(item),
            GuardResult::Guard(place) => {
                let item = read()?;
                // Refused when a writer was faster: what we read may be what it replaced.
                let _ = place.insert(item.clone());
                Ok(item)
            }
            // Another thread is reading it: no reason to wait.
            GuardResult::Timeout => read(),
        }
    }

    /// Item in the cache, if the key is known there.
    pub(super) fn find(&self, key: &Key) -> Option<Option<Item>> {
        self.items.as_ref()?.get(key)
    }

    /// Notes what the key holds now, after the storage has it.
    pub(super) fn put(&self, key: Key, item: Option<Item>) {
        let Some(items) = &self.items else { return };
        if ByBytes.weight(&key, &item) >= self.heavy {
            // `insert` does not take over the place that a reader has reserved if the item is too
            // heavy; to remove the key removes that, too.
            items.remove(&key);
        }
        items.insert(key, item);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::core::item::MAX_VALUE_BYTES;
    use crate::core::{ServerId, TranxId, Value};

    fn item(number: u64) -> Option<Item> {
        let version = TranxId { server: ServerId(1), number };
        Some(Item { value: Value::new(&b"value"[..]).unwrap(), version })
    }

    fn nothing_read() -> Result<Option<Item>> {
        panic!("it is in the cache")
    }

    #[test]
    fn get_reader_slower_than_a_writer_does_not_leave_its_value() {
        let (cache, key) = (Cache::new(1 << 20), Key::smallest());
        let read = cache.get(&key, || {
            // Between the reader's look at the storage and its return.
            cache.put(key.clone(), item(2));
            Ok(item(1))
        });
        assert_eq!(read.unwrap(), item(1));
        assert_eq!(cache.get(&key, nothing_read).unwrap(), item(2));
    }

    #[test]
    fn get_reader_slower_than_a_writer_of_what_is_too_heavy_does_not_leave_its_value() {
        let (cache, key) = (Cache::new(1 << 20), Key::smallest());
        let heavy = Item { value: Value::new(vec![7; MAX_VALUE_BYTES]).unwrap(), ..item(2).unwrap() };
        let read = cache.get(&key, || {
            cache.put(key.clone(), Some(heavy.clone()));
            Ok(item(1))
        });
        assert_eq!((read.unwrap(), cache.find(&key)), (item(1), None));
        assert_eq!(cache.get(&key, || Ok(Some(heavy.clone()))).unwrap(), Some(heavy.clone()));
    }

    #[test]
    fn get_second_reader_finds_what_the_first_brought_absence_too() {
        let (cache, key) = (Cache::new(1 << 20), Key::smallest());
        assert_eq!(cache.get(&key, || Ok(None)).unwrap(), None);
        assert_eq!(cache.get(&key, nothing_read).unwrap(), None);
    }

    #[test]
    fn get_without_room_reads_each_time() {
        let (cache, key) = (Cache::new(0), Key::smallest());
        cache.put(key.clone(), item(1));
        assert_eq!(cache.get(&key, || Ok(item(2))).unwrap(), item(2));
        assert_eq!(cache.get(&key, || Ok(item(3))).unwrap(), item(3));
    }
}
