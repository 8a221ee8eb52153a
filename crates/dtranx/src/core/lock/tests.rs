//! The lock table: who gets what, who waits, and that any requests and releases leave it sound.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    LockEvent, LockService,
    table::{Acquired, LockTable, MAX_WAITERS, WaitOver},
    wanted::Locks,
};
use crate::core::{
    Key, KeyRange, NodeConfig, Partition, Refusal, ServerId, TranxId, WorkId,
    machine::{Event, Outbox, Turn},
    tranx_service::TranxEvent,
};

const DEADLINE_MS: u64 = 50;

fn tranx(number: u64) -> WorkId {
    TranxId { server: ServerId(1), number }.into()
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

fn release(table: &mut LockTable, number: u64) -> Vec<WaitOver> {
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
    assert_eq!(release(&mut table, 2), [WaitOver::Granted(tranx(3))]);
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
    assert_eq!(release(&mut table, 1), [WaitOver::Granted(tranx(2)), WaitOver::Refused(tranx(3), refusal)]);
}

#[test]
fn acquire_waiter_whose_read_is_locked_meanwhile_is_refused() {
    let mut table = LockTable::default();
    ask(&mut table, 1, locks(&["a"], &[]));
    ask(&mut table, 2, locks(&["b"], &["a"]));
    let mut events = Vec::new();
    assert_eq!(table.acquire(tranx(3), locks(&[], &["b"]), DEADLINE_MS, &mut events), Acquired::Granted);
    assert_eq!(events, [WaitOver::Refused(tranx(2), Refusal::ReadLocked { key: key("b") })]);
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
    assert_eq!(release(&mut table, 2), [WaitOver::Granted(tranx(4))]);
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
    assert_eq!(events, [WaitOver::Refused(tranx(2), Refusal::LockWaitExpired), WaitOver::Granted(tranx(3))]);
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

/// As many of this server's own as there may be: there is room for as many of others.
#[test]
fn slots_of_other_servers_are_not_taken_by_own_transactions() {
    let mut config = NodeConfig::new(ServerId(1), Partition::Hash(vec![ServerId(1), ServerId(2)]));
    config.max_running = 3;
    let (mut service, mut out) = (LockService::default(), Outbox::default());
    let mut ask = |server: u16, number: u64| {
        let (work, key) = (TranxId { server: ServerId(server), number }.into(), format!("{server}.{number}"));
        let mut turn = Turn { now_ms: 0, config: &config, out: &mut out };
        service.on(&mut turn, LockEvent::Acquire { work, locks: locks(&[], &[&key]) });
        matches!(out.events.pop(), Some(Event::Tranx(TranxEvent::Granted { .. })))
    };
    let ours: Vec<bool> = (0..5).map(|number| ask(1, number)).collect();
    assert_eq!(ours, [true, true, true, false, false]);
    let others: Vec<bool> = (0..5).map(|number| ask(2, number)).collect();
    assert_eq!(others, [true, true, true, false, false]);
}
