//! The lock table of one server: shared and exclusive locks on keys, shared locks on ranges
//! (section 3.2 of the paper), and the queues for them.
//!
//! A transaction requests all its locks at once. Its request is granted as a whole, or waits
//! without any lock in the queues of all its keys, ordered by age:
//! 1. A request waits while another transaction holds a conflicting lock, or an older request waits
//!    for one.
//! 2. A request gives way (it is refused) if an older holder or waiter blocks it, and the contested
//!    locks have not changed for the time of patience. At least one request of any circle of
//!    servers and transactions gives way (see `docs/dtranx-protocol.md`); the older ones go on. A
//!    part whose transaction holds nothing on other servers blocks no request there and does not
//!    give way.
//! 3. A request is refused when its wait reaches the limit.
//!
//! A waiting request holds no lock in this table. Locks that are kept for another attempt pass to
//! that attempt unchanged, or are dropped. `participant` decides whether a transaction may still
//! request locks (the "faulty re-lock" of section 3.3.2).

use std::collections::{BTreeMap, BTreeSet};

use super::entry::Entry;
use crate::core::wanted::{Claim, Locks};
use crate::core::{id::WorkId, item::Key, range::KeyRange, refusal::Refusal, standing::Place};

/// Limit of requests that wait in the table, as applied to transactions of this server. For
/// transactions of other servers the limit is doubled, so that the load of this server's own
/// clients leaves room for them. Transactions of clients that use another server as coordinator
/// count as that server's.
pub(super) const MAX_WAITERS: usize = 8192;
/// Limit of requests that wait for one key, doubled for other servers like [`MAX_WAITERS`].
pub(super) const MAX_KEY_WAITERS: usize = 1024;

/// Head start of a request that only reads, in milliseconds. It lets readers of about the same age
/// pass a writer, so that they are served together.
const HEAD_START_MS: u64 = 20;

/// Head start of a retry that wants its locks kept, in milliseconds. The retry holds locks on other
/// servers while it waits, so it waits for the holder and not for all first attempts.
const RETRY_HEAD_START_MS: u64 = 500;

/// Immediate answer to a request or a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Acquired {
    /// The request holds all its locks, or the probe is done.
    Granted,
    /// The request or probe waits until a [`WaitOver`] ends the wait.
    Waits,
    /// The request holds no lock and does not wait.
    Refused(Refusal),
}

/// End of the wait of a request or a probe.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum WaitOver {
    /// The request holds all its locks, or the probe is done.
    Granted(WorkId),
    /// The request holds no lock and does not wait any more.
    Refused(WorkId, Refusal),
}

/// Current time and the two limits of a wait, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) now_ms: u64,
    /// Longest wait of a request or a probe.
    pub(super) wait_ms: u64,
    /// Longest wait behind an older request while the contested lock does not change.
    pub(super) patience_ms: u64,
}

/// Locks of one server, and the requests and probes that wait for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LockTable {
    pub(super) keys: BTreeMap<Key, Entry>,
    ranges: BTreeMap<WorkId, Vec<KeyRange>>,
    pub(super) held: BTreeMap<WorkId, Held>,
    pub(super) waiting: BTreeMap<Place, Waiter>,
    places: BTreeMap<WorkId, Place>,
    /// Waiters that want ranges.
    ranged: BTreeSet<Place>,
    /// Probes: each waits until every one of its keys was not exclusively locked at some instant.
    probes: BTreeMap<WorkId, Probe>,
    /// Times at which a holder, a waiter or a probe is looked at again, in milliseconds.
    timers: BTreeSet<(u64, WorkId)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) locks: Locks,
    since_ms: u64,
    /// Time until which the locks are kept for another attempt; `None` if they are not kept.
    kept_until_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    pub(super) locks: Locks,
    since_ms: u64,
    is_alone: bool,
    deadline_ms: u64,
    timer_ms: u64,
    /// A key that blocks one of the waiter's ranges.
    pub(super) watches: Option<Key>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Probe {
    locked: BTreeSet<Key>,
    deadline_ms: u64,
}

