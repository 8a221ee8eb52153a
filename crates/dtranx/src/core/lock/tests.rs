//! Tests of the lock table: grants, waits and refusals, and the invariants after random requests.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    LockService,
    table::{Acquired, LockTable, MAX_KEY_WAITERS, MAX_WAITERS, Times, WaitOver},
};
use crate::core::{
    Incarnation, Key, KeyRange, NodeConfig, Partition, Refusal, ServerId, TranxId, ValidationId, WorkId,
    machine::{Event, Outbox, TranxEvent, Turn},
};
use crate::core::{
    machine::LockEvent,
    range::Ranges,
    wanted::{Claim, Locks},
};

const TIMES: Times = Times { now_ms: 100, wait_ms: 1000, patience_ms: 20 };

fn at(now_ms: u64) -> Times {
    Times { now_ms, ..TIMES }
}

fn tranx(number: u64) -> WorkId {
    TranxId { server: ServerId(1), number }.into()
}

fn validation(number: u64) -> WorkId {
    ValidationId { server: ServerId(1), incarnation: Incarnation(1), number }.into()
}

fn key(name: &str) -> Key {
    Key::new(name.as_bytes().to_vec()).unwrap()
}

fn locks(shared: &[&str], exclusive: &[&str]) -> Locks {
    let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect();
    Locks { shared: keys(shared), exclusive: keys(exclusive), ..Locks::default() }
}

/// Claim of a transaction that was begun `since_ms` milliseconds after the oldest one, and that may
/// hold locks on other servers.
fn of_age(since_ms: u64) -> Claim {
    Claim { since_ms: 10_000 + since_ms, waits_to_read: true, ..Claim::default() }
}

fn ask_as(table: &mut LockTable, number: u64, locks: Locks, claim: Claim) -> Acquired {
    let mut events = Vec::new();
    let acquired = table.acquire(tranx(number), locks, claim, TIMES, &mut events);
    assert_eq!(events, [], "no other transaction is concerned");
    acquired
}

/// Requests locks as the transaction of this number; a larger number means a younger transaction.
fn ask(table: &mut LockTable, number: u64, locks: Locks) -> Acquired {
    ask_as(table, number, locks, of_age(number))
}

fn release(table: &mut LockTable, number: u64) -> Vec<WaitOver> {
    let mut events = Vec::new();
    table.release(tranx(number), TIMES.now_ms, &mut events);
    events
}

fn expire(table: &mut LockTable, now_ms: u64) -> Vec<WaitOver> {
    let mut events = Vec::new();
    table.expire(at(now_ms), &mut events);
    events
}

fn granted(number: u64) -> WaitOver {
    WaitOver::Granted(tranx(number))
}

fn write_locked(number: u64, name: &str) -> WaitOver {
    WaitOver::Refused(tranx(number), Refusal::WriteLocked { key: key(name) })
}

#[test]
fn acquire_waits_for_an_exclusive_holder_and_then_gets_everything() {
    let mut table = LockTable::default();
    assert_eq!(ask(&mut table, 1, locks(&[], &["a"])), Acquired::Granted);
    assert_eq!(ask(&mut table, 2, locks(&["a"], &["b"])), Acquired::Waits);
    assert!(!table.is_exclusively_locked(&key("b")), "who waits holds nothing");
    assert_eq!(release(&mut table, 1), [granted(2)]);
    assert!(table.is_exclusively_locked(&key("b")));
    release(&mut table, 2);
    assert_eq!(table, LockTable::default());
}

#[test]
fn acquire_exclusive_waits_for_all_readers() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&["a"], &[]));
    assert_eq!(ask(&mut table, 2, locks(&["a"], &[])), Acquired::Granted);
    assert_eq!(ask(&mut table, 3, locks(&[], &["a", "b"])), Acquired::Waits);
    assert_eq!(release(&mut table, 1), []);
    assert_eq!(release(&mut table, 2), [granted(3)]);
}

