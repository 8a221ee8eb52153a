//! Requests in the queues of their keys: how they enter, are looked at while they wait, and leave.

use super::{LockTable, MAX_KEY_WAITERS, MAX_WAITERS, Times, WaitOver, Waiter, key_limit, share};
use crate::core::wanted::Locks;
use crate::core::{id::WorkId, item::Key, refusal::Refusal, standing::Place};

impl LockTable {
    /// Refuses a waiter that has reached a limit of its wait, or sets its next timer.
    pub(super) fn look_at(&mut self, place: Place, times: Times, over: &mut Vec<WaitOver>) {
        let Some(waiter) = self.waiting.get(&place) else { return };
        if waiter.deadline_ms <= times.now_ms {
            over.push(WaitOver::Refused(place.work, Refusal::LockWaitExpired));
            return self.leave(place.work, times.now_ms, over);
        }
        let elder = if waiter.is_alone { None } else { self.elder(place, waiter) };
        let next_ms = match elder {
            Some((refusal, changed_ms)) if changed_ms.saturating_add(times.patience_ms) <= times.now_ms => {
                over.push(WaitOver::Refused(place.work, refusal));
                return self.leave(place.work, times.now_ms, over);
            }
            Some((_, changed_ms)) => changed_ms,
            None => times.now_ms,
        };
        let timer_ms = next_ms.saturating_add(times.patience_ms).min(waiter.deadline_ms);
        if let Some(waiter) = self.waiting.get_mut(&place) {
            waiter.timer_ms = timer_ms;
            self.timers.insert((timer_ms, place.work));
        }
    }

    pub(super) fn full_table(&self, is_of_peer: bool) -> Option<String> {
        let most = share(MAX_WAITERS, is_of_peer);
        (self.waiting() >= most).then(|| format!("{most} waits for locks"))
    }

    pub(super) fn full_queue(&self, locks: &Locks, is_of_peer: bool) -> Option<String> {
        let most = share(MAX_KEY_WAITERS, is_of_peer);
        let is_full = |key: &Key| self.keys.get(key).is_some_and(|entry| entry.wanted.len() >= most);
        let is_any_full = || locks.shared.iter().chain(&locks.exclusive).any(is_full).then(|| key_limit(most));
        self.full_table(is_of_peer).or_else(is_any_full)
    }

    pub(super) fn enqueue(&mut self, place: Place, waiter: Waiter) {
        for (keys, is_exclusive) in [(&waiter.locks.shared, false), (&waiter.locks.exclusive, true)] {
            for key in keys {
                self.keys.entry(key.clone()).or_default().wanted.insert(place, is_exclusive);
            }
        }
        if !waiter.locks.ranges.is_empty() {
            self.ranged.insert(place);
        }
        self.places.insert(place.work, place);
        self.timers.insert((waiter.timer_ms, place.work));
        self.waiting.insert(place, waiter);
        self.watch(place);
    }

    /// Notes one key that blocks a waiter's ranges, so that a change of the key wakes the waiter.
    pub(super) fn watch(&mut self, place: Place) {
        let Some(waiter) = self.waiting.get(&place).filter(|waiter| !waiter.locks.ranges.is_empty()) else { return };
        let watches = self.obstacle(place, &waiter.locks.ranges);
        let before = waiter.watches.clone();
        if watches == before {
            return;
        }
        if let Some(key) = before {
            self.change(&key, |entry| {
                entry.watched.remove(&place);
            });
        }
        if let Some(key) = &watches {
            self.change(key, |entry| {
                entry.watched.insert(place);
            });
        }
        if let Some(waiter) = self.waiting.get_mut(&place) {
            waiter.watches = watches;
        }
    }

    pub(super) fn dequeue(&mut self, work: WorkId) -> Option<Waiter> {
        let place = self.places.remove(&work)?;
        let waiter = self.waiting.remove(&place)?;
        self.ranged.remove(&place);
        self.timers.remove(&(waiter.timer_ms, work));
        if let Some(key) = &waiter.watches {
            self.change(key, |entry| {
                entry.watched.remove(&place);
            });
        }
        for key in waiter.locks.shared.iter().chain(&waiter.locks.exclusive) {
            self.change(key, |entry| {
                entry.wanted.remove(&place);
            });
        }
        Some(waiter)
    }
}
