//! Each detector on a history that has its anomaly, and on the nearest one that has not.

use super::*;
use crate::{
    history::{Event, Log, Tx, Value},
    run::tests::without_isolation,
};

const A: Item = Item('A');
const B: Item = Item('B');

/// A history by hand: A and B are there in the beginning.
#[derive(Default)]
struct Hand(History);

impl Hand {
    fn new() -> Self {
        Self(History { initial: [A, B].into(), ..History::default() })
    }

    fn add(mut self, tx: usize, event: Event) -> Self {
        self.0.events.push((Tx(tx - 1), event));
        self
    }

    fn read(self, tx: usize, item: Item, log: &[u32]) -> Self {
        self.add(tx, Event::Read(item, Some(values(log))))
    }

    fn missed(self, tx: usize, item: Item) -> Self {
        self.add(tx, Event::Read(item, None))
    }

    fn scan(self, tx: usize, found: &[(char, &[u32])]) -> Self {
        let found = found.iter().map(|(item, log)| (Item(*item), values(log))).collect();
        self.add(tx, Event::Scan(found))
    }

    fn write(self, item: Item, value: u32) -> Self {
        self.add(value as usize / 100, Event::Wrote(item, Value(value)))
    }

    fn insert(self, item: char, value: u32) -> Self {
        self.add(value as usize / 100, Event::Inserted(Item(item), Value(value)))
    }

    fn delete(self, tx: usize, item: Item) -> Self {
        self.add(tx, Event::Deleted(item))
    }

    fn commit(self, tx: usize) -> Self {
        self.add(tx, Event::Committed)
    }

    fn abort(self, tx: usize) -> Self {
        self.add(tx, Event::Aborted)
    }

    /// Judges the history, with these logs in the end.
    fn judged(mut self, last: &[(char, &[u32])]) -> Vec<Anomaly> {
        self.0.last = last.iter().map(|(item, log)| (Item(*item), values(log))).collect();
        judge(&self.0).iter().map(|(anomaly, _)| anomaly).collect()
    }
}

fn values(log: &[u32]) -> Log {
    log.iter().copied().map(Value).collect()
}

const NOTHING: [Anomaly; 0] = [];

#[test]
fn a_serial_history_has_no_anomaly() {
    let hand = Hand::new().read(1, A, &[0]).write(A, 102).read(1, A, &[0, 102]).commit(1);
    let hand = hand.read(2, A, &[0, 102]).write(A, 202).delete(2, B).insert('C', 204).commit(2);
    let hand = hand.missed(3, B).scan(3, &[('A', &[0, 102, 202]), ('C', &[204])]).commit(3);
    assert_eq!(hand.judged(&[('A', &[0, 102, 202]), ('C', &[204])]), NOTHING);
}

#[test]
fn a_write_over_an_open_write_is_dirty() {
    let hand = || Hand::new().write(A, 101);
    let dirty = hand().write(A, 201).commit(1).commit(2).judged(&[('A', &[0, 101, 201]), ('B', &[0])]);
    assert_eq!(dirty, [Anomaly::DirtyWrite]);
    let clean = hand().commit(1).write(A, 201).commit(2).judged(&[('A', &[0, 101, 201]), ('B', &[0])]);
    assert_eq!(clean, NOTHING);
}

#[test]
fn two_items_written_in_two_orders_are_g0() {
    let hand = Hand::new().write(A, 101).write(A, 201).write(B, 202).write(B, 102).commit(1).commit(2);
    let judged = hand.judged(&[('A', &[0, 101, 201]), ('B', &[0, 202, 102])]);
    assert_eq!(judged, [Anomaly::DirtyWrite, Anomaly::G0]);
}

#[test]
fn a_read_before_the_commit_is_dirty_and_of_an_aborted_one_g1a() {
    let hand = || Hand::new().write(A, 101).read(2, A, &[0, 101]);
    assert_eq!(hand().commit(2).commit(1).judged(&[('A', &[0, 101]), ('B', &[0])]), [Anomaly::DirtyRead]);
    assert_eq!(hand().abort(1).commit(2).judged(&[('A', &[0]), ('B', &[0])]), [Anomaly::DirtyRead, Anomaly::G1a]);
    let clean = Hand::new().write(A, 101).commit(1).read(2, A, &[0, 101]).commit(2);
    assert_eq!(clean.judged(&[('A', &[0, 101]), ('B', &[0])]), NOTHING);
}

