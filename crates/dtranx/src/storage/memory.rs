//! A storage in memory: for the embedded mode, simulations and measurements. It ends with the
//! process.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use super::{Found, Result, ScanLimit, Storage};
use crate::core::{Item, Key, KeyRange, TranxId, Write};

/// A storage that keeps all items in the memory of the process.
#[derive(Debug, Default)]
pub struct InMemory {
    items: RwLock<BTreeMap<Key, Item>>,
}

impl InMemory {
    /// Makes a storage without any item.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Storage for InMemory {
    fn get(&self, key: &Key) -> Result<Option<Item>> {
        Ok(self.items.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned())
    }

    fn cached(&self, key: &Key) -> Option<Option<Item>> {
        self.get(key).ok()
    }

    fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<Found> {
        let items = self.items.read().unwrap_or_else(PoisonError::into_inner);
        let Some(bounds) = range.bounds() else { return Ok(Found { items: Vec::new(), complete: true }) };
        let mut found = super::Gather::new(limit);
        for (key, item) in items.range::<Key, _>(bounds) {
            if !found.push(key.clone(), item.clone()) {
                return Ok(found.cut_off());
            }
        }
        Ok(found.complete())
    }

    fn apply(&self, commits: &[(TranxId, Vec<Write>)]) -> Result<()> {
        let mut items = self.items.write().unwrap_or_else(PoisonError::into_inner);
        for (version, write) in
            commits.iter().flat_map(|(version, writes)| writes.iter().map(|write| (*version, write)))
        {
            match &write.value {
                Some(value) => items.insert(write.key.clone(), Item { value: value.clone(), version }),
                None => items.remove(&write.key),
            };
        }
        Ok(())
    }

    fn persist(&self) -> Result<()> {
        Ok(())
    }
}
