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
//!
//! `blocking` decides who is in whose way, `waiting` has the queues, `probing` the probes,
//! `holding` the locks that are held, and `fencing` the ranges that move to another server.

mod blocking;
mod fencing;
mod holding;
mod probing;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use self::fencing::Fences;
use super::entry::Entry;
use crate::core::wanted::{Claim, Locks};
use crate::core::{id::WorkId, item::Key, range::Ranges, refusal::Refusal, standing::Place};

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
    ranges: BTreeMap<WorkId, Ranges>,
    pub(super) held: BTreeMap<WorkId, Held>,
    pub(super) waiting: BTreeMap<Place, Waiter>,
    places: BTreeMap<WorkId, Place>,
    /// Waiters that want ranges.
    ranged: BTreeSet<Place>,
    /// Probes: each waits until every one of its keys was not exclusively locked at some instant.
    probes: BTreeMap<WorkId, Probe>,
    fences: Fences,
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
        if let Some(key) = self.fenced(work, &locks, kept) {
            return Acquired::Refused(Refusal::IsMoving { key });
        }
        if let Some(range) = locks.fence.clone() {
            let free = kept.map(|kept| self.drop_held(kept, times.now_ms, over)).unwrap_or_default();
            let acquired = self.acquire_fence(work, range, locks, claim, times);
            self.settle(free, times.now_ms, over);
            return acquired;
        }
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

    /// Locks what a restarted participant held before its restart, without a check for conflicts.
    /// The holder counts as older than any other.
    pub(super) fn restore(&mut self, work: WorkId, locks: Locks) {
        if let Some(range) = &locks.fence {
            self.restore_fence(work, range.clone());
        }
        self.hold(work, locks, 0, 0);
    }

    /// Drops the locks of `work` and grants the requests that can go on without them.
    pub(super) fn release(&mut self, work: WorkId, now_ms: u64, over: &mut Vec<WaitOver>) {
        self.drop_fence(work);
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
            self.drop_fence(work);
            wanted.extend(self.dequeue(work).map(|waiter| waiter.locks));
            over.push(WaitOver::Refused(work, refusal.clone()));
        }
        let free = wanted.iter().flat_map(|locks| self.touched(locks)).collect();
        self.settle(free, now_ms, over);
    }

    /// Waiting requests and probes that satisfy `which`.
    pub(super) fn asking(&self, which: impl Fn(WorkId) -> bool) -> Vec<WorkId> {
        let waiting = self.places.keys().chain(self.probes.keys()).copied();
        waiting.chain(self.waiting_fences().map(|(work, _)| work)).filter(|work| which(*work)).collect()
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
            } else if self.waits_for_fence(work) {
                self.drop_fence(work);
                over.push(WaitOver::Refused(work, Refusal::LockWaitExpired));
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
        self.waiting.len() + self.probes.len() + self.waiting_fences().count()
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