#[test]
fn a_deletion_that_is_rolled_back_must_not_be_seen() {
    let hand = Hand::new().delete(1, A).missed(2, A).abort(1).commit(2);
    assert_eq!(hand.judged(&[('A', &[0]), ('B', &[0])]), [Anomaly::DirtyRead, Anomaly::G1a]);
    let clean = Hand::new().delete(1, A).commit(1).missed(2, A).commit(2);
    assert_eq!(clean.judged(&[('B', &[0])]), NOTHING);
}

#[test]
fn what_an_aborted_transaction_left_behind_is_g1a() {
    let hand = Hand::new().write(A, 101).abort(1);
    assert_eq!(hand.judged(&[('A', &[0, 101]), ('B', &[0])]), [Anomaly::G1a]);
}

#[test]
fn a_read_between_two_writes_is_intermediate() {
    let hand = Hand::new().write(A, 101).read(2, A, &[0, 101]).write(A, 102).commit(1).commit(2);
    let judged = hand.judged(&[('A', &[0, 101, 102]), ('B', &[0])]);
    assert!(judged.contains(&Anomaly::G1b), "{judged:?}");
    let clean = Hand::new().write(A, 101).write(A, 102).commit(1).read(2, A, &[0, 101, 102]).commit(2);
    assert_eq!(clean.judged(&[('A', &[0, 101, 102]), ('B', &[0])]), NOTHING);
}

#[test]
fn reading_each_others_writes_is_g1c() {
    let hand = Hand::new().write(A, 101).write(B, 201).read(1, B, &[0, 201]).read(2, A, &[0, 101]);
    let judged = hand.commit(1).commit(2).judged(&[('A', &[0, 101]), ('B', &[0, 201])]);
    assert_eq!(judged, [Anomaly::DirtyRead, Anomaly::G1c]);
}

#[test]
fn writing_over_what_was_not_read_loses_an_update() {
    let hand = || Hand::new().read(1, A, &[0]).read(2, A, &[0]).write(A, 202).commit(2);
    let lost = hand().write(A, 102).commit(1).judged(&[('A', &[0, 202, 102]), ('B', &[0])]);
    assert_eq!(lost, [Anomaly::LostUpdate, Anomaly::GSingle]);
    let prevented = hand().abort(1).judged(&[('A', &[0, 202]), ('B', &[0])]);
    assert_eq!(prevented, NOTHING);
}

#[test]
fn a_second_read_that_differs_is_not_repeatable() {
    let hand = Hand::new().read(1, A, &[0]).write(A, 201).commit(2).read(1, A, &[0, 201]).commit(1);
    assert_eq!(hand.judged(&[('A', &[0, 201]), ('B', &[0])]), [Anomaly::NonRepeatableRead, Anomaly::GSingle]);
    let gone = Hand::new().read(1, A, &[0]).delete(2, A).commit(2).missed(1, A).abort(1);
    assert_eq!(gone.judged(&[('B', &[0])]), [Anomaly::NonRepeatableRead]);
    let own = Hand::new().read(1, A, &[0]).write(A, 102).read(1, A, &[0, 102]).commit(1);
    assert_eq!(own.judged(&[('A', &[0, 102]), ('B', &[0])]), NOTHING);
}

#[test]
fn an_old_and_a_new_value_are_read_skew() {
    let hand = Hand::new().read(1, A, &[0]).write(A, 201).write(B, 202).commit(2).read(1, B, &[0, 202]).commit(1);
    assert_eq!(hand.judged(&[('A', &[0, 201]), ('B', &[0, 202])]), [Anomaly::GSingle]);
    let old = Hand::new().read(1, A, &[0]).write(A, 201).write(B, 202).read(1, B, &[0]).commit(2).commit(1);
    assert_eq!(old.judged(&[('A', &[0, 201]), ('B', &[0, 202])]), NOTHING);
}

#[test]
fn reading_both_and_writing_one_each_is_write_skew() {
    let hand = Hand::new().read(1, A, &[0]).read(1, B, &[0]).read(2, A, &[0]).read(2, B, &[0]);
    let hand = hand.write(A, 103).write(B, 203).commit(1).commit(2);
    assert_eq!(hand.judged(&[('A', &[0, 103]), ('B', &[0, 203])]), [Anomaly::G2Item]);
}

