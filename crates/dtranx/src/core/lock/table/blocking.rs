//! The transactions that stand in the way of a request: rules 1 and 2 of the table. Nothing is
//! changed here.

use super::{LockTable, Waiter};
use crate::core::lock::entry::Entry;
use crate::core::wanted::Locks;
use crate::core::{id::WorkId, item::Key, range::KeyRange, refusal::Refusal, standing::Place};

impl LockTable {
    /// Returns true if rule 1 makes the request wait. Locks that `kept` holds count as the
    /// request's own.
    pub(in crate::core::lock) fn is_blocked(&self, place: Place, locks: &Locks, kept: Option<WorkId>) -> bool {
        let mine = |work: WorkId| work == place.work || Some(work) == kept;
        let is_shared = |key: &Key| {
            let Some(entry) = self.keys.get(key) else { return false };
            entry.exclusive.is_some_and(|holder| !mine(holder))
                || !entry.is_held(kept, false) && entry.is_wanted_exclusively_before(place)
        };
        let is_exclusive = |key: &Key| {
            let holds_it = self.keys.get(key).is_some_and(|entry| entry.is_held(kept, true));
            let by_key = self.keys.get(key).is_some_and(|entry| {
                entry.exclusive.is_some_and(|holder| !mine(holder))
                    || entry.shared.iter().any(|holder| !mine(*holder))
                    || !holds_it && entry.is_wanted_before(place)
            });
            by_key || self.is_ranged(place, key, mine, holds_it)
        };
        let is_range = |range: &KeyRange| {
            let holds_it = kept.and_then(|kept| self.ranges.get(&kept)).is_some_and(|ranges| ranges.cover(range));
            range.bounds().is_some_and(|bounds| {
                self.keys.range(bounds).any(|(_, entry)| {
                    entry.exclusive.is_some_and(|holder| !mine(holder))
                        || !holds_it && entry.is_wanted_exclusively_before(place)
                })
            })
        };
        locks.shared.iter().any(is_shared)
            || locks.exclusive.iter().any(is_exclusive)
            || locks.ranges.iter().any(is_range)
    }

    /// A key among those to be read that another transaction holds exclusively, or that a request
    /// before this one wants exclusively.
    pub(super) fn unreadable(&self, place: Place, locks: &Locks, kept: Option<WorkId>) -> Option<Key> {
        let is_kept = |key: &Key| self.keys.get(key).is_some_and(|entry| entry.is_held(kept, false));
        let is_closed = |key: &&Key| {
            self.keys.get(*key).is_some_and(|entry| {
                entry.exclusive.is_some_and(|holder| holder != place.work && Some(holder) != kept)
                    || !is_kept(key) && entry.is_wanted_exclusively_before(place)
            })
        };
        let within = || {
            locks
                .ranges
                .iter()
                .filter_map(KeyRange::bounds)
                .find_map(|bounds| self.keys.range(bounds).map(|(key, _)| key).find(is_closed))
        };
        locks.shared.iter().find(is_closed).or_else(within).cloned()
    }

    /// Returns true if the key lies in a range that another transaction holds or an older request
    /// waits for.
    pub(super) fn is_ranged(&self, place: Place, key: &Key, mine: impl Fn(WorkId) -> bool, holds_it: bool) -> bool {
        let is_wanted = |older: &Place| self.waiting.get(older).is_some_and(|waiter| waiter.locks.ranges.contains(key));
        self.ranges.iter().any(|(holder, ranges)| !mine(*holder) && ranges.contains(key))
            || !holds_it && self.ranged.range(..place).any(is_wanted)
    }

    /// Refusal for rule 2 if an older holder or waiter blocks the request. The refusal names the
    /// contested key that has been unchanged for longest; the second value is the time of its last
    /// change.
    pub(super) fn elder(&self, place: Place, Waiter { locks, since_ms, .. }: &Waiter) -> Option<(Refusal, u64)> {
        let is_older = |work: &WorkId| {
            *work != place.work
                && self.held.get(work).is_some_and(|held| (held.since_ms, *work) < (*since_ms, place.work))
        };
        let mut found: Option<(Refusal, u64)> = None;
        let mut note = |entry: &Entry, is_elder: bool, why: Refusal| {
            if is_elder && found.as_ref().is_none_or(|(_, changed_ms)| entry.changed_ms < *changed_ms) {
                found = Some((why, entry.changed_ms));
            }
        };
        for key in &locks.shared {
            let Some(entry) = self.keys.get(key) else { continue };
            let is_elder = entry.exclusive.as_ref().is_some_and(is_older) || entry.is_wanted_exclusively_before(place);
            note(entry, is_elder, Refusal::ReadLocked { key: key.clone() });
        }
        for bounds in locks.ranges.iter().filter_map(KeyRange::bounds) {
            for (key, entry) in self.keys.range(bounds) {
                let is_elder =
                    entry.exclusive.as_ref().is_some_and(is_older) || entry.is_wanted_exclusively_before(place);
                note(entry, is_elder, Refusal::ReadLocked { key: key.clone() });
            }
        }
        for key in &locks.exclusive {
            let Some(entry) = self.keys.get(key) else { continue };
            let is_elder = entry.exclusive.iter().chain(&entry.shared).any(is_older)
                || entry.is_wanted_before(place)
                || self.is_ranged(place, key, |work| !is_older(&work), false);
            note(entry, is_elder, Refusal::WriteLocked { key: key.clone() });
        }
        found
    }

    /// A key in these ranges that another transaction holds exclusively, or wants exclusively
    /// before `place`.
    pub(in crate::core::lock) fn obstacle(&self, place: Place, ranges: &[KeyRange]) -> Option<Key> {
        let is_in_the_way = |(_, entry): &(&Key, &Entry)| {
            entry.exclusive.is_some_and(|holder| holder != place.work) || entry.is_wanted_exclusively_before(place)
        };
        let mut within = ranges.iter().filter_map(KeyRange::bounds);
        within.find_map(|bounds| self.keys.range(bounds).find(is_in_the_way)).map(|(key, _)| key.clone())
    }
}
