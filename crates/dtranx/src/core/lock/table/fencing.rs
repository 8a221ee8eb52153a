//! Fences: locks on whole ranges that move to another server.
//!
//! A fence is granted when no other transaction holds or waits for anything in its range. While it
//! waits for that, and while it is held, requests for anything in the range are refused. So no
//! request ever waits for a fence. The other keys that a move wants (the server's map) are not
//! waited for: they must be free when it arrives. So it is part of no circle.

use std::collections::BTreeMap;

use super::{Acquired, LockTable, Times, WaitOver};
use crate::core::lock::entry::Entry;
use crate::core::wanted::{Claim, Locks};
use crate::core::{id::WorkId, item::Key, range::KeyRange, refusal::Refusal};

/// Limit of the fences of one server. Each request is compared with all of them.
pub(in crate::core::lock) const MAX_FENCES: usize = 16;

/// A fence that is held or waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fence {
    range: KeyRange,
    /// The other locks of the same request; `None` once the fence is held.
    waits: Option<Waits>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waits {
    locks: Locks,
    since_ms: u64,
    deadline_ms: u64,
}

impl LockTable {
    /// A key of these locks that lies behind the fence of another transaction, which are not kept
    /// for this one.
    pub(super) fn fenced(&self, work: WorkId, locks: &Locks, kept: Option<WorkId>) -> Option<Key> {
        let others = self.fences.iter().filter(|(holder, _)| **holder != work && Some(**holder) != kept);
        others.into_iter().find_map(|(_, fence)| locks.within(&fence.range))
    }

    /// Requests locks with a fence, which no other fence meets.
    pub(super) fn acquire_fence(
        &mut self,
        work: WorkId,
        range: KeyRange,
        locks: Locks,
        claim: Claim,
        times: Times,
    ) -> Acquired {
        match self.fences.get(&work) {
            Some(fence) if fence.waits.is_some() => return Acquired::Waits,
            Some(_) => return Acquired::Granted,
            None if self.fences.len() >= MAX_FENCES => {
                let limit = format!("{MAX_FENCES} ranges that move");
                return Acquired::Refused(Refusal::Overloaded { limit });
            }
            None => {}
        }
        if let Some(key) = self.in_use_elsewhere(&range, &locks) {
            return Acquired::Refused(Refusal::IsMoving { key });
        }
        if self.is_free(&range, &locks) {
            self.fences.insert(work, Fence { range, waits: None });
            self.hold(work, locks, claim.since_ms, times.now_ms);
            return Acquired::Granted;
        }
        let deadline_ms = times.now_ms.saturating_add(times.wait_ms);
        let waits = Waits { locks, since_ms: claim.since_ms, deadline_ms };
        self.fences.insert(work, Fence { range, waits: Some(waits) });
        self.timers.insert((deadline_ms, work));
        Acquired::Waits
    }

    /// A fence that a restarted server holds.
    pub(super) fn restore_fence(&mut self, work: WorkId, range: KeyRange) {
        self.fences.insert(work, Fence { range, waits: None });
    }

    /// Grants the fences that nothing is in the way of any more.
    pub(in crate::core::lock) fn settle_fences(&mut self, now_ms: u64, over: &mut Vec<WaitOver>) {
        let waiting: Vec<WorkId> = self.waiting_fences().map(|(work, _)| work).collect();
        for work in waiting {
            let is_free =
                |fence: &Fence| fence.waits.as_ref().is_some_and(|waits| self.is_free(&fence.range, &waits.locks));
            if !self.fences.get(&work).is_some_and(is_free) {
                continue;
            }
            let Some(waits) = self.fences.get_mut(&work).and_then(|fence| fence.waits.take()) else { continue };
            self.timers.remove(&(waits.deadline_ms, work));
            self.hold(work, waits.locks, waits.since_ms, now_ms);
            over.push(WaitOver::Granted(work));
        }
    }

    /// Drops the fence of `work`, held or waiting.
    pub(super) fn drop_fence(&mut self, work: WorkId) {
        if let Some(waits) = self.fences.remove(&work).and_then(|fence| fence.waits) {
            self.timers.remove(&(waits.deadline_ms, work));
        }
    }

    /// Returns true if `work` waits for a fence.
    pub(super) fn waits_for_fence(&self, work: WorkId) -> bool {
        self.fences.get(&work).is_some_and(|fence| fence.waits.is_some())
    }

    /// Fences that wait, each with the time at which its wait is over.
    pub(super) fn waiting_fences(&self) -> impl Iterator<Item = (WorkId, u64)> {
        let waits = |(work, fence): (&WorkId, &Fence)| fence.waits.as_ref().map(|waits| (*work, waits.deadline_ms));
        self.fences.iter().filter_map(waits)
    }

    /// The map, or another key of the request outside of the range, if another transaction holds or
    /// waits for it.
    fn in_use_elsewhere(&self, range: &KeyRange, locks: &Locks) -> Option<Key> {
        let is_other = |key: &Key| !range.contains(key) || *key == Key::of_map();
        let is_used = |key: &&Key| is_other(key) && self.keys.get(*key).is_some_and(is_used);
        locks.exclusive.iter().find(is_used).cloned()
    }

    /// Returns true if no transaction holds or waits for anything in the range, or for one of the
    /// request's other keys.
    fn is_free(&self, range: &KeyRange, locks: &Locks) -> bool {
        let mut within = range.bounds().into_iter().flat_map(|bounds| self.keys.range(bounds));
        let meets = |ranges: &[KeyRange]| ranges.iter().any(|other| other.meets(range));
        !within.any(|(_, entry)| is_used(entry))
            && self.in_use_elsewhere(range, locks).is_none()
            && !self.ranges.values().any(|ranges| meets(ranges))
            && !self.ranged.iter().filter_map(|place| self.waiting.get(place)).any(|waiter| meets(&waiter.locks.ranges))
    }
}

fn is_used(entry: &Entry) -> bool {
    entry.exclusive.is_some() || !entry.shared.is_empty() || !entry.wanted.is_empty()
}

/// The fences of one server.
pub(super) type Fences = BTreeMap<WorkId, Fence>;