impl LockTable {
    /// Requests `locks`; a repeated request changes nothing. Waits of other requests that end
    /// because of this one are added to `over`.
    pub(super) fn acquire(
        &mut self,
        work: WorkId,
        locks: Locks,
        claim: Claim,
        times: Times,
        over: &mut Vec<WaitOver>,
    ) -> Acquired {
        if self.held.contains_key(&work) {
            return Acquired::Granted;
        }
        if self.places.contains_key(&work) {
            return Acquired::Waits;
        }
        let place = place_of(work, claim, &locks);
        let is_kept =
            |kept: &WorkId| claim.takes_any || self.held.get(kept).is_some_and(|held| held.kept_until_ms.is_some());
        let kept = claim.kept.filter(is_kept);
        if !claim.waits_to_read
            && let Some(key) = self.unreadable(place, &locks, kept)
        {
            return Acquired::Refused(Refusal::ReadLocked { key });
        }
        if !self.is_blocked(place, &locks, kept) {
            let free = kept.map(|kept| self.drop_held(kept, times.now_ms, over)).unwrap_or_default();
            self.hold(work, locks, claim.since_ms, times.now_ms);
            self.settle(free, times.now_ms, over);
            return Acquired::Granted;
        }
        let free = kept.map(|kept| self.drop_held(kept, times.now_ms, over)).unwrap_or_default();
        let full = self.full_queue(&locks, claim.is_of_peer);
        if full.is_none() {
            let deadline_ms = times.now_ms.saturating_add(times.wait_ms);
            let patient_ms = times.now_ms.saturating_add(times.patience_ms);
            let timer_ms = if claim.is_alone { deadline_ms } else { deadline_ms.min(patient_ms) };
            self.enqueue(
                place,
                Waiter {
                    locks,
                    since_ms: claim.since_ms,
                    is_alone: claim.is_alone,
                    deadline_ms,
                    timer_ms,
                    watches: None,
                },
            );
        }
        self.settle(free, times.now_ms, over);
        full.map_or(Acquired::Waits, |limit| Acquired::Refused(Refusal::Overloaded { limit }))
    }

    /// Starts a probe, which is granted once each of the keys was not exclusively locked at some
    /// instant.
    pub(super) fn probe(&mut self, work: WorkId, keys: Vec<Key>, is_of_peer: bool, times: Times) -> Acquired {
        if self.probes.contains_key(&work) {
            return Acquired::Waits;
        }
        let locked: BTreeSet<Key> = keys.into_iter().filter(|key| self.is_exclusively_locked(key)).collect();
        let most = share(MAX_KEY_WAITERS, is_of_peer);
        let is_full = |key: &Key| self.keys.get(key).is_some_and(|entry| entry.probed.len() >= most);
        if locked.is_empty() {
            return Acquired::Granted;
        }
        if let Some(limit) = self.full_table(is_of_peer).or_else(|| locked.iter().any(is_full).then(|| key_limit(most)))
        {
            return Acquired::Refused(Refusal::Overloaded { limit });
        }
        for key in &locked {
            self.keys.entry(key.clone()).or_default().probed.insert(work);
        }
        let deadline_ms = times.now_ms.saturating_add(times.wait_ms);
        self.probes.insert(work, Probe { locked, deadline_ms });
        self.timers.insert((deadline_ms, work));
        Acquired::Waits
    }

    /// Locks what a restarted participant held before its restart, without a check for conflicts.
    /// The holder counts as older than any other.
    pub(super) fn restore(&mut self, work: WorkId, locks: Locks) {
        self.hold(work, locks, 0, 0);
    }

    /// Drops the locks of `work` and grants the requests that can go on without them.
    pub(super) fn release(&mut self, work: WorkId, now_ms: u64, over: &mut Vec<WaitOver>) {
        let free = self.drop_held(work, now_ms, over);
        self.settle(free, now_ms, over);
    }

    /// Takes the waiting request of `work` out of the queues and grants the requests that it
    /// blocked.
    pub(super) fn leave(&mut self, work: WorkId, now_ms: u64, over: &mut Vec<WaitOver>) {
        let free = self.dequeue(work).map(|waiter| self.touched(&waiter.locks)).unwrap_or_default();
        self.settle(free, now_ms, over);
    }

    /// Keeps the locks of `work` for another attempt until `until_ms`.
    pub(super) fn keep(&mut self, work: WorkId, until_ms: u64) {
        if let Some(held) = self.held.get_mut(&work) {
            if let Some(before_ms) = held.kept_until_ms.replace(until_ms) {
                self.timers.remove(&(before_ms, work));
            }
            self.timers.insert((until_ms, work));
        }
    }

