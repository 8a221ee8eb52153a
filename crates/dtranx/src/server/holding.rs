//! What this server holds, for reads that take no locks: by the map in its items, as they are now
//! or were at a snapshot.

use std::sync::{Arc, Mutex, PoisonError};

use crate::core::{Epoch, Item, Key, KeyRange, Map, Moved, Partition, ServerId, TranxId};
use crate::storage::{self, History, Storage, StorageError, TooOld};

/// Map of one server, as its items have it.
pub(super) struct Holding {
    me: ServerId,
    configured: Arc<Map>,
    partition: Partition,
    /// The map that was read last, by the version of its item.
    last: Mutex<Option<(TranxId, Arc<Map>)>>,
}

impl Holding {
    pub(super) fn new(me: ServerId, partition: &Partition) -> Self {
        let configured = Arc::new(Map::from(partition));
        Self { me, configured, partition: partition.clone(), last: Mutex::new(None) }
    }

    /// Place of the first of these keys that this server does not hold now.
    ///
    /// # Errors
    /// The items cannot be read, or the map is damaged.
    pub(super) fn elsewhere(&self, storage: &dyn Storage, keys: &[Key]) -> storage::Result<Option<Moved>> {
        if self.is_fixed() {
            return Ok(None);
        }
        let map = self.read(storage.get(&Key::of_map())?.as_ref())?;
        Ok(self.missing(&map, keys))
    }

    /// As [`Holding::elsewhere`], if the map is known without waiting for a disk.
    pub(super) fn elsewhere_cached(&self, storage: &dyn Storage, keys: &[Key]) -> Option<Option<Moved>> {
        if self.is_fixed() {
            return Some(None);
        }
        let map = self.read(storage.cached(&Key::of_map())?.as_ref()).ok()?;
        Some(self.missing(&map, keys))
    }

    /// Place of the first part of the range that this server does not hold now.
    ///
    /// # Errors
    /// As for [`Holding::elsewhere`].
    pub(super) fn range_elsewhere(&self, storage: &dyn Storage, range: &KeyRange) -> storage::Result<Option<Moved>> {
        if self.is_fixed() {
            return Ok(None);
        }
        let map = self.read(storage.get(&Key::of_map())?.as_ref())?;
        Ok(self.missing_range(&map, range))
    }

    /// The map as of the end of an epoch.
    ///
    /// # Errors
    /// As for [`Holding::elsewhere`]; the inner error: the snapshot is too old.
    pub(super) fn map_at(
        &self,
        storage: &dyn Storage,
        history: &History,
        epoch: Epoch,
    ) -> storage::Result<Result<Arc<Map>, TooOld>> {
        if self.is_fixed() {
            return Ok(Ok(self.configured.clone()));
        }
        match history.get(storage, epoch, &[Key::of_map()], usize::MAX)? {
            Ok(items) => self.read(items.first().and_then(Option::as_ref)).map(Ok),
            Err(old) => Ok(Err(old)),
        }
    }

    /// Place of the first of these keys that this server does not hold by the map.
    pub(super) fn missing(&self, map: &Map, keys: &[Key]) -> Option<Moved> {
        if self.is_fixed() {
            return None;
        }
        let is_elsewhere = |key: &&Key| **key != Key::of_map() && map.server_of(key) != self.me;
        keys.iter().find(is_elsewhere).map(|key| map.around(key))
    }

    /// Place of the first part of the range that this server does not hold by the map.
    pub(super) fn missing_range(&self, map: &Map, range: &KeyRange) -> Option<Moved> {
        if self.is_fixed() {
            return None;
        }
        let (part, _) = map.pieces(range).into_iter().find(|(_, holder)| *holder != self.me)?;
        Some(map.around(&part.start))
    }

    /// Returns true if no range ever moves.
    fn is_fixed(&self) -> bool {
        matches!(*self.configured, Map::Hash(_))
    }

    fn read(&self, item: Option<&Item>) -> storage::Result<Arc<Map>> {
        let Some(item) = item else { return Ok(self.configured.clone()) };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, map)) = &*last
            && *version == item.version
        {
            return Ok(map.clone());
        }
        let damaged = |what| StorageError::Damaged { key: Key::of_map().as_bytes().to_vec(), what };
        let map = Arc::new(Map::stored(Some(item), &self.partition).map_err(damaged)?);
        *last = Some((item.version, map.clone()));
        Ok(map)
    }
}
