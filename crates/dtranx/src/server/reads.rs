//! Reads of clients: keys that are in the cache are answered at once (section 4.1), the rest is for
//! the read stage.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::event::ReadFor;
use super::holding::Holding;
use super::stats::ServerStats;
use crate::core::{ClientId, Item, Key, transaction::MAX_TRANSACTION_ITEMS};
use crate::stage::Inlet;
use crate::storage::{Storage, StorageError};
use crate::wire::{Ask, FRAME_LIMIT_BYTES, Reply};

/// Limit of one answer, in bytes of keys and values: a frame has room for that and one item more.
pub(super) const ANSWER_LIMIT_BYTES: usize = FRAME_LIMIT_BYTES / 2;

/// The way that reads take.
pub(super) struct Reads {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) holding: Holding,
    pub(super) queue: Inlet<ReadFor>,
    pub(super) stats: Arc<ServerStats>,
}

impl Reads {
    /// Hands a read on to the read stage.
    ///
    /// # Errors
    /// No errors, but an answer at once: from the cache, or a refusal for want of room.
    pub(super) fn ask(&self, client: ClientId, id: u64, ask: Ask) -> Result<(), Reply> {
        if let Ask::Get(keys) = &ask
            && let Some(reply) = cached(&*self.storage, keys)
            && let Some(elsewhere) = self.holding.elsewhere_cached(&*self.storage, keys)
        {
            self.stats.cached_reads.fetch_add(1, Ordering::Relaxed);
            return Err(elsewhere.map_or(reply, Reply::NotHere));
        }
        let full = |_| Reply::Refused("the server is at its limit: reads that wait".to_owned());
        self.queue.offer(ReadFor { client, id, ask }).map_err(full)
    }
}

/// Answer with the values of keys, unless it is too large.
pub(super) fn within_limit(items: Vec<Option<Item>>) -> Reply {
    let bytes: usize = items.iter().flatten().map(|item| item.value.as_bytes().len()).sum();
    if bytes > ANSWER_LIMIT_BYTES {
        return Reply::Refused(format!("more than {ANSWER_LIMIT_BYTES} bytes at once; read fewer keys"));
    }
    Reply::Values(items)
}

/// Answer from the storage. It may wait for a disk.
pub(super) fn stored(storage: &dyn Storage, holding: &Holding, keys: &[Key]) -> Reply {
    let refused = |error: StorageError| Reply::Refused(error.to_string());
    let found = gather(keys, |key| storage.get(key).map_err(refused));
    let found = found.unwrap_or_else(|refused| refused);
    match holding.elsewhere(storage, keys) {
        Ok(elsewhere) => elsewhere.map_or(found, Reply::NotHere),
        Err(error) => refused(error),
    }
}

/// Answer from the cache, without waiting; `None` when it is not all there.
fn cached(storage: &dyn Storage, keys: &[Key]) -> Option<Reply> {
    match gather(keys, |key| storage.cached(key).ok_or(None)) {
        Ok(reply) => Some(reply),
        Err(refused) => refused,
    }
}

fn gather<E: From<Reply>>(keys: &[Key], find: impl Fn(&Key) -> Result<Option<Item>, E>) -> Result<Reply, E> {
    let refused = |why: String| Err(E::from(Reply::Refused(why)));
    if keys.len() > MAX_TRANSACTION_ITEMS {
        return refused(format!("{} keys at once; the limit is {MAX_TRANSACTION_ITEMS}", keys.len()));
    }
    let (mut items, mut bytes) = (Vec::with_capacity(keys.len()), 0);
    for key in keys {
        let item = find(key)?;
        bytes += item.as_ref().map_or(0, |item| item.value.as_bytes().len());
        if bytes > ANSWER_LIMIT_BYTES {
            return refused(format!("more than {ANSWER_LIMIT_BYTES} bytes at once; read fewer keys"));
        }
        items.push(item);
    }
    Ok(Reply::Values(items))
}