#[test]
fn acquire_own_read_does_not_stand_in_own_way() {
    let mut table = LockTable::default();
    let mut own = locks(&["a"], &["a", "b"]);
    own.ranges = [KeyRange::all()].into_iter().collect();
    assert_eq!(ask(&mut table, 1, own), Acquired::Granted);
    release(&mut table, 1);
    assert_eq!(table, LockTable::default());
}

#[test]
fn acquire_the_oldest_waiter_is_served_first_whenever_it_came() {
    let mut table = LockTable::default();
    ask(&mut table, 9, locks(&[], &["a"]));
    for number in [5, 7, 3] {
        assert_eq!(ask(&mut table, number, locks(&[], &["a"])), Acquired::Waits);
    }
    let order: Vec<_> = [9, 3, 5, 7].into_iter().map(|number| release(&mut table, number)).collect();
    assert_eq!(order, [vec![granted(3)], vec![granted(5)], vec![granted(7)], vec![]]);
}

#[test]
fn acquire_no_request_overtakes_an_older_waiter_that_wants_the_same() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&["a"], &[]));
    ask(&mut table, 2, locks(&[], &["a", "b"]));
    assert_eq!(ask(&mut table, 100, locks(&[], &["b", "c"])), Acquired::Waits, "b is free, and wanted");
    assert_eq!(ask(&mut table, 101, locks(&["a"], &[])), Acquired::Waits, "it is read, and is to be written");
    assert_eq!(ask(&mut table, 102, locks(&[], &["d"])), Acquired::Granted);
    assert_eq!(release(&mut table, 1), [granted(2)]);
    assert_eq!(release(&mut table, 2), [granted(101), granted(100)]);
}

#[test]
fn acquire_readers_of_about_the_same_age_are_served_before_a_writer_and_together() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&[], &["a"]));
    for (number, exclusive) in [(2, true), (3, false), (4, true), (5, false)] {
        let wanted = if exclusive { locks(&[], &["a"]) } else { locks(&["a"], &[]) };
        assert_eq!(ask(&mut table, number, wanted), Acquired::Waits);
    }
    assert_eq!(release(&mut table, 1), [granted(3), granted(5)]);
    assert_eq!((release(&mut table, 3), release(&mut table, 5)), (vec![], vec![granted(2)]));
}

#[test]
fn acquire_what_would_not_wait_to_read_is_refused_and_holds_nothing() {
    let mut table = LockTable::default();
    ask(&mut table, 2, locks(&[], &["a"]));
    let at_once = Claim { waits_to_read: false, ..of_age(1) };
    let refused = ask_as(&mut table, 1, locks(&["a"], &["b"]), at_once);
    assert_eq!(refused, Acquired::Refused(Refusal::ReadLocked { key: key("a") }));
    assert_eq!(ask_as(&mut table, 1, locks(&["c"], &["a"]), at_once), Acquired::Waits, "it waits to write");
    assert_eq!(ask(&mut table, 3, locks(&[], &["b"])), Acquired::Granted);
}

#[test]
fn acquire_range_is_shared_by_readers_and_kept_from_writers() {
    let mut table = LockTable::default();
    let range = Locks { ranges: [KeyRange::prefix(key("a"))].into_iter().collect(), ..Default::default() };
    assert_eq!(ask(&mut table, 1, range.clone()), Acquired::Granted);
    assert_eq!(ask(&mut table, 2, range.clone()), Acquired::Granted);
    assert_eq!(ask(&mut table, 3, locks(&[], &["b"])), Acquired::Granted);
    assert_eq!(ask(&mut table, 4, locks(&[], &["aa"])), Acquired::Waits);
    release(&mut table, 1);
    assert_eq!(release(&mut table, 2), [granted(4)]);
    assert_eq!(ask(&mut table, 5, range), Acquired::Waits);
    assert_eq!(release(&mut table, 4), [granted(5)]);
}

#[test]
fn expire_younger_one_gives_way_to_an_older_one_that_does_not_move() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&[], &["a"]));
    ask(&mut table, 2, locks(&[], &["a", "b"]));
    ask(&mut table, 3, locks(&[], &["b"]));
    assert_eq!(expire(&mut table, 119), []);
    assert_eq!(expire(&mut table, 120), [write_locked(2, "a"), granted(3)], "3 was only behind 2");
}

