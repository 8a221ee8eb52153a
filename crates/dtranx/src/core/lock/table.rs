//! The lock table of one server: shared and exclusive locks on keys, shared locks on ranges
//! (section 3.2 of the paper), and the queues for them.
//!
//! A transaction asks once, for everything. It gets everything, or nothing and a place in the
//! queues of all that it wants, by its age:
//! 1. It waits as long as another holds what it wants in a way that excludes it, or an older one
//!    waits for that.
//! 2. It gives way (it is refused) if a holder or an older waiter in its way is older than itself,
//!    and nothing has changed about what it wants for the time of patience. One of any circle of
//!    servers and transactions does so (see `docs/dtranx-protocol.md`); the older ones of it go on.
//!    A part whose transaction has nothing on other servers is in no other's way and need not.
//! 3. It is refused when it has waited for as long as anybody may.
//!
//! A request that waits holds nothing here. Locks that are kept for another attempt pass to that as
//! they are, or are dropped. Whether a transaction may still ask (the "faulty re-lock" of section
//! 3.3.2) is the participant's to know (see `participant`).

use std::collections::{BTreeMap, BTreeSet};

use super::entry::Entry;
use crate::core::wanted::{Claim, Locks};
use crate::core::{id::WorkId, item::Key, range::KeyRange, refusal::Refusal, standing::Place};

/// How many requests may wait at once for one of this server's own clients to wait, too. For those
/// of other servers it is twice as many: what this server's own clients ask leaves room for them.
/// Clients that ask through other servers count as those servers', and can take that room, too.
pub(super) const MAX_WAITERS: usize = 8192;
/// The same for the requests that wait for one key.
pub(super) const MAX_KEY_WAITERS: usize = 1024;

/// By how much a request that only reads may be younger than one that writes, and still be served
/// before it: readers are served together.
const HEAD_START_MS: u64 = 20;

/// The same for a retry, which holds locks on other servers while it waits, and is to have them
/// kept: it waits for the holder, and not for all that wait for the first time.
const RETRY_HEAD_START_MS: u64 = 500;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Acquired {
    /// It has everything.
    Granted,
    /// It waits; a [`WaitOver`] will tell.
    Waits,
    /// It has nothing.
    Refused(Refusal),
}

/// What became of a request that waited.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum WaitOver {
    /// It has everything.
    Granted(WorkId),
    /// It has nothing.
    Refused(WorkId, Refusal),
}

/// When something is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) now_ms: u64,
    /// How long a request may wait.
    pub(super) wait_ms: u64,
    /// How long it waits for an older one while nothing changes.
    pub(super) patience_ms: u64,
}

/// The locks of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LockTable {
    pub(super) keys: BTreeMap<Key, Entry>,
    ranges: BTreeMap<WorkId, Vec<KeyRange>>,
    pub(super) held: BTreeMap<WorkId, Held>,
    pub(super) waiting: BTreeMap<Place, Waiter>,
    places: BTreeMap<WorkId, Place>,
    /// The waiters that want ranges.
    ranged: BTreeSet<Place>,
    /// Requests that wait for these keys to be not exclusively locked, each at some instant.
    probes: BTreeMap<WorkId, Probe>,
    /// When to look at which holder, waiter or probe.
    timers: BTreeSet<(u64, WorkId)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) locks: Locks,
    since_ms: u64,
    /// Until when they are kept for another attempt.
    kept_until_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    pub(super) locks: Locks,
    since_ms: u64,
    is_alone: bool,
    deadline_ms: u64,
    timer_ms: u64,
    /// A key that is in the way of the ranges that it wants.
    pub(super) watches: Option<Key>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Probe {
    locked: BTreeSet<Key>,
    deadline_ms: u64,
}

impl LockTable {
    /// Asks for `locks`. To ask again changes nothing. What becomes of others because of it is
    /// added to `over`.
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

    /// Asks for an instant at which each of these keys is not exclusively locked.
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

    /// Takes locks without asking: those that a restarted participant held before. It counts as
    /// older than anybody.
    pub(super) fn restore(&mut self, work: WorkId, locks: Locks) {
        self.hold(work, locks, 0, 0);
    }

    /// Drops the locks of `work`, and grants what waited for them.
    pub(super) fn release(&mut self, work: WorkId, now_ms: u64, over: &mut Vec<WaitOver>) {
        let free = self.drop_held(work, now_ms, over);
        self.settle(free, now_ms, over);
    }

