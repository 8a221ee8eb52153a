//! Replaced items, for reads as of the end of an earlier epoch: kept in memory, for a time and up
//! to so many bytes.
//!
//! For each key, what it held before the first write of each epoch. So a read as of the end of an
//! epoch finds the first replacement after it, if there is one, and otherwise what the storage has.
//! The order is: what is replaced is kept before the storage is written; a reader reads the storage
//! before it looks here. So a reader that finds too new an item in the storage finds here what was
//! there before.
//!
//! Nothing is kept of epochs whose snapshots are not kept any more. In particular, nothing is kept
//! as long as no client requests snapshots: then it is the same epoch all the time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Gather, Result, ScanLimit, Storage};
use crate::core::range::KeyBound;
use crate::core::{Epoch, Item, Key, KeyRange, TranxId, Write};

/// Greatest number of replacements that one scan looks at: then it stops, as at its limit.
const LOOK_AT: usize = 16 * 1024;
/// Number of replacements that one call drops at most.
const DROP_AT_ONCE: usize = 4096;
/// Cost of a replacement beside its bytes, in bytes, about: its key is here twice.
const ENTRY_BYTES: u64 = 160;

/// Limits of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Time for which a snapshot can be read, from the first write after it on, in milliseconds.
    pub window_ms: u64,
    /// Bytes that all replacements may have.
    pub bytes: u64,
}

/// Replaced items, by key and epoch.
pub struct History {
    limits: HistoryLimits,
    state: Mutex<State>,
}

struct State {
    /// Snapshots from the end of this epoch on are kept.
    from: Epoch,
    why: Why,
    bytes: u64,
    replaced: BTreeMap<Key, VecDeque<(Epoch, Option<Item>)>>,
    epochs: BTreeMap<Epoch, Span>,
    /// Keys of epochs that are not kept any more.
    leaving: Vec<(Epoch, Key)>,
}

/// An epoch in which something was replaced.
struct Span {
    since_ms: u64,
    keys: Vec<Key>,
    bytes: u64,
}

#[derive(Clone, Copy)]
enum Why {
    Restart,
    Time,
    Bytes,
}

/// Reason why a snapshot cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooOld(pub String);

/// Result of a scan as of an earlier epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundAt {
    /// The items, in the order of their keys.
    pub items: Vec<(Key, Item)>,
    /// The last key that was looked at; `None`: the whole range was.
    pub through: Option<Key>,
}

