//! Every transaction of two statements beside every other, so that no history is left out because
//! its author did not think of it.

use std::time::Instant;

use protocol_model::validation::{
    Asks, Level,
    Level::{Serializable, Snapshot},
    Op,
    Op::{Count, First, Insert, Point, Remove, Scan, Write, WriteIf, WriteMany},
    Plan, Start, TxPlan, explore_quietly,
    query::{ABSENT, ANY, ONE, Values, ZERO},
};

use crate::{DEEP, deep};

fn pairs_of(statements: &[Op]) -> Vec<Vec<Op>> {
    statements.iter().flat_map(|first| statements.iter().map(|second| vec![*first, *second])).collect()
}

fn tx(client: usize, ops: &[Op], level: Level) -> TxPlan {
    TxPlan { ops: ops.to_vec(), level, client, ..TxPlan::default() }
}

/// Step between the pairs that are explored, except in long explorations: no divisor of the number
/// of pairs, so that each statement meets every other.
const STRIDE: usize = 5;

/// Every fifth of these plans holds (in long explorations, all), and in some of them all
/// transactions can commit.
fn some_hold(plans: impl Iterator<Item = Plan>) {
    hold(plans.step_by(if *DEEP { 1 } else { STRIDE }));
}

/// All of these plans hold, and in some of them all transactions can commit.
fn hold(plans: impl Iterator<Item = Plan>) {
    let (mut count, mut states, mut all_commit, begun) = (0, 0, 0, Instant::now());
    for plan in plans {
        let report = explore_quietly(plan.clone());
        assert!(report.complete, "{plan:?}: {report:?}");
        count += 1;
        states += report.states;
        all_commit += usize::from(report.examples.contains(&"all commit"));
    }
    println!("{count} plans, {states} states, all commit in {all_commit}, {:.1?}", begun.elapsed());
    assert!(all_commit > 0);
}

fn docs(values: &[Values]) -> Vec<Start> {
    values.iter().map(|value| Start { ns: 0, value: *value }).collect()
}

/// Plans of both transactions at this level, in both orders of age.
fn every_pair(statements: &[Op], start: &[Values], level: Level) -> impl Iterator<Item = Plan> {
    let (scripts, start) = (pairs_of(statements), docs(start));
    let others = scripts.clone();
    let pairs =
        scripts.into_iter().flat_map(move |one| others.clone().into_iter().map(move |other| [one.clone(), other]));
    pairs.map(move |[one, other]| Plan {
        docs: start.clone(),
        txs: vec![tx(0, &one, level), tx(1, &other, level)],
        ..Plan::default()
    })
}

/// The plan with both transactions of one client, which may decide them by one write.
fn of_one_client(mut plan: Plan) -> Plan {
    plan.txs.iter_mut().for_each(|tx| tx.client = 0);
    plan
}

fn refined(plan: Plan) -> Plan {
    Plan { refined: true, ..plan }
}

/// Transactions at serializable ask for quiet.
fn quiet(mut plan: Plan) -> Plan {
    plan.txs.iter_mut().for_each(|tx| tx.asks = if tx.level == Serializable { Asks::First } else { Asks::Never });
    plan
}

/// A third transaction, of one statement.
fn with_third(plan: Plan, ops: &[Op], level: Level) -> impl Iterator<Item = Plan> {
    ops.iter().map(move |op| {
        let mut plan = plan.clone();
        plan.txs.push(tx(2, &[*op], level));
        plan
    })
}

/// A client whose transactions change two documents there and back again, beside these statements.
fn beside_to_and_fro(ops: &[Op], level: Level) -> Plan {
    let both = |values: [Values; 2], after| {
        let ops = [Write(0, values[0]), Write(1, values[1])];
        TxPlan { after, ..tx(1, &ops, Snapshot) }
    };
    Plan {
        docs: docs(&[ZERO, ONE, ABSENT]),
        txs: vec![tx(0, ops, level), both([ONE, ZERO], None), both([ZERO, ONE], Some(1))],
        ..Plan::default()
    }
}

/// Only the first of these statements; in long explorations, all.
fn some(statements: &[Op], first: usize) -> &[Op] {
    if *DEEP { statements } else { &statements[..first] }
}

const BY_ID: [Op; 6] = [Point(0), Write(0, ONE), WriteIf(1, ZERO, ONE), Point(1), Remove(0), Insert(0, ZERO)];
const BY_VALUE: [Op; 7] = [
    Count(0, ONE),
    Write(0, ONE),
    WriteMany(0, ONE, ZERO),
    Insert(2, ONE),
    Scan(0, ANY),
    First(0, ANY),
    Write(1, ZERO),
];
const IDS: [Values; 2] = [ZERO, ZERO];
const VALUES: [Values; 3] = [ZERO, ONE, ABSENT];