    /// Refuses all waiting requests and probes of a lost coordinator. Locks that its transactions
    /// hold stay, because those transactions may be committed.
    pub(super) fn refuse_all(
        &mut self,
        is_gone: impl Fn(WorkId) -> bool,
        refusal: &Refusal,
        now_ms: u64,
        over: &mut Vec<WaitOver>,
    ) {
        // All of them leave before any lock is granted. Otherwise one that leaves later could be
        // granted the locks that an earlier one had waited for.
        let mut wanted = Vec::new();
        for work in self.asking(is_gone) {
            self.forget_probe(work);
            wanted.extend(self.dequeue(work).map(|waiter| waiter.locks));
            over.push(WaitOver::Refused(work, refusal.clone()));
        }
        let free = wanted.iter().flat_map(|locks| self.touched(locks)).collect();
        self.settle(free, now_ms, over);
    }

    /// Waiting requests and probes that satisfy `which`.
    pub(super) fn asking(&self, which: impl Fn(WorkId) -> bool) -> Vec<WorkId> {
        self.places.keys().chain(self.probes.keys()).copied().filter(|work| which(*work)).collect()
    }

    /// Refuses waiting requests and probes whose time is over, and drops kept locks whose time is
    /// over.
    pub(super) fn expire(&mut self, times: Times, over: &mut Vec<WaitOver>) {
        let due: Vec<_> = self.timers.iter().take_while(|(at_ms, _)| *at_ms <= times.now_ms).copied().collect();
        for (at_ms, work) in due {
            self.timers.remove(&(at_ms, work));
            if self.held.get(&work).is_some_and(|held| held.kept_until_ms == Some(at_ms)) {
                self.release(work, times.now_ms, over);
            } else if let Some(key) = self.forget_probe(work) {
                over.push(WaitOver::Refused(work, Refusal::ReadLocked { key }));
            } else if let Some(place) = self.places.get(&work).copied() {
                self.look_at(place, times, over);
            }
        }
    }

    /// Time of the next timer, in milliseconds of the node's clock.
    pub(super) fn next_deadline_ms(&self) -> Option<u64> {
        self.timers.first().map(|(at_ms, _)| *at_ms)
    }

    /// Returns true if any transaction holds the key exclusively.
    pub(super) fn is_exclusively_locked(&self, key: &Key) -> bool {
        self.keys.get(key).is_some_and(|entry| entry.exclusive.is_some())
    }

    /// Number of transactions that hold or wait for locks, and of waiting probes.
    pub(super) fn len(&self) -> usize {
        self.held.len() + self.waiting()
    }

