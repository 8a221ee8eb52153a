//! End of a transaction before and after the write that decides it: the stamp that the write sets,
//! and the client's memory of that stamp.

use super::{breakage::Breakage, plan::Plan, quiet, state::State, transaction::Step};

/// The stamp of the write that decides this transaction.
pub fn next_stamp(plan: &Plan, state: &State, t: usize) -> u8 {
    let client = plan.txs[t].client;
    let last = state.runs.iter().zip(&plan.txs).filter(|(_, tx)| tx.client == client).map(|(run, _)| run.stamp).max();
    let decided = state.now.records[client].committed.count_ones() as u8;
    match (state.runs[t].stamp, plan.has(Breakage::StampUsedTwice)) {
        (_, true) => 1 + decided % 2,
        (0, false) => last.unwrap_or(0) + 1,
        (sent, false) => sent,
    }
}

/// Notes the stamp of the decision in the client's memory.
fn know(plan: &Plan, state: &mut State, t: usize, stamp: u8) {
    let written = plan.stamps(state.runs[t].own.docs);
    let Some(memory) = state.memories.get_mut(plan.txs[t].client) else { return };
    for (_, own) in memory.own.iter_mut().enumerate().filter(|(at, _)| written >> at & 1 == 1) {
        *own = stamp.max(*own);
    }
}

/// Makes the transaction ready for its decision.
pub fn ready(plan: &Plan, state: &mut State, t: usize) {
    if plan.has(Breakage::KnownBeforeDecided) {
        know(plan, state, t, next_stamp(plan, state, t));
    }
    state.runs[t].step = if plan.restarts > 0 { Step::Proving } else { Step::Deciding };
    if !quiet::is_planned(plan) {
        state.runs[t].entries.clear();
    }
}

/// Notes that the transaction is committed, and that this was reported.
pub fn end(plan: &Plan, state: &mut State, t: usize) {
    know(plan, state, t, state.runs[t].stamp);
    state.committed |= 1 << t;
    state.runs[t].forget();
    state.runs[t].step = Step::Over;
}