#[test]
fn every_pair_holds_by_id() {
    hold(every_pair(&BY_ID, &IDS, Snapshot));
    hold(every_pair(&BY_ID, &IDS, Serializable));
    hold(every_pair(&BY_ID, &[ABSENT, ZERO], Serializable));
    hold(every_pair(&BY_ID, &IDS, Serializable).map(of_one_client));
    hold(every_pair(&BY_ID, &IDS, Serializable).map(refined));
    hold(every_pair(&BY_ID, &IDS, Serializable).map(|plan| Plan { lock_waits: true, ..plan }));
}

#[test]
fn every_pair_holds_by_value() {
    let statements = some(&BY_VALUE, 4);
    hold(every_pair(statements, &VALUES, Snapshot));
    hold(every_pair(statements, &VALUES, Serializable));
    hold(every_pair(statements, &VALUES, Serializable).map(|plan| Plan { one_by_one: true, ..plan }));
    hold(every_pair(statements, &VALUES, Serializable).map(|plan| Plan { lock_waits: true, ..plan }));
}

#[test]
fn every_pair_holds_beside_a_third() {
    let strict = || every_pair(some(&BY_ID, 3), &IDS, Serializable);
    some_hold(strict().flat_map(|plan| with_third(plan, &BY_ID, Serializable)));
    some_hold(strict().flat_map(|plan| with_third(plan, &BY_ID, Snapshot)));
    some_hold(strict().flat_map(|plan| with_third(refined(plan), &BY_ID, Serializable)));
    let weaker = every_pair(some(&BY_ID, 3), &IDS, Snapshot);
    some_hold(weaker.flat_map(|plan| with_third(plan, &BY_ID, Serializable)));
    let strict = || every_pair(&BY_VALUE[..usize::from(deep(3))], &VALUES, Serializable);
    some_hold(strict().flat_map(|plan| with_third(plan, &BY_VALUE[..2], Serializable)));
}

#[test]
fn every_pair_holds_in_quiet() {
    some_hold(every_pair(some(&BY_ID, 4), &IDS, Serializable).map(quiet));
    some_hold(every_pair(some(&BY_ID, 4), &IDS, Serializable).map(of_one_client).map(quiet));
    some_hold(every_pair(some(&BY_VALUE, 3), &VALUES, Serializable).map(quiet));
    let strict = || every_pair(some(&BY_ID, 2), &IDS, Serializable);
    some_hold(strict().flat_map(|plan| with_third(plan, &[Scan(0, ANY)], Serializable)).map(|mut plan| {
        plan.txs[2].asks = Asks::First;
        plan
    }));
}

#[test]
fn every_pair_holds_over_a_restart() {
    some_hold(every_pair(some(&BY_ID, 3), &IDS, Snapshot).map(|plan| Plan { restarts: 1, ..plan }));
    some_hold(every_pair(some(&BY_ID, 3), &IDS, Serializable).map(|plan| Plan { restarts: 1, ..plan }));
}

#[test]
fn every_one_holds_beside_values_that_come_back() {
    for level in [Snapshot, Serializable] {
        hold(pairs_of(&BY_ID).iter().map(|ops| beside_to_and_fro(ops, level)));
        hold(pairs_of(&BY_VALUE).iter().map(|ops| beside_to_and_fro(ops, level)));
    }
}

/// Three statements, of which the later are answered in the own view.
#[test]
fn every_own_view_holds() {
    let statements = some(&BY_VALUE, 4);
    let longer = |ops: &Vec<Op>| statements.iter().map(|op| [&ops[..], &[*op]].concat()).collect::<Vec<_>>();
    let scripts: Vec<_> = pairs_of(statements).iter().flat_map(longer).collect();
    some_hold(scripts.iter().map(|ops| beside_to_and_fro(ops, Snapshot)));
}

/// The first of several statements in the transaction's own view.
#[test]
fn every_first_holds() {
    let scripts = [
        [Write(2, ONE), First(0, ONE), Write(2, ZERO)],
        [Insert(2, ZERO), First(0, ANY), Remove(2)],
        [Insert(2, ONE), First(0, ANY), Write(0, ONE)],
        [First(0, ONE), Insert(2, ONE), First(0, ONE)],
    ];
    some_hold(scripts.iter().map(|ops| beside_to_and_fro(ops, Snapshot)));
    some_hold(scripts.iter().map(|ops| beside_to_and_fro(ops, Serializable)));
}
