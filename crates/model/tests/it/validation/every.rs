//! Every transaction of two statements beside every other, so that nobody has to think of the histories first.

use std::time::Instant;

use model::validation::{
    Level,
    Level::{Serializable, Snapshot},
    Op,
    Op::{Count, Insert, Point, Remove, Scan, Write, WriteIf, WriteMany},
    Plan, Start, TxPlan, explore_quietly,
    query::{ABSENT, ANY, ONE, Values, ZERO},
};

fn pairs_of(statements: &[Op]) -> Vec<Vec<Op>> {
    statements.iter().flat_map(|first| statements.iter().map(|second| vec![*first, *second])).collect()
}

fn tx(client: usize, ops: &[Op], level: Level) -> TxPlan {
    TxPlan { ops: ops.to_vec(), level, client, after: None }
}

/// All of these hold, and in some of them everybody can commit.
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

/// Both at this level, in both orders of age.
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

/// Both are of one client, which may decide them by one write.
fn of_one_client(mut plan: Plan) -> Plan {
    plan.txs.iter_mut().for_each(|tx| tx.client = 0);
    plan
}

fn refined(plan: Plan) -> Plan {
    Plan { refined: true, ..plan }
}

/// A third transaction, of one statement.
fn with_third(plan: Plan, ops: &[Op], level: Level) -> impl Iterator<Item = Plan> {
    ops.to_vec().into_iter().map(move |op| {
        let mut plan = plan.clone();
        plan.txs.push(tx(2, &[op], level));
        plan
    })
}

const BY_ID: [Op; 6] = [Point(0), Point(1), Write(0, ONE), WriteIf(1, ZERO, ONE), Remove(0), Insert(0, ZERO)];
const BY_VALUE: [Op; 6] =
    [Scan(0, ANY), Count(0, ONE), WriteMany(0, ONE, ZERO), Write(0, ONE), Write(1, ZERO), Insert(2, ONE)];

#[test]
fn every_pair_holds_by_id() {
    let start = [ZERO, ZERO];
    hold(every_pair(&BY_ID, &start, Snapshot));
    hold(every_pair(&BY_ID, &start, Serializable));
    hold(every_pair(&BY_ID, &start, Serializable).map(of_one_client));
    hold(every_pair(&BY_ID, &start, Serializable).map(refined));
}

#[test]
fn every_pair_holds_by_value() {
    let start = [ZERO, ONE, ABSENT];
    hold(every_pair(&BY_VALUE, &start, Snapshot));
    hold(every_pair(&BY_VALUE, &start, Serializable));
}

/// Three statements, of which the later are answered in the own view.
#[test]
fn every_own_view_holds() {
    let both = |values: [Values; 2], after| {
        let ops = [Write(0, values[0]), Write(1, values[1])];
        TxPlan { after, ..tx(1, &ops, Snapshot) }
    };
    let statements = [Write(0, ONE), Insert(2, ONE), WriteMany(0, ONE, ZERO), Count(0, ONE), Scan(0, ANY), Point(1)];
    let scripts = pairs_of(&statements).into_iter().flat_map(|ops| statements.map(|op| [&ops[..], &[op]].concat()));
    hold(scripts.map(|ops| Plan {
        docs: docs(&[ZERO, ONE, ABSENT]),
        txs: vec![tx(0, &ops, Snapshot), both([ONE, ZERO], None), both([ZERO, ONE], Some(1))],
        ..Plan::default()
    }));
}

#[test]
#[ignore = "hunt"]
fn hunt_by_id() {
    let start = [ZERO, ZERO];
    hold(every_pair(&BY_ID, &start, Serializable).flat_map(|plan| with_third(plan, &BY_ID, Serializable)));
}

#[test]
#[ignore = "hunt"]
fn hunt_by_id_mixed() {
    let start = [ZERO, ZERO];
    hold(every_pair(&BY_ID, &start, Serializable).flat_map(|plan| with_third(plan, &BY_ID, Snapshot)));
}

#[test]
#[ignore = "hunt"]
fn hunt_by_id_refined() {
    let start = [ZERO, ZERO];
    hold(every_pair(&BY_ID, &start, Serializable).flat_map(|plan| with_third(refined(plan), &BY_ID, Serializable)));
}

/// Every script, beside a client whose transactions change two documents there and back again.
fn every_one_holds_beside(statements: &[Op], level: Level) {
    let both = |values: [Values; 2], after| {
        let ops = [Write(0, values[0]), Write(1, values[1])];
        TxPlan { after, ..tx(1, &ops, Snapshot) }
    };
    hold(pairs_of(statements).into_iter().map(|ops| Plan {
        docs: docs(&[ZERO, ONE, ABSENT]),
        txs: vec![tx(0, &ops, level), both([ONE, ZERO], None), both([ZERO, ONE], Some(1))],
        ..Plan::default()
    }));
}

#[test]
fn every_one_holds_beside_values_that_come_back() {
    every_one_holds_beside(&BY_ID, Snapshot);
    every_one_holds_beside(&BY_VALUE, Snapshot);
    every_one_holds_beside(&BY_VALUE, Serializable);
}
