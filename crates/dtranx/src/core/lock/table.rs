//! The lock table of one server: shared and exclusive locks on keys, shared locks on ranges (section 3.2 of the paper).
//!
//! A transaction asks once, for everything:
//! 1. Something that it wants is exclusively locked by another: refused at once, whether it wants to read or to write it.
//! 2. Something that it wants exclusively is only read by others, or an earlier request waits for it: it waits, for a
//!    limited time, first come, first served.
//! 3. Otherwise it gets everything.
//!
//! Who waits holds nothing, so that nobody waits for a waiter's locks; a waiter for whom rule 1 comes true is refused.
//! Readers may overtake waiting writers, as in the paper: the wait is short, and the writer's retries back off.
//! Whether a transaction may still ask (the "faulty re-lock" of section 3.3.2) is the participant's to know (see `participant`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::wanted::Locks;
use crate::core::{id::WorkId, item::Key, range::KeyRange, refusal::Refusal};

/// The most requests that wait at once.
pub(super) const MAX_WAITERS: usize = 256;

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

/// The locks of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LockTable {
    keys: BTreeMap<Key, Holders>,
    ranges: BTreeMap<WorkId, Vec<KeyRange>>,
    pub(super) held: BTreeMap<WorkId, Locks>,
    pub(super) waiting: VecDeque<Waiter>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Holders {
    exclusive: Option<WorkId>,
    shared: BTreeSet<WorkId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    pub(super) owner: WorkId,
    pub(super) locks: Locks,
    deadline_ms: u64,
}

impl LockTable {
    /// Asks for `locks`, waiting until `deadline_ms` if need be. To ask again changes nothing. What becomes of others
    /// because of it is added to `over`.
    pub(super) fn acquire(
        &mut self,
        owner: WorkId,
        locks: Locks,
        deadline_ms: u64,
        over: &mut Vec<WaitOver>,
    ) -> Acquired {
        if self.held.contains_key(&owner) {
            return Acquired::Granted;
        }
        if self.waiting.iter().any(|waiter| waiter.owner == owner) {
            return Acquired::Waits;
        }
        if let Some(refusal) = self.exclusively_held(owner, &locks) {
            return Acquired::Refused(refusal);
        }
        if self.is_read(owner, &locks) || self.is_wanted(&locks, self.waiting.len()) {
            if self.waiting.len() >= MAX_WAITERS {
                return Acquired::Refused(Refusal::Overloaded { limit: format!("{MAX_WAITERS} waits for locks") });
            }
            self.waiting.push_back(Waiter { owner, locks, deadline_ms });
            return Acquired::Waits;
        }
        self.hold(owner, locks);
        self.settle(over);
        Acquired::Granted
    }

    /// Takes locks without asking: those that a restarted participant held before.
    pub(super) fn restore(&mut self, owner: WorkId, locks: Locks) {
        self.hold(owner, locks);
    }

    /// Drops whatever `owner` holds or waits for.
    pub(super) fn release(&mut self, owner: WorkId, over: &mut Vec<WaitOver>) {
        self.waiting.retain(|waiter| waiter.owner != owner);
        self.ranges.remove(&owner);
        let locks = self.held.remove(&owner).unwrap_or_default();
        for key in locks.shared.iter().chain(&locks.exclusive) {
            let Some(holders) = self.keys.get_mut(key) else { continue };
            holders.shared.remove(&owner);
            holders.exclusive.take_if(|holder| *holder == owner);
            if holders.exclusive.is_none() && holders.shared.is_empty() {
                self.keys.remove(key);
            }
        }
        self.settle(over);
    }

    /// Refuses the requests whose time is over.
    pub(super) fn expire(&mut self, now_ms: u64, over: &mut Vec<WaitOver>) {
        let before = self.waiting.len();
        self.waiting.retain(|waiter| {
            let waits = waiter.deadline_ms > now_ms;
            if !waits {
                over.push(WaitOver::Refused(waiter.owner, Refusal::LockWaitExpired));
            }
            waits
        });
        if self.waiting.len() < before {
            self.settle(over);
        }
    }

    /// When the first request's time is over.
    pub(super) fn next_deadline_ms(&self) -> Option<u64> {
        self.waiting.iter().map(|waiter| waiter.deadline_ms).min()
    }

    /// Is the key exclusively locked?
    pub(super) fn is_exclusively_locked(&self, key: &Key) -> bool {
        self.keys.get(key).is_some_and(|holders| holders.exclusive.is_some())
    }

    /// How many transactions hold or wait for locks.
    pub(super) fn len(&self) -> usize {
        self.held.len() + self.waiting.len()
    }

    /// Rule 1.
    pub(super) fn exclusively_held(&self, owner: WorkId, locks: &Locks) -> Option<Refusal> {
        let by_other = |holders: &Holders| holders.exclusive.is_some_and(|holder| holder != owner);
        let held = |key: &&Key| self.keys.get(*key).is_some_and(by_other);
        if let Some(key) = locks.shared.iter().find(held) {
            return Some(Refusal::ReadLocked { key: key.clone() });
        }
        for bounds in locks.ranges.iter().filter_map(KeyRange::bounds) {
            if let Some((key, _)) = self.keys.range(bounds).find(|(_, holders)| by_other(holders)) {
                return Some(Refusal::ReadLocked { key: key.clone() });
            }
        }
        locks.exclusive.iter().find(held).map(|key| Refusal::WriteLocked { key: key.clone() })
    }

    /// Rule 2: does somebody read what is wanted exclusively?
    pub(super) fn is_read(&self, owner: WorkId, locks: &Locks) -> bool {
        locks.exclusive.iter().any(|key| {
            let by_key = self.keys.get(key).is_some_and(|holders| holders.shared.iter().any(|holder| *holder != owner));
            let within = |(holder, ranges): (&WorkId, &Vec<KeyRange>)| {
                *holder != owner && ranges.iter().any(|range| range.contains(key))
            };
            by_key || self.ranges.iter().any(within)
        })
    }

    /// Rule 2: does one of the first `earlier` waiters want the same exclusively?
    pub(super) fn is_wanted(&self, locks: &Locks, earlier: usize) -> bool {
        let mut earlier = self.waiting.iter().take(earlier);
        earlier.any(|waiter| waiter.locks.exclusive.iter().any(|key| locks.exclusive.contains(key)))
    }

    fn hold(&mut self, owner: WorkId, locks: Locks) {
        for key in &locks.shared {
            self.keys.entry(key.clone()).or_default().shared.insert(owner);
        }
        for key in &locks.exclusive {
            self.keys.entry(key.clone()).or_default().exclusive = Some(owner);
        }
        if !locks.ranges.is_empty() {
            self.ranges.insert(owner, locks.ranges.clone());
        }
        self.held.insert(owner, locks);
    }

    /// Grants and refuses waiters until nothing changes any more: a grant may be why an earlier one is refused.
    fn settle(&mut self, over: &mut Vec<WaitOver>) {
        let mut at = 0;
        while let Some(waiter) = self.waiting.get(at) {
            if let Some(refusal) = self.exclusively_held(waiter.owner, &waiter.locks) {
                over.push(WaitOver::Refused(waiter.owner, refusal));
                self.waiting.remove(at);
                at = 0;
            } else if self.is_read(waiter.owner, &waiter.locks) || self.is_wanted(&waiter.locks, at) {
                at += 1;
            } else if let Some(waiter) = self.waiting.remove(at) {
                over.push(WaitOver::Granted(waiter.owner));
                self.hold(waiter.owner, waiter.locks);
                at = 0;
            }
        }
    }
}
