//! The client's cache (section 4.1): what transactions committed and what refusals brought along.
//! It need not be up to date: whatever is read from it is checked at the commit.

use quick_cache::sync::Cache as QuickCache;

use super::Generation;
use crate::core::{Current, Item, Key, TranxId, Value};

/// Items by key, each with the stores that it is of. Without room it holds nothing, and no lookup
/// reaches it.
pub(super) struct Cache {
    items: Option<QuickCache<Key, (Generation, Option<Item>)>>,
}

impl Cache {
    pub(super) fn new(items: usize) -> Self {
        Self { items: (items > 0).then(|| QuickCache::new(items)) }
    }

    /// Item of a key, or its absence, in the stores of this generation.
    pub(super) fn get(&self, generation: Generation, key: &Key) -> Option<Option<Item>> {
        let (of, item) = self.items.as_ref()?.get(key)?;
        (of == generation).then_some(item)
    }

    /// Takes over a committed transaction: its reads were current, and its writes are now.
    pub(super) fn committed<'a>(
        &self,
        generation: Generation,
        reads: impl Iterator<Item = (&'a Key, &'a Option<Item>)>,
        writes: impl Iterator<Item = (&'a Key, &'a Option<Value>)>,
        version: Option<TranxId>,
    ) {
        let Some(items) = &self.items else { return };
        reads.for_each(|(key, item)| items.insert(key.clone(), (generation, item.clone())));
        let Some(version) = version else { return };
        for (key, value) in writes {
            items.insert(key.clone(), (generation, value.clone().map(|value| Item { value, version })));
        }
    }

    /// Drops the reads of a refused transaction, which may be stale, and takes over the current
    /// items that the server has sent.
    pub(super) fn refused<'a>(
        &self,
        generation: Generation,
        reads: impl Iterator<Item = &'a Key>,
        current: &[Current],
    ) {
        let Some(items) = &self.items else { return };
        reads.for_each(|key| drop(items.remove(key)));
        current.iter().for_each(|now| items.insert(now.key.clone(), (generation, now.item.clone())));
    }
}