impl History {
    /// A history that begins with the storage's items: it has snapshots from the end of this epoch
    /// on.
    pub fn new(limits: HistoryLimits, from: Epoch) -> Self {
        let state = State {
            from,
            why: Why::Restart,
            bytes: 0,
            replaced: BTreeMap::new(),
            epochs: BTreeMap::new(),
            leaving: Vec::new(),
        };
        Self { limits, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what these commits are going to replace; call it before the storage is written. The
    /// epochs are those of the commits, in order.
    ///
    /// # Errors
    /// The storage cannot be read.
    pub fn replace(
        &self,
        storage: &dyn Storage,
        commits: &[(TranxId, Vec<Write>)],
        epochs: &[Epoch],
        now_ms: u64,
    ) -> Result<()> {
        let from = self.lock().from;
        if epochs.iter().all(|epoch| *epoch <= from) {
            return Ok(());
        }
        for ((_, writes), epoch) in commits.iter().zip(epochs) {
            for write in writes {
                if !self.lock().is_new(&write.key, *epoch) {
                    continue;
                }
                // No other thread writes: the item stays until this has kept it.
                let item = storage.get(&write.key)?;
                self.lock().keep(write.key.clone(), *epoch, item, now_ms);
            }
        }
        self.expire(now_ms);
        Ok(())
    }

    /// Forgets what is older than the limits allow. Returns the bytes that are kept, and the first
    /// snapshot that can be read.
    pub fn expire(&self, now_ms: u64) -> (u64, Epoch) {
        let mut state = self.lock();
        while let Some((epoch, span)) = state.epochs.first_key_value() {
            let (epoch, is_old) = (*epoch, now_ms.saturating_sub(span.since_ms) >= self.limits.window_ms);
            if !is_old && state.bytes <= self.limits.bytes {
                break;
            }
            state.forget(epoch, if is_old { Why::Time } else { Why::Bytes });
        }
        state.drop_some();
        (state.bytes, state.from)
    }

    /// Items of keys at the end of an epoch: of the first keys, up to and with the one whose value
    /// makes them more than so many bytes.
    ///
    /// # Errors
    /// The storage cannot be read; the inner error: the snapshot is too old.
    pub fn get(
        &self,
        storage: &dyn Storage,
        epoch: Epoch,
        keys: &[Key],
        limit_bytes: usize,
    ) -> Result<Result<Vec<Option<Item>>, TooOld>> {
        let (mut items, mut bytes) = (Vec::with_capacity(keys.len()), 0);
        for key in keys {
            let mut item = storage.get(key)?;
            let state = self.lock();
            if self.too_old(&state, epoch).is_some() {
                break;
            }
            if let Some(replaced) = state.at(key, epoch) {
                item.clone_from(replaced);
            }
            bytes += item.as_ref().map_or(0, |item| item.value.as_bytes().len());
            items.push(item);
            if bytes > limit_bytes {
                break;
            }
        }
        Ok(self.too_old(&self.lock(), epoch).map_or(Ok(items), Err))
    }

    /// Items of a range at the end of an epoch, up to a limit.
    ///
    /// # Errors
    /// As for [`History::get`].
    pub fn scan(
        &self,
        storage: &dyn Storage,
        epoch: Epoch,
        range: &KeyRange,
        limit: ScanLimit,
    ) -> Result<Result<FoundAt, TooOld>> {
        let found = storage.scan_items(range, limit)?;
        let mut through = if found.complete { None } else { found.items.last().map(|(key, _)| key.clone()) };
        let mut items: BTreeMap<Key, Item> = found.items.into_iter().collect();
        let state = self.lock();
        if let Some(old) = self.too_old(&state, epoch) {
            return Ok(Err(old));
        }
        let looked_at = KeyRange {
            start: range.start.clone(),
            end: through.clone().map(KeyBound::Through).or_else(|| range.end.clone()),
        };
        if let Some(bounds) = looked_at.bounds() {
            for (at, (key, replaced)) in state.replaced.range::<Key, _>(bounds).enumerate() {
                match replaced.iter().find(|(written, _)| *written > epoch) {
                    _ if *key == Key::of_map() => {}
                    Some((_, Some(item))) => drop(items.insert(key.clone(), item.clone())),
                    Some((_, None)) => drop(items.remove(key)),
                    None => {}
                }
                if at + 1 == LOOK_AT {
                    through = Some(key.clone());
                    break;
                }
            }
        }
        drop(state);
        Ok(Ok(gather(items, through, limit)))
    }

    fn too_old(&self, state: &State, epoch: Epoch) -> Option<TooOld> {
        (epoch < state.from).then(|| match state.why {
            Why::Restart => TooOld("was restarted since".to_owned()),
            Why::Time => TooOld(format!("keeps them for {} ms (limits.snapshot_window_ms)", self.limits.window_ms)),
            Why::Bytes => {
                TooOld(format!("keeps {} MiB of what is replaced (limits.snapshot_mib)", self.limits.bytes >> 20))
            }
        })
    }
}

/// Items up to the key to which was looked, within the limit.
fn gather(items: BTreeMap<Key, Item>, through: Option<Key>, limit: ScanLimit) -> FoundAt {
    let mut found = Gather::new(limit);
    for (key, item) in items {
        if through.as_ref().is_some_and(|last| key > *last) {
            break;
        }
        if !found.push(key, item) {
            let found = found.cut_off();
            let through = found.items.last().map(|(key, _)| key.clone());
            return FoundAt { items: found.items, through };
        }
    }
    FoundAt { items: found.complete().items, through }
}

impl State {
    /// Returns true if this is the first write to the key in the epoch, and there is a snapshot
    /// before it.
    fn is_new(&self, key: &Key, epoch: Epoch) -> bool {
        let last = self.replaced.get(key).and_then(|replaced| replaced.back());
        epoch > self.from && last.is_none_or(|(written, _)| *written < epoch)
    }

    fn keep(&mut self, key: Key, epoch: Epoch, item: Option<Item>, now_ms: u64) {
        let bytes = cost(&key, item.as_ref());
        let none = || Span { since_ms: now_ms, keys: Vec::new(), bytes: 0 };
        let span = self.epochs.entry(epoch).or_insert_with(none);
        span.keys.push(key.clone());
        span.bytes += bytes;
        self.bytes += bytes;
        self.replaced.entry(key).or_default().push_back((epoch, item));
    }

    /// Stops keeping snapshots before the end of this epoch. Their items are dropped step by step.
    fn forget(&mut self, epoch: Epoch, why: Why) {
        let Some(span) = self.epochs.remove(&epoch) else { return };
        self.from = self.from.max(epoch);
        self.why = why;
        self.bytes -= span.bytes;
        self.leaving.extend(span.keys.into_iter().map(|key| (epoch, key)));
    }

    fn drop_some(&mut self) {
        let kept = self.leaving.len().saturating_sub(DROP_AT_ONCE);
        for (epoch, key) in self.leaving.split_off(kept) {
            let Some(replaced) = self.replaced.get_mut(&key) else { continue };
            replaced.retain(|(written, _)| *written != epoch);
            if replaced.is_empty() {
                self.replaced.remove(&key);
            }
        }
    }

    fn at(&self, key: &Key, epoch: Epoch) -> Option<&Option<Item>> {
        let replaced = self.replaced.get(key)?.iter().find(|(written, _)| *written > epoch);
        replaced.map(|(_, item)| item)
    }
}

fn cost(key: &Key, item: Option<&Item>) -> u64 {
    ENTRY_BYTES + (2 * key.as_bytes().len() + item.map_or(0, |item| item.value.as_bytes().len())) as u64
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::core::{ServerId, Value};
    use crate::storage::InMemory;

    const LIMITS: HistoryLimits = HistoryLimits { window_ms: 1000, bytes: 1 << 20 };
    const MANY: ScanLimit = ScanLimit { items: 100, bytes: 1 << 20 };

    struct Store {
        items: InMemory,
        history: History,
        last: u64,
    }

    impl Store {
        fn new(limits: HistoryLimits) -> Self {
            Self { items: InMemory::new(), history: History::new(limits, Epoch(5)), last: 0 }
        }

        /// Writes some keys, each with a text or none, in an epoch.
        fn write(&mut self, epoch: u64, now_ms: u64, writes: &[(&'static str, Option<&'static str>)]) {
            self.last += 1;
            let write = |(name, value): &(&'static str, Option<&'static str>)| Write {
                key: key(name),
                value: value.map(|text| Value::new(text).unwrap()),
            };
            let version = TranxId { server: ServerId(1), number: self.last };
            let commits = [(version, writes.iter().map(write).collect())];
            self.history.replace(&self.items, &commits, &[Epoch(epoch)], now_ms).unwrap();
            self.items.apply(&commits).unwrap();
        }

        fn scan(&self, epoch: u64, limit: usize) -> (Vec<(String, String)>, Option<Key>) {
            let limit = ScanLimit { items: limit, ..MANY };
            let found = self.history.scan(&self.items, Epoch(epoch), &KeyRange::all(), limit).unwrap().unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let items = found.items.iter().map(|(key, item)| (text(key.as_bytes()), text(item.value.as_bytes())));
            (items.collect(), found.through)
        }

        fn all(&self, epoch: u64) -> String {
            let (items, through) = self.scan(epoch, 100);
            assert_eq!(through, None);
            for (name, value) in &items {
                let keys = [Key::new(name.clone()).unwrap()];
                let got = self.history.get(&self.items, Epoch(epoch), &keys, usize::MAX).unwrap().unwrap();
                assert_eq!(got[0].as_ref().unwrap().value.as_bytes(), value.as_bytes());
            }
            items.iter().map(|(key, value)| format!("{key}={value} ")).collect()
        }
    }

    fn key(name: &'static str) -> Key {
        Key::new(name).unwrap()
    }

    fn four_epochs() -> Store {
        let mut store = Store::new(LIMITS);
        store.write(5, 0, &[("a", Some("1")), ("b", Some("1"))]);
        store.write(6, 10, &[("a", Some("2")), ("c", Some("2"))]);
        store.write(6, 11, &[("a", Some("3")), ("b", None)]);
        store.write(8, 20, &[("b", Some("4")), ("c", None)]);
        store
    }

    #[test]
    fn each_epoch_is_seen_as_it_ended() {
        let store = four_epochs();
        let seen: Vec<String> = (5..9).map(|epoch| store.all(epoch)).collect();
        assert_eq!(seen, ["a=1 b=1 ", "a=3 c=2 ", "a=3 c=2 ", "a=3 b=4 "]);
    }

    #[test]
    fn get_stops_where_the_values_are_more_than_the_limit() {
        let store = four_epochs();
        let keys = ["a", "b", "c"].map(key);
        let got = |epoch, bytes| store.history.get(&store.items, Epoch(epoch), &keys, bytes).unwrap().unwrap().len();
        assert_eq!([got(5, 0), got(5, 1), got(5, 2), got(8, 0), got(8, 1), got(8, 2)], [1, 2, 3, 1, 2, 3]);
    }

    #[test]
    fn scan_stops_at_its_limit_with_what_was_deleted_counted() {
        let mut store = Store::new(LIMITS);
        store.write(5, 0, &[("a", Some("1")), ("b", Some("1")), ("c", Some("1")), ("d", Some("1"))]);
        store.write(6, 1, &[("a", None), ("b", None), ("e", Some("2"))]);
        let (items, through) = store.scan(5, 3);
        assert_eq!((items.len(), through), (3, Some(key("c"))));
        // Everything that the storage has is newer: nothing is found, but it was looked at.
        store.write(6, 1, &[("c", None), ("d", None), ("f", Some("2")), ("g", Some("2"))]);
        let rest = KeyRange { start: key("e"), end: None };
        let limit = ScanLimit { items: 2, ..MANY };
        let found = store.history.scan(&store.items, Epoch(5), &rest, limit).unwrap().unwrap();
        assert_eq!(found, FoundAt { items: vec![], through: Some(key("f")) });
    }

    #[test]
    fn nothing_is_kept_of_the_epoch_that_it_began_in() {
        let mut store = Store::new(LIMITS);
        for round in 0..10 {
            store.write(5, round, &[("a", Some("x"))]);
        }
        assert_eq!(store.history.expire(10), (0, Epoch(5)));
        assert!(store.history.lock().replaced.is_empty());
    }

    #[test]
    fn snapshots_end_with_time_and_with_bytes_and_say_which() {
        let too_old =
            |store: &Store, epoch| store.history.get(&store.items, Epoch(epoch), &[], 0).unwrap().unwrap_err().0;
        let store = four_epochs();
        assert_eq!(too_old(&store, 4), "was restarted since");
        assert_eq!(store.history.expire(1009).1, Epoch(5));
        let (bytes, from) = store.history.expire(1010);
        assert_eq!((from, store.all(6), store.all(8)), (Epoch(6), "a=3 c=2 ".to_owned(), "a=3 b=4 ".to_owned()));
        assert!(too_old(&store, 5).contains("snapshot_window_ms") && bytes > 0);
        assert_eq!(store.history.expire(1020), (0, Epoch(8)));
        assert!(store.history.lock().replaced.is_empty());
        let mut store = Store::new(HistoryLimits { bytes: 2 * ENTRY_BYTES, ..LIMITS });
        store.write(6, 0, &[("a", Some("1"))]);
        assert_eq!(store.all(5), "");
        store.write(7, 0, &[("a", Some("2")), ("b", Some("2"))]);
        assert!(too_old(&store, 6).contains("snapshot_mib"), "even of this epoch");
        assert_eq!(store.all(7), "a=2 b=2 ");
    }
}
