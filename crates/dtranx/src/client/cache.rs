//! The client's cache (section 4.1): what transactions committed and what refusals brought along.
//! It need not be up to date: whatever is read from it is checked at the commit.

use quick_cache::sync::Cache as QuickCache;

use crate::core::{Current, Item, Key, TranxId, Value};

/// Items by key. Without room it holds nothing, and no lookup reaches it.
pub(super) struct Cache {
    items: Option<QuickCache<Key, Option<Item>>>,
}

impl Cache {
    pub(super) fn new(items: usize) -> Self {
        Self { items: (items > 0).then(|| QuickCache::new(items)) }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Option<Item>> {
        self.items.as_ref().and_then(|items| items.get(key))
    }

    /// Takes over a committed transaction: its reads were current, and its writes are now.
    pub(super) fn committed<'a>(
        &self,
        reads: impl Iterator<Item = (&'a Key, &'a Option<Item>)>,
        writes: impl Iterator<Item = (&'a Key, &'a Option<Value>)>,
        version: Option<TranxId>,
    ) {
        let Some(items) = &self.items else { return };
        reads.for_each(|(key, item)| items.insert(key.clone(), item.clone()));
        let Some(version) = version else { return };
        for (key, value) in writes {
            items.insert(key.clone(), value.clone().map(|value| Item { value, version }));
        }
    }

    /// Drops the reads of a refused transaction, which may be stale, and takes over the current
    /// items that the server has sent.
    pub(super) fn refused<'a>(&self, reads: impl Iterator<Item = &'a Key>, current: &[Current]) {
        let Some(items) = &self.items else { return };
        reads.for_each(|key| drop(items.remove(key)));
        current.iter().for_each(|now| items.insert(now.key.clone(), now.item.clone()));
    }
}
