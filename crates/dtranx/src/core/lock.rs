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
//! Whether a transaction may still ask (the "faulty re-lock" of section 3.3.2) is the participant's to know.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    id::TranxId,
    item::Key,
    range::KeyRange,
    refusal::Refusal,
    transaction::{Transaction, Write},
};

/// The most requests that wait at once.
pub const MAX_WAITERS: usize = 256;

/// What a transaction wants locked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Locks {
    /// Keys that it read and does not write.
    pub shared: Vec<Key>,
    /// Ranges that it scanned.
    pub ranges: Vec<KeyRange>,
    /// Keys that it writes.
    pub exclusive: Vec<Key>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// It has everything.
    Granted,
    /// It waits; a [`LockEvent`] will tell.
    Waits,
    /// It has nothing.
    Refused(Refusal),
}

/// What became of a request that waited.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LockEvent {
    /// It has everything.
    Granted(TranxId),
    /// It has nothing.
    Refused(TranxId, Refusal),
}

/// The locks of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LockTable {
    keys: BTreeMap<Key, Holders>,
    ranges: BTreeMap<TranxId, Vec<KeyRange>>,
    held: BTreeMap<TranxId, Locks>,
    waiting: VecDeque<Waiter>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Holders {
    exclusive: Option<TranxId>,
    shared: BTreeSet<TranxId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiter {
    owner: TranxId,
    locks: Locks,
    deadline_ms: u64,
}

impl Locks {
    /// What a part of a transaction needs locked.
    pub fn of(part: &Transaction) -> Self {
        let exclusive = exclusive(&part.writes);
        let written: BTreeSet<&Key> = exclusive.iter().collect();
        let shared = part.reads.iter().map(|read| &read.key).filter(|key| !written.contains(key)).cloned().collect();
        let ranges = part.scans.iter().map(|scan| scan.range.clone()).collect();
        Self { shared, ranges, exclusive }
    }
}

/// The keys of writes.
pub(crate) fn exclusive(writes: &[Write]) -> Vec<Key> {
    writes.iter().map(|write| write.key.clone()).collect()
}

impl LockTable {
    /// Asks for `locks`, waiting until `deadline_ms` if need be. To ask again changes nothing. What becomes of others
    /// because of it is added to `events`.
    pub fn acquire(&mut self, owner: TranxId, locks: Locks, deadline_ms: u64, events: &mut Vec<LockEvent>) -> Acquired {
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
        self.settle(events);
        Acquired::Granted
    }

    /// Takes locks without asking: those that a restarted participant held before.
    pub fn restore(&mut self, owner: TranxId, locks: Locks) {
        self.hold(owner, locks);
    }

    /// Drops whatever `owner` holds or waits for.
    pub fn release(&mut self, owner: TranxId, events: &mut Vec<LockEvent>) {
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
        self.settle(events);
    }

    /// Refuses the requests whose time is over.
    pub fn expire(&mut self, now_ms: u64, events: &mut Vec<LockEvent>) {
        let before = self.waiting.len();
        self.waiting.retain(|waiter| {
            let waits = waiter.deadline_ms > now_ms;
            if !waits {
                events.push(LockEvent::Refused(waiter.owner, Refusal::LockWaitExpired));
            }
            waits
        });
        if self.waiting.len() < before {
            self.settle(events);
        }
    }

    /// When the first request's time is over.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.waiting.iter().map(|waiter| waiter.deadline_ms).min()
    }

    /// Is the key exclusively locked?
    pub fn is_exclusively_locked(&self, key: &Key) -> bool {
        self.keys.get(key).is_some_and(|holders| holders.exclusive.is_some())
    }

    /// How many transactions hold or wait for locks.
    pub fn len(&self) -> usize {
        self.held.len() + self.waiting.len()
    }

    /// Is nothing locked, and does nobody wait?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whoever holds or waits for locks.
    pub fn owners(&self) -> impl Iterator<Item = TranxId> {
        self.held.keys().copied().chain(self.waiting.iter().map(|waiter| waiter.owner))
    }

    /// Rule 1.
    fn exclusively_held(&self, owner: TranxId, locks: &Locks) -> Option<Refusal> {
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
    fn is_read(&self, owner: TranxId, locks: &Locks) -> bool {
        locks.exclusive.iter().any(|key| {
            let by_key = self.keys.get(key).is_some_and(|holders| holders.shared.iter().any(|holder| *holder != owner));
            let within = |(holder, ranges): (&TranxId, &Vec<KeyRange>)| {
                *holder != owner && ranges.iter().any(|range| range.contains(key))
            };
            by_key || self.ranges.iter().any(within)
        })
    }

    /// Rule 2: does one of the first `earlier` waiters want the same exclusively?
    fn is_wanted(&self, locks: &Locks, earlier: usize) -> bool {
        let mut earlier = self.waiting.iter().take(earlier);
        earlier.any(|waiter| waiter.locks.exclusive.iter().any(|key| locks.exclusive.contains(key)))
    }

    fn hold(&mut self, owner: TranxId, locks: Locks) {
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
    fn settle(&mut self, events: &mut Vec<LockEvent>) {
        let mut at = 0;
        while let Some(waiter) = self.waiting.get(at) {
            if let Some(refusal) = self.exclusively_held(waiter.owner, &waiter.locks) {
                events.push(LockEvent::Refused(waiter.owner, refusal));
                self.waiting.remove(at);
                at = 0;
            } else if self.is_read(waiter.owner, &waiter.locks) || self.is_wanted(&waiter.locks, at) {
                at += 1;
            } else if let Some(waiter) = self.waiting.remove(at) {
                events.push(LockEvent::Granted(waiter.owner));
                self.hold(waiter.owner, waiter.locks);
                at = 0;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::core::ServerId;

    const DEADLINE_MS: u64 = 50;

    fn tranx(number: u64) -> TranxId {
        TranxId { server: ServerId(1), number }
    }

    fn key(name: &str) -> Key {
        Key::new(name.as_bytes().to_vec()).unwrap()
    }

    fn locks(shared: &[&str], exclusive: &[&str]) -> Locks {
        let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect();
        Locks { shared: keys(shared), ranges: vec![], exclusive: keys(exclusive) }
    }

    /// Asks, and expects that nobody else is concerned.
    fn ask(table: &mut LockTable, number: u64, locks: Locks) -> Acquired {
        let mut events = Vec::new();
        let acquired = table.acquire(tranx(number), locks, DEADLINE_MS, &mut events);
        assert_eq!(events, []);
        acquired
    }

    fn release(table: &mut LockTable, number: u64) -> Vec<LockEvent> {
        let mut events = Vec::new();
        table.release(tranx(number), &mut events);
        events
    }

    #[test]
    fn acquire_exclusively_held_is_refused_at_once() {
        let mut table = LockTable::default();
        assert_eq!(ask(&mut table, 1, locks(&[], &["a"])), Acquired::Granted);
        let read = ask(&mut table, 2, locks(&["a"], &["b"]));
        assert_eq!(read, Acquired::Refused(Refusal::ReadLocked { key: key("a") }));
        let write = ask(&mut table, 2, locks(&["b"], &["a"]));
        assert_eq!(write, Acquired::Refused(Refusal::WriteLocked { key: key("a") }));
        assert_eq!(ask(&mut table, 3, locks(&["b"], &["c"])), Acquired::Granted, "the refused hold nothing");
    }

    #[test]
    fn acquire_exclusive_waits_for_readers_and_then_gets_everything() {
        let mut table = LockTable::default();
        ask(&mut table, 1, locks(&["a"], &[]));
        assert_eq!(ask(&mut table, 2, locks(&["a"], &[])), Acquired::Granted);
        assert_eq!(ask(&mut table, 3, locks(&[], &["a", "b"])), Acquired::Waits);
        assert!(!table.is_exclusively_locked(&key("b")), "who waits holds nothing");
        assert_eq!(release(&mut table, 1), []);
        assert_eq!(release(&mut table, 2), [LockEvent::Granted(tranx(3))]);
        assert!(table.is_exclusively_locked(&key("a")) && table.is_exclusively_locked(&key("b")));
        release(&mut table, 3);
        assert_eq!(table, LockTable::default());
    }

    #[test]
    fn acquire_own_read_does_not_stand_in_own_way() {
        let mut table = LockTable::default();
        let mut own = locks(&["a"], &["a", "b"]);
        own.ranges = vec![KeyRange::all()];
        assert_eq!(ask(&mut table, 1, own), Acquired::Granted);
        release(&mut table, 1);
        assert_eq!(table, LockTable::default());
    }

    #[test]
    fn acquire_first_come_first_served_and_second_is_refused_once_first_has_it() {
        let mut table = LockTable::default();
        ask(&mut table, 1, locks(&["a"], &[]));
        ask(&mut table, 2, locks(&[], &["a"]));
        assert_eq!(ask(&mut table, 3, locks(&[], &["a", "b"])), Acquired::Waits);
        let refusal = Refusal::WriteLocked { key: key("a") };
        assert_eq!(release(&mut table, 1), [LockEvent::Granted(tranx(2)), LockEvent::Refused(tranx(3), refusal)]);
    }

    #[test]
    fn acquire_waiter_whose_read_is_locked_meanwhile_is_refused() {
        let mut table = LockTable::default();
        ask(&mut table, 1, locks(&["a"], &[]));
        ask(&mut table, 2, locks(&["b"], &["a"]));
        let mut events = Vec::new();
        assert_eq!(table.acquire(tranx(3), locks(&[], &["b"]), DEADLINE_MS, &mut events), Acquired::Granted);
        assert_eq!(events, [LockEvent::Refused(tranx(2), Refusal::ReadLocked { key: key("b") })]);
    }

    #[test]
    fn acquire_range_is_shared_by_readers_and_kept_from_writers() {
        let mut table = LockTable::default();
        let range = Locks { ranges: vec![KeyRange::prefix(key("a"))], ..Default::default() };
        assert_eq!(ask(&mut table, 1, range.clone()), Acquired::Granted);
        assert_eq!(ask(&mut table, 2, range.clone()), Acquired::Granted);
        assert_eq!(ask(&mut table, 3, locks(&[], &["b"])), Acquired::Granted);
        assert_eq!(ask(&mut table, 4, locks(&[], &["aa"])), Acquired::Waits);
        release(&mut table, 1);
        assert_eq!(release(&mut table, 2), [LockEvent::Granted(tranx(4))]);
        let refused = ask(&mut table, 5, range);
        assert_eq!(refused, Acquired::Refused(Refusal::ReadLocked { key: key("aa") }));
    }

    #[test]
    fn expire_refuses_who_waited_too_long_and_lets_the_next_one_in() {
        let mut table = LockTable::default();
        let mut events = Vec::new();
        ask(&mut table, 1, locks(&["a"], &[]));
        ask(&mut table, 2, locks(&[], &["a", "b"]));
        table.acquire(tranx(3), locks(&[], &["b"]), 90, &mut events);
        assert_eq!(table.next_deadline_ms(), Some(DEADLINE_MS));
        table.expire(DEADLINE_MS - 1, &mut events);
        assert_eq!(events, []);
        table.expire(DEADLINE_MS, &mut events);
        assert_eq!(events, [LockEvent::Refused(tranx(2), Refusal::LockWaitExpired), LockEvent::Granted(tranx(3))]);
    }

    #[test]
    fn acquire_more_waiters_than_the_limit_are_refused() {
        let mut table = LockTable::default();
        ask(&mut table, 0, locks(&["a"], &[]));
        for number in 1..=MAX_WAITERS as u64 {
            assert_eq!(ask(&mut table, number, locks(&[], &["a"])), Acquired::Waits);
        }
        assert!(matches!(ask(&mut table, 999, locks(&[], &["a"])), Acquired::Refused(Refusal::Overloaded { .. })));
    }

    /// What must be true of any table: nobody reads what another may write, and nobody waits who should have been refused
    /// or granted.
    fn is_sound(table: &LockTable) {
        for (owner, held) in &table.held {
            let others = table.held.iter().filter(|(other, _)| *other != owner);
            for (other, theirs) in others {
                for key in &held.exclusive {
                    let in_range = theirs.ranges.iter().any(|range| range.contains(key));
                    let is_shared = in_range || theirs.shared.contains(key) || theirs.exclusive.contains(key);
                    assert!(!is_shared, "{owner} writes {key:?}, {other} has it too");
                }
            }
        }
        for (at, waiter) in table.waiting.iter().enumerate() {
            assert_eq!(table.exclusively_held(waiter.owner, &waiter.locks), None);
            assert!(table.is_read(waiter.owner, &waiter.locks) || table.is_wanted(&waiter.locks, at));
            assert!(!table.held.contains_key(&waiter.owner));
        }
    }

    #[test]
    fn any_requests_and_releases_leave_a_sound_table() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut table = LockTable::default();
        for step in 0..5_000 {
            let mut events = Vec::new();
            let owner = tranx(rng.random_range(0..12));
            let mut keys = |most: usize| -> Vec<Key> {
                (0..rng.random_range(0..=most)).map(|_| key(&rng.random_range(0..6_u8).to_string())).collect()
            };
            let (mut shared, exclusive, range) = (keys(2), keys(2), keys(2));
            shared.retain(|key| !exclusive.contains(key));
            let ranges = match &range[..] {
                [from, to] => vec![KeyRange::through(from.clone(), to.clone())],
                _ => vec![],
            };
            match rng.random_range(0..8) {
                0..4 => {
                    let locks = Locks { shared, ranges, exclusive };
                    table.acquire(owner, locks, step + rng.random_range(0..20), &mut events);
                }
                4 => table.expire(step, &mut events),
                _ => table.release(owner, &mut events),
            }
            is_sound(&table);
        }
        let mut events = Vec::new();
        (0..12).for_each(|number| table.release(tranx(number), &mut events));
        assert_eq!(table, LockTable::default());
    }
}