    /// Number of requests and probes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() + self.probes.len()
    }

    /// Returns true if rule 1 makes the request wait. Locks that `kept` holds count as the
    /// request's own.
    pub(super) fn is_blocked(&self, place: Place, locks: &Locks, kept: Option<WorkId>) -> bool {
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
            let holds_it = kept.and_then(|kept| self.ranges.get(&kept)).is_some_and(|ranges| ranges.contains(range));
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
    fn unreadable(&self, place: Place, locks: &Locks, kept: Option<WorkId>) -> Option<Key> {
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
    fn is_ranged(&self, place: Place, key: &Key, mine: impl Fn(WorkId) -> bool, holds_it: bool) -> bool {
        let contains = |ranges: &[KeyRange]| ranges.iter().any(|range| range.contains(key));
        let is_wanted = |older: &Place| self.waiting.get(older).is_some_and(|waiter| contains(&waiter.locks.ranges));
        self.ranges.iter().any(|(holder, ranges)| !mine(*holder) && contains(ranges))
            || !holds_it && self.ranged.range(..place).any(is_wanted)
    }

    /// Refuses a waiter that has reached a limit of its wait, or sets its next timer.
    fn look_at(&mut self, place: Place, times: Times, over: &mut Vec<WaitOver>) {
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

    /// Refusal for rule 2 if an older holder or waiter blocks the request. The refusal names the
    /// contested key that has been unchanged for longest; the second value is the time of its last
    /// change.
    fn elder(&self, place: Place, Waiter { locks, since_ms, .. }: &Waiter) -> Option<(Refusal, u64)> {
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

    fn full_table(&self, is_of_peer: bool) -> Option<String> {
        let most = share(MAX_WAITERS, is_of_peer);
        (self.waiting() >= most).then(|| format!("{most} waits for locks"))
    }

    fn full_queue(&self, locks: &Locks, is_of_peer: bool) -> Option<String> {
        let most = share(MAX_KEY_WAITERS, is_of_peer);
        let is_full = |key: &Key| self.keys.get(key).is_some_and(|entry| entry.wanted.len() >= most);
        let is_any_full = || locks.shared.iter().chain(&locks.exclusive).any(is_full).then(|| key_limit(most));
        self.full_table(is_of_peer).or_else(is_any_full)
    }

    fn enqueue(&mut self, place: Place, waiter: Waiter) {
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
    fn watch(&mut self, place: Place) {
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

    /// A key in these ranges that another transaction holds exclusively, or wants exclusively
    /// before `place`.
    pub(super) fn obstacle(&self, place: Place, ranges: &[KeyRange]) -> Option<Key> {
        let is_in_the_way = |(_, entry): &(&Key, &Entry)| {
            entry.exclusive.is_some_and(|holder| holder != place.work) || entry.is_wanted_exclusively_before(place)
        };
        let mut within = ranges.iter().filter_map(KeyRange::bounds);
        within.find_map(|bounds| self.keys.range(bounds).find(is_in_the_way)).map(|(key, _)| key.clone())
    }

    fn dequeue(&mut self, work: WorkId) -> Option<Waiter> {
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

    /// Removes a waiting probe. Returns one of the keys that it still waits for.
    pub(super) fn forget_probe(&mut self, work: WorkId) -> Option<Key> {
        let Probe { locked, deadline_ms } = self.probes.remove(&work)?;
        for key in &locked {
            self.change(key, |entry| {
                entry.probed.remove(&work);
            });
        }
        self.timers.remove(&(deadline_ms, work));
        locked.into_iter().next()
    }

    fn hold(&mut self, work: WorkId, locks: Locks, since_ms: u64, now_ms: u64) {
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
    fn drop_held(&mut self, work: WorkId, now_ms: u64, over: &mut Vec<WaitOver>) -> Vec<Key> {
        let Some(held) = self.held.remove(&work) else { return Vec::new() };
        self.ranges.remove(&work);
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

    fn has_seen_free(&mut self, probe: WorkId, key: &Key, over: &mut Vec<WaitOver>) {
        let Some(Probe { locked, deadline_ms }) = self.probes.get_mut(&probe) else { return };
        locked.remove(key);
        if locked.is_empty() {
            self.timers.remove(&(*deadline_ms, probe));
            self.probes.remove(&probe);
            over.push(WaitOver::Granted(probe));
        }
    }

    fn change(&mut self, key: &Key, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.keys.get_mut(key) {
            change(entry);
            if entry.is_unused() {
                self.keys.remove(key);
            }
        }
    }

    /// Keys of these locks, and keys within their ranges, that requests wait for or that block
    /// ranges of waiters.
    fn touched(&self, locks: &Locks) -> Vec<Key> {
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
    pub(super) fn concerned(&self, free: &[Key]) -> BTreeSet<Place> {
        let entries = || free.iter().filter_map(|key| self.keys.get(key));
        entries()
            .flat_map(Entry::first_waiters)
            .chain(entries().flat_map(|entry| entry.watched.iter().copied()))
            .collect()
    }

    /// Grants every request that waits for these keys, or for ranges around them, and is not
    /// blocked any more. One pass is enough, because a grant frees no key.
    fn settle(&mut self, free: Vec<Key>, now_ms: u64, over: &mut Vec<WaitOver>) {
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

fn place_of(work: WorkId, claim: Claim, locks: &Locks) -> Place {
    let of_readers_ms = if locks.exclusive.is_empty() { HEAD_START_MS } else { 0 };
    let head_start_ms = if claim.keeps && !claim.is_alone { RETRY_HEAD_START_MS } else { of_readers_ms };
    Place { since_ms: claim.since_ms.saturating_sub(head_start_ms), work }
}

/// Limit for a request: other servers have twice as much room as this server's clients.
const fn share(most: usize, is_of_peer: bool) -> usize {
    if is_of_peer { 2 * most } else { most }
}

fn key_limit(most: usize) -> String {
    format!("{most} waits for the lock of one key")
}