#[test]
fn expire_older_one_waits_for_a_younger_one_and_is_refused_at_the_end() {
    let mut table = LockTable::default();
    ask(&mut table, 2, locks(&[], &["a"]));
    ask(&mut table, 1, locks(&[], &["a"]));
    for now_ms in [120, 500, 1099] {
        assert_eq!(expire(&mut table, now_ms), []);
    }
    assert_eq!(expire(&mut table, 1100), [WaitOver::Refused(tranx(1), Refusal::LockWaitExpired)]);
}

#[test]
fn expire_who_has_nothing_elsewhere_need_not_give_way() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&[], &["a"]));
    ask_as(&mut table, 2, locks(&[], &["a"]), Claim { is_alone: true, ..of_age(2) });
    assert_eq!(expire(&mut table, 1099), []);
    assert_eq!(release(&mut table, 1), [granted(2)]);
}

#[test]
fn expire_patience_begins_anew_when_the_lock_has_another_holder() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&[], &["a"]));
    ask(&mut table, 2, locks(&[], &["a"]));
    ask(&mut table, 3, locks(&[], &["a"]));
    let mut events = Vec::new();
    table.release(tranx(1), 115, &mut events);
    assert_eq!((events, expire(&mut table, 134)), (vec![granted(2)], vec![]));
    assert_eq!(expire(&mut table, 135), [write_locked(3, "a")]);
}

#[test]
fn expire_another_key_that_changes_does_not_renew_patience() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&[], &["a"]));
    ask(&mut table, 2, locks(&["b"], &[]));
    ask(&mut table, 30, locks(&[], &["a", "b"]));
    let mut events = Vec::new();
    table.release(tranx(2), 115, &mut events);
    assert_eq!((events, expire(&mut table, 120)), (vec![], vec![write_locked(30, "a")]));
}

#[test]
fn keep_locks_pass_to_the_attempt_that_names_them_before_older_waiters() {
    let mut table = LockTable::default();
    ask(&mut table, 5, locks(&["a"], &["b", "c"]));
    table.keep(tranx(5), 200);
    ask(&mut table, 1, locks(&[], &["b"]));
    ask(&mut table, 2, locks(&[], &["c"]));
    let again = Claim { kept: Some(tranx(5)), ..of_age(5) };
    let mut events = Vec::new();
    let acquired = table.acquire(tranx(6), locks(&["a"], &["b"]), again, TIMES, &mut events);
    assert_eq!((acquired, events), (Acquired::Granted, vec![granted(2)]), "c is not wanted any more");
    assert_eq!(release(&mut table, 6), [granted(1)]);
}

#[test]
fn keep_locks_without_another_attempt_are_dropped() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&[], &["a"]));
    table.keep(tranx(1), 110);
    ask_as(&mut table, 2, locks(&[], &["a"]), Claim { is_alone: true, ..of_age(2) });
    assert_eq!(expire(&mut table, 109), []);
    assert_eq!(expire(&mut table, 110), [granted(2)]);
}

#[test]
fn acquire_naming_what_was_not_kept_takes_nothing() {
    let mut table = LockTable::default();
    ask(&mut table, 5, locks(&[], &["a"]));
    let again = Claim { kept: Some(tranx(5)), ..of_age(5) };
    assert_eq!(ask_as(&mut table, 6, locks(&[], &["a"]), again), Acquired::Waits);
}

#[test]
fn probe_is_granted_once_each_key_was_free_at_some_instant() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&[], &["a"]));
    ask(&mut table, 2, locks(&[], &["b"]));
    ask(&mut table, 3, locks(&[], &["a"]));
    assert_eq!(table.probe(tranx(9), vec![key("a"), key("b")], false, TIMES), Acquired::Waits);
    assert_eq!(release(&mut table, 1), [granted(3)]);
    assert_eq!(release(&mut table, 2), [granted(9)], "a was free between 1 and 3");
}