#[test]
fn a_cycle_of_three_is_found() {
    let hand = Hand::new().read(1, A, &[0]).read(2, B, &[0]).missed(3, Item('C'));
    let hand = hand.insert('C', 102).write(A, 202).write(B, 302).commit(1).commit(2).commit(3);
    // T1 before T2 (A), T2 before T3 (B), T3 before T1 (C, which was not there).
    assert_eq!(hand.judged(&[('A', &[0, 202]), ('B', &[0, 302]), ('C', &[102])]), [Anomaly::G2]);
}

#[test]
fn a_document_that_appears_is_a_phantom() {
    let old: &[(char, &[u32])] = &[('A', &[0]), ('B', &[0])];
    let new: &[(char, &[u32])] = &[('A', &[0]), ('B', &[0]), ('C', &[201])];
    let hand = Hand::new().scan(1, old).insert('C', 201).commit(2).scan(1, new).commit(1);
    assert_eq!(hand.judged(new), [Anomaly::Phantom, Anomaly::G2]);
    let own = Hand::new().scan(2, old).insert('C', 201).scan(2, new).commit(2);
    assert_eq!(own.judged(new), NOTHING);
}

#[test]
fn two_who_insert_what_the_other_did_not_find_are_g2() {
    let old: &[(char, &[u32])] = &[('A', &[0]), ('B', &[0])];
    let hand = Hand::new().scan(1, old).scan(2, old).insert('C', 102).insert('D', 202).commit(1).commit(2);
    assert_eq!(hand.judged(&[('A', &[0]), ('B', &[0]), ('C', &[102]), ('D', &[202])]), [Anomaly::G2]);
}

#[test]
fn a_read_that_misses_an_acknowledged_commit_is_stale() {
    let hand = Hand::new().write(A, 101).commit(1).read(2, A, &[0]).commit(2);
    assert_eq!(hand.judged(&[('A', &[0, 101]), ('B', &[0])]), [Anomaly::StaleRead]);
    let deleted = Hand::new().delete(1, A).commit(1).read(2, A, &[0]).commit(2);
    assert_eq!(deleted.judged(&[('B', &[0])]), [Anomaly::StaleRead]);
    let inserted = Hand::new().insert('C', 101).commit(1).missed(2, Item('C')).commit(2);
    assert_eq!(inserted.judged(&[('A', &[0]), ('B', &[0]), ('C', &[101])]), [Anomaly::StaleRead]);
}

#[test]
fn own_writes_must_be_seen() {
    let hand = Hand::new().write(A, 101).read(1, A, &[0]).abort(1);
    assert_eq!(hand.judged(&[('A', &[0]), ('B', &[0])]), [Anomaly::MissedOwnWrite]);
    let deleted = Hand::new().delete(1, A).read(1, A, &[0]).abort(1);
    assert_eq!(deleted.judged(&[('A', &[0]), ('B', &[0])]), [Anomaly::MissedOwnWrite]);
}

#[test]
fn committed_writes_must_stay() {
    let hand = Hand::new().write(A, 101).commit(1);
    assert_eq!(hand.judged(&[('A', &[0]), ('B', &[0])]), [Anomaly::LostWrite]);
    let undeleted = Hand::new().delete(1, A).commit(1);
    assert_eq!(undeleted.judged(&[('A', &[0]), ('B', &[0])]), [Anomaly::LostWrite]);
    assert_eq!(Hand::new().write(A, 101).abort(1).judged(&[('B', &[0])]), [Anomaly::LostWrite]);
}

#[test]
fn without_isolation_every_anomaly_of_isolation_occurs() {
    let plans: [&[&str]; 7] = [
        &["W(A,B) C", "W(A,B) C"],
        &["W(A,A) A", "R(A) C"],
        &["W(A) R(B) C", "W(B) R(A) C"],
        &["R(A) W(A) C", "R(A) W(A) C"],
        &["R(A) R(A,B) C", "W(A,B) C"],
        &["R(A,B) W(A) C", "R(A,B) W(B) C"],
        &["P() P() C", "I(C) C"],
    ];
    let found: BTreeSet<Anomaly> = plans
        .iter()
        .flat_map(|texts| without_isolation(texts))
        .flat_map(|history| judge(&history).iter().map(|(anomaly, _)| anomaly).collect::<Vec<_>>())
        .collect();
    for anomaly in Anomaly::ALL {
        let may_be_missing = matches!(anomaly, Anomaly::StaleRead | Anomaly::MissedOwnWrite | Anomaly::LostWrite);
        assert!(may_be_missing || found.contains(&anomaly), "{anomaly}");
    }
}
