//! A write-through cache of items in front of a storage (section 4.1); absent keys are cached too.
//!
//! The danger of such a cache is a reader that puts in what it read *before* a writer changed it. A reader therefore
//! reserves the place first; a writer's value takes the place over, and what the reader brings then is not put in.

use std::time::Duration;

use quick_cache::sync::{Cache as QuickCache, GuardResult};
use quick_cache::{DefaultHashBuilder, Weighter};

use super::Result;
use crate::core::{Item, Key};

/// What an entry costs beside its bytes, about.
const ENTRY_BYTES: u64 = 128;

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Option<Item>> for ByBytes {
    fn weight(&self, key: &Key, item: &Option<Item>) -> u64 {
        let value = item.as_ref().map_or(0, |item| item.value.as_bytes().len());
        ENTRY_BYTES + (key.as_bytes().len() + value) as u64
    }
}

/// Items by key, of bounded size.
pub(super) struct Cache {
    cache: QuickCache<Key, Option<Item>, ByBytes, DefaultHashBuilder>,
}

impl Cache {
    /// A cache of about so many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let entries = (bytes / (2 * ENTRY_BYTES)).max(16) as usize;
        Self { cache: QuickCache::with_weighter(entries, bytes, ByBytes) }
    }

    /// What the cache has, or what `read` finds, which is put in unless somebody wrote the key meanwhile.
    pub(super) fn get(&self, key: &Key, read: impl FnOnce() -> Result<Option<Item>>) -> Result<Option<Item>> {
        match self.cache.get_value_or_guard(key, Some(Duration::ZERO)) {
            GuardResult::Value(item) => Ok(item),
            GuardResult::Guard(place) => {
                let item = read()?;
                // Refused when a writer was faster: what we read may be what it replaced.
                let _ = place.insert(item.clone());
                Ok(item)
            }
            // Somebody else is reading it: no reason to wait.
            GuardResult::Timeout => read(),
        }
    }

    /// After the storage has it: what the key holds now.
    pub(super) fn put(&self, key: Key, item: Option<Item>) {
        self.cache.insert(key, item);
    }
}