#[test]
fn probe_is_refused_after_the_wait() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&[], &["a"]));
    table.probe(tranx(9), vec![key("a")], false, TIMES);
    assert_eq!(expire(&mut table, 1099), []);
    let refused = WaitOver::Refused(tranx(9), Refusal::ReadLocked { key: key("a") });
    assert_eq!(expire(&mut table, 1100), [refused]);
    release(&mut table, 1);
    assert_eq!(table, LockTable::default());
}

#[test]
fn refuse_all_ends_every_wait_for_who_has_gone_and_leaves_what_is_held() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&[], &["a"]));
    ask(&mut table, 2, locks(&[], &["a"]));
    ask(&mut table, 3, locks(&[], &["a"]));
    let (mut events, gone) = (Vec::new(), Refusal::NoVote { server: ServerId(1) });
    table.refuse_all(|work| work != tranx(3), &gone, TIMES.now_ms, &mut events);
    assert_eq!(events, [WaitOver::Refused(tranx(2), gone)]);
    assert_eq!(release(&mut table, 1), [granted(3)]);
}

#[test]
fn refuse_all_grants_nothing_to_who_has_gone_too() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&[], &["a"]));
    ask(&mut table, 2, locks(&[], &["a", "b"]));
    ask(&mut table, 3, locks(&[], &["b"]));
    let (mut events, gone) = (Vec::new(), Refusal::NoVote { server: ServerId(1) });
    table.refuse_all(|_| true, &gone, TIMES.now_ms, &mut events);
    assert_eq!(events, [2, 3].map(|number| WaitOver::Refused(tranx(number), gone.clone())));
    release(&mut table, 1);
    assert_eq!(table, LockTable::default(), "nothing is held");
}

#[test]
fn acquire_more_waiters_for_a_key_than_the_limit_are_refused() {
    let mut table = LockTable::default();
    ask(&mut table, 0, locks(&["a"], &[]));
    for number in 1..=MAX_KEY_WAITERS as u64 {
        assert_eq!(ask(&mut table, number, locks(&[], &["a"])), Acquired::Waits);
    }
    let limit = format!("{MAX_KEY_WAITERS} waits for the lock of one key");
    assert_eq!(ask(&mut table, 9999, locks(&[], &["a"])), Acquired::Refused(Refusal::Overloaded { limit }));
    assert_eq!(ask(&mut table, 9998, locks(&[], &["b"])), Acquired::Granted);
}

#[test]
fn acquire_more_waiters_than_the_limit_are_refused() {
    let mut table = LockTable::default();
    let names: Vec<String> = (0..=MAX_WAITERS / MAX_KEY_WAITERS).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    ask(&mut table, 0, locks(&names, &[]));
    for number in 0..MAX_WAITERS {
        let wanted = locks(&[], &names[number % names.len()..][..1]);
        assert_eq!(ask(&mut table, 1 + number as u64, wanted), Acquired::Waits);
    }
    let limit = format!("{MAX_WAITERS} waits for locks");
    let refused = Acquired::Refused(Refusal::Overloaded { limit });
    assert_eq!(ask(&mut table, 99_999, locks(&[], &["0"])), refused);
    ask(&mut table, 99_997, locks(&[], &["z"]));
    assert_eq!(table.probe(tranx(99_998), vec![key("z")], false, TIMES), refused);
}

