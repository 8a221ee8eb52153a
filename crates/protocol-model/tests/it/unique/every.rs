//! Every transaction of a few statements, alone and in every pair.

use protocol_model::unique::{
    Op,
    Op::{Insert, Remove, Update},
    Plan, Sent, TxPlan, explore_quietly,
    plan::{NULL, Value},
};

use crate::DEEP;

const STRIDE: usize = 5;

fn statements(docs: usize, values: &[Value]) -> Vec<Op> {
    let of_one = |doc| values.iter().flat_map(move |value| [Insert(doc, *value), Update(doc, *value)]);
    (0..docs).flat_map(|doc| of_one(doc).chain([Remove(doc)])).collect()
}

fn transactions(statements: &[Op], length: usize) -> Vec<Vec<Op>> {
    (0..length).fold(vec![Vec::new()], |shorter, _| {
        let longer = |ops: Vec<Op>| statements.iter().map(move |op| [&ops[..], &[*op]].concat());
        shorter.into_iter().flat_map(longer).collect()
    })
}

fn tx(ops: &[Op]) -> TxPlan {
    TxPlan { ops: ops.to_vec(), ..TxPlan::default() }
}

/// Returns true if a server with transactions could run these statements one after the other.
fn is_possible(docs: &[Option<Value>], ops: &[Op]) -> bool {
    let mut docs = docs.to_vec();
    ops.iter().all(|op| {
        let taken = |doc: usize, value| docs.iter().enumerate().any(|(at, it)| at != doc && *it == Some(value));
        let (matches, refused) = match *op {
            Insert(doc, value) => (true, docs[doc].is_some() || taken(doc, value)),
            Update(doc, value) => (docs[doc].is_some(), taken(doc, value)),
            Remove(doc) => (docs[doc].is_some(), false),
        };
        if matches {
            docs[op.doc()] = op.value();
        }
        !(matches && refused)
    })
}

fn every_transaction_commits_if_it_can(sent: Sent) {
    let docs = vec![Some(1), Some(NULL), None];
    let (mut possible, mut impossible) = (0, 0);
    for ops in transactions(&statements(docs.len(), &[NULL, 1, 2]), 3) {
        let must_commit = is_possible(&docs, &ops);
        let txs = vec![TxPlan { sent, ..tx(&ops) }];
        let plan = Plan { docs: docs.clone(), txs, must_commit, ..Plan::default() };
        let report = explore_quietly(plan);
        assert!(report.complete, "{ops:?}: {report:?}");
        assert_eq!(report.examples.contains(&"all commit"), must_commit, "{ops:?}");
        *(if must_commit { &mut possible } else { &mut impossible }) += 1;
    }
    println!("{possible} transactions commit, {impossible} do not");
    assert!(possible > 1_000 && impossible > 1_000);
}

#[test]
fn every_transaction_alone_commits_if_it_can() {
    every_transaction_commits_if_it_can(Sent::Alone);
}

/// Statements that are sent together do what they do one after the other.
#[test]
fn every_transaction_that_is_sent_together_commits_if_it_can() {
    every_transaction_commits_if_it_can(Sent::Together);
    every_transaction_commits_if_it_can(Sent::Fused);
}

/// Every fifth pair; all pairs in long explorations. The number of transactions is no multiple of
/// five: each is in pairs of both orders.
fn every_pair_holds(docs: &[Option<Value>], sent: Sent) {
    let transactions = transactions(&statements(docs.len(), &[NULL, 1, 2]), 2);
    assert_ne!(transactions.len() % STRIDE, 0);
    let (mut states, mut both_commit) = (0, 0);
    let pairs = transactions.iter().flat_map(|first| transactions.iter().map(move |second| (first, second)));
    for (first, second) in pairs.step_by(if *DEEP { 1 } else { STRIDE }) {
        let txs = vec![TxPlan { sent, ..tx(first) }, TxPlan { goes_on: true, sent, ..tx(second) }];
        let plan = Plan { docs: docs.to_vec(), txs, ..Plan::default() };
        let report = explore_quietly(plan);
        assert!(report.complete, "{first:?} {second:?}: {report:?}");
        states += report.states;
        both_commit += usize::from(report.examples.contains(&"all commit"));
    }
    println!("{} transactions of {docs:?} in pairs: {states} states, {both_commit} pairs commit", transactions.len());
    assert!(both_commit > 0);
}

#[test]
fn every_pair_holds_of_a_value_and_nothing() {
    every_pair_holds(&[Some(1), None], Sent::Alone);
}

#[test]
fn every_pair_holds_of_two_values() {
    every_pair_holds(&[Some(1), Some(2)], Sent::Alone);
}

#[test]
fn every_pair_that_is_sent_together_holds() {
    every_pair_holds(&[Some(1), None], Sent::Together);
    every_pair_holds(&[Some(1), Some(2)], Sent::Fused);
}
