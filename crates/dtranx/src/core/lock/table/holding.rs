//! Holders of locks: how locks are taken and dropped, and who goes on when they are.

use std::collections::BTreeSet;

use super::{Held, LockTable, WaitOver};
use crate::core::lock::entry::Entry;
use crate::core::wanted::Locks;
use crate::core::{id::WorkId, item::Key, range::KeyRange, standing::Place};

impl LockTable {
    pub(super) fn hold(&mut self, work: WorkId, locks: Locks, since_ms: u64, now_ms: u64) {
        for key in &locks.shared {
            let entry = self.keys.entry(key.clone()).or_default();
            entry.shared.insert(work);
            entry.changed_ms = now_ms;
        }
        for key in &locks.exclusive {
            let entry = self.keys.entry(key.clone()).or_default();
            entry.exclusive = Some(work);
            entry.changed_ms = now_ms;
        }
        if !locks.ranges.is_empty() {
            self.ranges.insert(work, locks.ranges.clone());
        }
        self.held.insert(work, Held { locks, since_ms, kept_until_ms: None });
    }

    /// Drops the locks of `work` and grants the probes that waited for them alone. Returns the
    /// dropped keys that requests wait for.
    pub(super) fn drop_held(&mut self, work: WorkId, now_ms: u64, over: &mut Vec<WaitOver>) -> Vec<Key> {
        let Some(held) = self.held.remove(&work) else { return Vec::new() };
        self.ranges.remove(&work);
        self.fences.remove(&work);
        if let Some(until_ms) = held.kept_until_ms {
            self.timers.remove(&(until_ms, work));
        }
        let touched = self.touched(&held.locks);
        for key in &held.locks.shared {
            self.change(key, |entry| {
                entry.shared.remove(&work);
                entry.changed_ms = now_ms;
            });
        }
        for key in &held.locks.exclusive {
            let mut seen = BTreeSet::new();
            self.change(key, |entry| {
                entry.exclusive.take_if(|holder| *holder == work);
                entry.changed_ms = now_ms;
                if entry.exclusive.is_none() {
                    seen = std::mem::take(&mut entry.probed);
                }
            });
            for probe in seen {
                self.has_seen_free(probe, key, over);
            }
        }
        touched
    }

    pub(super) fn change(&mut self, key: &Key, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.keys.get_mut(key) {
            change(entry);
            if entry.is_unused() {
                self.keys.remove(key);
            }
        }
    }

    /// Keys of these locks, and keys within their ranges, that requests wait for or that block
    /// ranges of waiters.
    pub(super) fn touched(&self, locks: &Locks) -> Vec<Key> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let is_wanted = |key: &&Key| self.keys.get(*key).is_some_and(Entry::is_awaited);
        let mut keys: Vec<Key> = locks.shared.iter().chain(&locks.exclusive).filter(is_wanted).cloned().collect();
        for bounds in locks.ranges.iter().filter_map(KeyRange::bounds) {
            let within = self.keys.range(bounds).filter(|(_, entry)| entry.is_awaited());
            keys.extend(within.map(|(key, _)| key.clone()));
        }
        keys
    }

    /// Waiters to look at when these keys become free: the first of each key's queue, and those
    /// whose ranges the keys blocked.
    pub(in crate::core::lock) fn concerned(&self, free: &[Key]) -> BTreeSet<Place> {
        let entries = || free.iter().filter_map(|key| self.keys.get(key));
        entries()
            .flat_map(Entry::first_waiters)
            .chain(entries().flat_map(|entry| entry.watched.iter().copied()))
            .collect()
    }

    /// Grants every request that waits for these keys, or for ranges around them, and is not
    /// blocked any more. One pass is enough, because a grant frees no key.
    pub(super) fn settle(&mut self, free: Vec<Key>, now_ms: u64, over: &mut Vec<WaitOver>) {
        for place in self.concerned(&free) {
            let Some(waiter) = self.waiting.get(&place) else { continue };
            if self.is_blocked(place, &waiter.locks, None) {
                self.watch(place);
            } else if let Some(waiter) = self.dequeue(place.work) {
                over.push(WaitOver::Granted(place.work));
                self.hold(place.work, waiter.locks, waiter.since_ms, now_ms);
            }
        }
    }
}