#[test]
fn acquire_and_probe_of_other_servers_wait_where_clients_are_refused() {
    let mut table = LockTable::default();
    ask(&mut table, 0, locks(&[], &["a"]));
    for number in 0..MAX_KEY_WAITERS as u64 {
        assert_eq!(ask(&mut table, 1 + number, locks(&[], &["a"])), Acquired::Waits);
        assert_eq!(table.probe(validation(number), vec![key("a")], false, TIMES), Acquired::Waits);
    }
    let limit = format!("{MAX_KEY_WAITERS} waits for the lock of one key");
    let refused = Acquired::Refused(Refusal::Overloaded { limit });
    assert_eq!(ask(&mut table, 50_000, locks(&[], &["a"])), refused);
    assert_eq!(table.probe(validation(50_000), vec![key("a")], false, TIMES), refused);
    let of_peer = Claim { is_of_peer: true, ..of_age(2) };
    for number in 0..MAX_KEY_WAITERS as u64 {
        assert_eq!(ask_as(&mut table, 60_000 + number, locks(&[], &["a"]), of_peer), Acquired::Waits);
        assert_eq!(table.probe(validation(60_000 + number), vec![key("a")], true, TIMES), Acquired::Waits);
    }
    let limit = format!("{} waits for the lock of one key", 2 * MAX_KEY_WAITERS);
    let refused = Acquired::Refused(Refusal::Overloaded { limit });
    assert_eq!(ask_as(&mut table, 70_000, locks(&[], &["a"]), of_peer), refused);
    assert_eq!(table.probe(validation(70_000), vec![key("a")], true, TIMES), refused);
}

#[test]
fn acquire_of_another_server_waits_where_clients_fill_the_table() {
    let mut table = LockTable::default();
    let names: Vec<String> = (0..=MAX_WAITERS / MAX_KEY_WAITERS).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    ask(&mut table, 0, locks(&names, &[]));
    for number in 0..MAX_WAITERS {
        ask(&mut table, 1 + number as u64, locks(&[], &names[number % names.len()..][..1]));
    }
    let of_peer = Claim { is_of_peer: true, ..of_age(2) };
    assert_eq!(ask_as(&mut table, 60_000, locks(&[], &["0"]), of_peer), Acquired::Waits);
    ask(&mut table, 60_001, locks(&[], &["z"]));
    assert_eq!(table.probe(validation(1), vec![key("z")], true, TIMES), Acquired::Waits);
}

#[test]
fn release_looks_at_those_who_wait_for_a_range_around_its_key_and_at_no_others() {
    let mut table = LockTable::default();
    for (number, name) in [(1, "a1"), (2, "b1"), (3, "c1")] {
        ask(&mut table, number, locks(&[], &[name]));
    }
    let prefix = |name: &str| Locks { ranges: [KeyRange::prefix(key(name))].into_iter().collect(), ..Locks::default() };
    for (number, name) in [(11, "a"), (12, "b"), (13, "b1"), (14, "c")] {
        assert_eq!(ask(&mut table, number, prefix(name)), Acquired::Waits);
    }
    let concerned: Vec<WorkId> = table.concerned(&[key("b1")]).iter().map(|place| place.work).collect();
    assert_eq!(concerned, [tranx(12), tranx(13)]);
    assert_eq!(release(&mut table, 2), [granted(12), granted(13)]);
}

#[test]
fn release_of_one_of_two_keys_in_the_way_of_a_range_leaves_it_waiting_for_the_other() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&[], &["a1"]));
    ask(&mut table, 2, locks(&[], &["a2"]));
    let range = Locks { ranges: [KeyRange::prefix(key("a"))].into_iter().collect(), ..Locks::default() };
    assert_eq!(ask(&mut table, 11, range), Acquired::Waits);
    assert_eq!(release(&mut table, 1), []);
    assert_eq!(release(&mut table, 2), [granted(11)]);
    release(&mut table, 11);
    assert_eq!(table, LockTable::default(), "nothing is noted any more");
}

/// Locks of a move of this range, with the server's map.
fn fence(start: &str, end: &str) -> Locks {
    Locks { fence: Some(KeyRange::until(key(start), key(end))), ..locks(&[], &["map"]) }
}

fn is_moving(name: &str) -> Acquired {
    Acquired::Refused(Refusal::IsMoving { key: key(name) })
}

/// Fences that are granted now.
fn settled(table: &mut LockTable) -> Vec<WaitOver> {
    let mut over = Vec::new();
    table.settle_fences(200, &mut over);
    over
}