    /// Takes the request of `work` out of the queues, and grants what waited behind it.
    pub(super) fn leave(&mut self, work: WorkId, now_ms: u64, over: &mut Vec<WaitOver>) {
        let free = self.dequeue(work).map(|waiter| self.touched(&waiter.locks)).unwrap_or_default();
        self.settle(free, now_ms, over);
    }

    /// Keeps what `work` holds for another attempt.
    pub(super) fn keep(&mut self, work: WorkId, until_ms: u64) {
        if let Some(held) = self.held.get_mut(&work) {
            if let Some(before_ms) = held.kept_until_ms.replace(until_ms) {
                self.timers.remove(&(before_ms, work));
            }
            self.timers.insert((until_ms, work));
        }
    }

    /// Refuses all that wait for a coordinator that has gone. What its transactions hold stays: it
    /// may be committed.
    pub(super) fn refuse_all(
        &mut self,
        is_gone: impl Fn(WorkId) -> bool,
        refusal: &Refusal,
        now_ms: u64,
        over: &mut Vec<WaitOver>,
    ) {
        // All of them leave before anything is granted: one could be granted what another had
        // wanted.
        let mut wanted = Vec::new();
        for work in self.asking(is_gone) {
            self.forget_probe(work);
            wanted.extend(self.dequeue(work).map(|waiter| waiter.locks));
            over.push(WaitOver::Refused(work, refusal.clone()));
        }
        let free = wanted.iter().flat_map(|locks| self.touched(locks)).collect();
        self.settle(free, now_ms, over);
    }

    /// Those that wait, for locks or to see keys free.
    pub(super) fn asking(&self, which: impl Fn(WorkId) -> bool) -> Vec<WorkId> {
        self.places.keys().chain(self.probes.keys()).copied().filter(|work| which(*work)).collect()
    }

    /// Refuses those whose time is over, and drops what was kept for too long.
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

    /// Is the key exclusively locked?
    pub(super) fn is_exclusively_locked(&self, key: &Key) -> bool {
        self.keys.get(key).is_some_and(|entry| entry.exclusive.is_some())
    }

    /// How many transactions hold or wait for locks.
    pub(super) fn len(&self) -> usize {
        self.held.len() + self.waiting()
    }

    /// Number of requests that wait, for locks or to see keys free.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() + self.probes.len()
    }

    /// Rule 1. What `kept` holds is as if it were this one's already.
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

    /// A key among those to be read that is exclusively locked, or for which another request waits
    /// before this one.
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

    /// Is the key in a range that another holds, or that an older one waits for?
    fn is_ranged(&self, place: Place, key: &Key, mine: impl Fn(WorkId) -> bool, holds_it: bool) -> bool {
        let contains = |ranges: &[KeyRange]| ranges.iter().any(|range| range.contains(key));
        let is_wanted = |older: &Place| self.waiting.get(older).is_some_and(|waiter| contains(&waiter.locks.ranges));
        self.ranges.iter().any(|(holder, ranges)| !mine(*holder) && contains(ranges))
            || !holds_it && self.ranged.range(..place).any(is_wanted)
    }

    /// Looks at a waiter whose time may be over.
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

    /// Rule 2: is an older one in the way? With the refusal that says where that has been so for
    /// longest, and since when nothing has changed there.
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

    /// A waiter for ranges is looked at again when a key that is in its way changes: it notes one.
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

    /// A key in these ranges that another has, or wants before this one, exclusively.
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

    /// Forgets a probe that is not over; with a key that it waits for.
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

    /// Drops what `work` holds, and grants the probes that waited for this instant. Returns the
    /// keys that others wait for.
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

    /// The keys of these locks that another waits for, or for a range around them.
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

    /// Who is looked at when these keys are free: the first of their queues, and those for whose
    /// ranges they were in the way.
    pub(super) fn concerned(&self, free: &[Key]) -> BTreeSet<Place> {
        let entries = || free.iter().filter_map(|key| self.keys.get(key));
        entries()
            .flat_map(Entry::first_waiters)
            .chain(entries().flat_map(|entry| entry.watched.iter().copied()))
            .collect()
    }

    /// Grants what can be granted of what waits for these keys, or for ranges around them. One pass
    /// is enough: a grant frees nothing.
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

/// Other servers have as much again as this one's clients.
const fn share(most: usize, is_of_peer: bool) -> usize {
    if is_of_peer { 2 * most } else { most }
}

fn key_limit(most: usize) -> String {
    format!("{most} waits for the lock of one key")
}
