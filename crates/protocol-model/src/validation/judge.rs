//! Judges of a transaction at its decision, by brute force over moments and over orders.

use super::{
    plan::{Level, Plan},
    query::Docs,
    state::{Flaw, State},
    transaction::Run,
};

/// Judges the answers of a transaction that is about to be committed.
pub fn committed(plan: &Plan, state: &mut State, t: usize) {
    if state.runs[t].own.docs == 0 {
        ordered(plan, state, t);
    }
    let run = &state.runs[t];
    let moments = &state.now.history[run.locked_at..];
    let untouched = |at: usize| moments[at + 1..].iter().all(|later| later.wrote & run.own.docs == 0);
    let has_moment = (0..moments.len()).any(|at| are_answers_true(run, moments[at].docs) && untouched(at));
    if !has_moment {
        let flaw = if untouched(0) { Flaw::NoMoment } else { Flaw::LostUpdate };
        state.flaw.get_or_insert(flaw);
    }
}

/// Returns true if the answers of a transaction are true if these documents were committed.
fn are_answers_true(run: &Run, docs: Docs) -> bool {
    run.answers.iter().all(|answer| answer.query.answer(answer.own.over(docs)) == answer.result)
}

/// Judges whether the transactions that are committed, `t` among them, have a serial order.
pub fn ordered(plan: &Plan, state: &mut State, t: usize) {
    let strict = plan.txs.iter().any(|tx| tx.level == Level::Serializable);
    let members = state.committed | decided(state) | 1 << t;
    if strict && !has_order(plan, state, members, state.now.history[0].docs) {
        state.flaw.get_or_insert(Flaw::NoOrder);
    }
}

/// One bit for each transaction whose decision is in a record.
fn decided(state: &State) -> u8 {
    state.now.records.iter().fold(0, |all, record| all | record.committed)
}

/// Returns true if the remaining transactions can run one after the other and end in the values
/// that are committed now. The order must put no transaction before one that had ended before it
/// began, and the answers of those at serializable must be true in it.
fn has_order(plan: &Plan, state: &State, left: u8, docs: Docs) -> bool {
    if left == 0 {
        return docs == state.now.history[state.latest()].docs;
    }
    (0..plan.txs.len()).filter(|t| left >> t & 1 == 1).any(|t| {
        let run = &state.runs[t];
        let follows = run.before & left != 0;
        let is_true = plan.txs[t].level == Level::Snapshot || are_answers_true(run, docs);
        !follows && is_true && has_order(plan, state, left & !(1 << t), run.own.over(docs))
    })
}