#[test]
fn fence_waits_for_all_that_is_in_its_range_and_refuses_what_comes() {
    let mut table = LockTable::default();
    let range = Locks { ranges: [KeyRange::until(key("e"), key("z"))].into_iter().collect(), ..Locks::default() };
    ask(&mut table, 1, locks(&["b"], &[]));
    ask(&mut table, 2, locks(&[], &["c"]));
    ask(&mut table, 3, range);
    assert_eq!(ask(&mut table, 4, locks(&[], &["c"])), Acquired::Waits);
    assert_eq!(ask(&mut table, 5, fence("b", "f")), Acquired::Waits);
    for coming in [locks(&["b"], &[]), locks(&[], &["d"]), Locks { fence: Some(KeyRange::all()), ..Locks::default() }] {
        assert!(matches!(ask(&mut table, 6, coming), Acquired::Refused(Refusal::IsMoving { .. })));
    }
    assert_eq!(ask(&mut table, 7, locks(&["f"], &["a"])), Acquired::Granted);
    release(&mut table, 1);
    assert_eq!(release(&mut table, 2), [granted(4)]);
    release(&mut table, 4);
    assert_eq!(settled(&mut table), [], "a range that meets it is locked");
    release(&mut table, 3);
    assert_eq!(settled(&mut table), [granted(5)]);
    assert_eq!(ask(&mut table, 8, locks(&["c"], &[])), is_moving("c"));
    release(&mut table, 5);
    assert_eq!(ask(&mut table, 8, locks(&["c"], &[])), Acquired::Granted);
    release(&mut table, 7);
    release(&mut table, 8);
    assert_eq!(table, LockTable::default());
}

#[test]
fn fence_that_has_waited_is_refused_and_leaves_nothing() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&["b"], &[]));
    assert_eq!(ask(&mut table, 2, fence("b", "f")), Acquired::Waits);
    let mut over = Vec::new();
    table.expire(at(TIMES.now_ms + TIMES.wait_ms), &mut over);
    assert_eq!(over, [WaitOver::Refused(tranx(2), Refusal::LockWaitExpired)]);
    assert_eq!(ask(&mut table, 3, locks(&["c"], &[])), Acquired::Granted);
    release(&mut table, 1);
    assert_eq!(settled(&mut table), []);
}

#[test]
fn fence_is_refused_where_another_move_changes_the_map() {
    let mut table = LockTable::default();
    assert_eq!(ask(&mut table, 1, fence("b", "f")), Acquired::Granted);
    assert_eq!(ask(&mut table, 2, fence("p", "q")), is_moving("map"));
    release(&mut table, 1);
    assert_eq!(ask(&mut table, 2, fence("p", "q")), Acquired::Granted);
}

#[test]
fn kept_fence_passes_to_the_next_attempt_alone() {
    let mut table = LockTable::default();
    ask(&mut table, 1, fence("b", "f"));
    table.keep(tranx(1), 1_000);
    assert_eq!(ask(&mut table, 2, locks(&["c"], &[])), is_moving("c"));
    let next = Claim { kept: Some(tranx(1)), ..of_age(1) };
    assert_eq!(ask_as(&mut table, 3, fence("b", "f"), next), Acquired::Granted);
    assert_eq!(ask(&mut table, 2, locks(&["c"], &[])), is_moving("c"));
    release(&mut table, 3);
    assert_eq!(table, LockTable::default());
}

#[test]
fn restored_fence_refuses_what_comes() {
    let mut table = LockTable::default();
    table.restore(tranx(1), fence("b", "f"));
    assert_eq!(ask(&mut table, 2, locks(&["c"], &[])), is_moving("c"));
    release(&mut table, 1);
    assert_eq!(ask(&mut table, 2, locks(&["c"], &[])), Acquired::Granted);
}

/// Checks the table's invariants: no transaction can read a key that another may write, each waiter
/// is blocked, and a change of a lock that blocks it wakes it.
fn is_sound(table: &LockTable) {
    for (owner, held) in &table.held {
        let held = &held.locks;
        let others = table.held.iter().filter(|(other, _)| *other != owner);
        for (other, theirs) in others {
            let theirs = &theirs.locks;
            for key in &held.exclusive {
                let in_range = theirs.ranges.iter().any(|range| range.contains(key));
                let is_shared = in_range || theirs.shared.contains(key) || theirs.exclusive.contains(key);
                assert!(!is_shared, "{owner} writes {key:?}, {other} has it too");
            }
        }
    }
    for (owner, held) in &table.held {
        let Some(fence) = &held.locks.fence else { continue };
        let mut others = table.held.iter().filter(|(other, _)| *other != owner).map(|(_, held)| &held.locks);
        assert!(others.all(|locks| locks.within(fence).is_none()), "{owner} gives {fence:?} away");
    }
    for (place, waiter) in &table.waiting {
        assert!(table.is_blocked(*place, &waiter.locks, None), "{place:?} waits without a reason");
        assert!(!table.held.contains_key(&place.work));
        let but_for_ranges = Locks { ranges: Ranges::default(), ..waiter.locks.clone() };
        let is_noted = waiter.watches.as_ref().is_some_and(|key| table.keys[key].watched.contains(place));
        assert!(is_noted || table.is_blocked(*place, &but_for_ranges, None), "nothing wakes {place:?}");
        if let Some(key) = &waiter.watches {
            let only = KeyRange::through(key.clone(), key.clone());
            assert_eq!(table.obstacle(*place, &[only]).as_ref(), Some(key), "{place:?} watches what blocks no request");
        }
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
        match rng.random_range(0..9) {
            0..4 => {
                let claim = Claim {
                    since_ms: 1000 + rng.random_range(0..100),
                    is_alone: rng.random(),
                    waits_to_read: rng.random(),
                    keeps: rng.random_ratio(1, 4),
                    kept: rng.random_ratio(1, 2).then(|| tranx(rng.random_range(0..12))),
                    takes_any: false,
                    is_of_peer: step % 3 == 0,
                };
                let locks = match &ranges[..] {
                    [range] if step % 5 == 0 => Locks { fence: Some(range.clone()), ..locks(&[], &["map"]) },
                    _ => Locks { shared, ranges: ranges.into_iter().collect(), exclusive, fence: None },
                };
                table.acquire(owner, locks, claim, at(step), &mut events);
                table.settle_fences(step, &mut events);
            }
            4 => table.expire(Times { wait_ms: 20, patience_ms: 3, ..at(step) }, &mut events),
            5 => drop(table.probe(tranx(12 + step % 4), shared, step % 2 == 0, at(step))),
            6 => table.keep(owner, step + 10),
            _ => {
                table.release(owner, step, &mut events);
                table.leave(owner, step, &mut events);
                table.settle_fences(step, &mut events);
            }
        }
        is_sound(&table);
    }
    let mut events = Vec::new();
    for number in 0..16 {
        table.release(tranx(number), 9_999, &mut events);
        table.leave(tranx(number), 9_999, &mut events);
        table.forget_probe(tranx(number));
    }
    assert_eq!(table, LockTable::default());
}

/// With as many transactions of this server as the limit allows, as many of other servers fit in.
#[test]
fn room_for_other_servers_is_not_taken_by_own_transactions() {
    let mut config = NodeConfig::new(ServerId(1), Partition::Hash(vec![ServerId(1), ServerId(2)]));
    config.max_running = 3;
    let (mut service, mut out) = (LockService::default(), Outbox::default());
    let mut ask = |server: u16, number: u64| {
        let (work, key) = (TranxId { server: ServerId(server), number }.into(), format!("{server}.{number}"));
        let mut turn = Turn { now_ms: 0, config: &config, out: &mut out };
        service.on(&mut turn, LockEvent::Acquire { work, locks: locks(&[], &[&key]), claim: Claim::default() });
        matches!(out.events.pop(), Some(Event::Tranx(TranxEvent::Granted { .. })))
    };
    let ours: Vec<bool> = (0..5).map(|number| ask(1, number)).collect();
    assert_eq!(ours, [true, true, true, false, false]);
    let others: Vec<bool> = (0..5).map(|number| ask(2, number)).collect();
    assert_eq!(others, [true, true, true, false, false]);
}
