//! Evidence, and the write to the client's record that decides one transaction or several and sets
//! the stamps of the collections that they wrote.

use protocol::TxStatus;

use super::{
    breakage::Breakage,
    ending::{end, next_stamp},
    judge,
    plan::Plan,
    query::{Docs, Written},
    quiet,
    state::State,
    transaction::Step,
    validating,
};

/// Proves that the server process in which the transaction began still runs and has journaled its
/// locks.
pub fn prove(state: &mut State, t: usize) {
    if state.runs[t].boot != state.boot {
        return state.roll_back(t);
    }
    state.journal_end = None;
    state.runs[t].step = Step::Deciding;
}

/// Decides the transaction by one write to the record.
pub fn decide(plan: &Plan, state: &mut State, t: usize) {
    if let Some(heard) = quiet::refuses(plan, state, t) {
        return again(plan, state, t, heard);
    }
    decide_all(plan, state, &[t]);
    if plan.has(Breakage::StampsAfterDecision) {
        state.runs[t].step = Step::Stamping;
        return;
    }
    set_stamps(plan, state, t, state.runs[t].own.docs);
    if plan.restarts > 0 { state.runs[t].step = Step::Decided } else { end(plan, state, t) }
}

/// Validates the transaction again after its decision was refused.
fn again(plan: &Plan, state: &mut State, t: usize, heard: usize) {
    state.heard[plan.txs[t].client] = Some(heard);
    state.runs[t].was_refused = true;
    validating::begin(plan, state, t);
}

/// The transactions of a client that can be decided by one write.
pub fn together(plan: &Plan, state: &State, client: usize) -> Vec<usize> {
    let is_free = |t: usize| !quiet::holds_back(plan, state, t) && quiet::refuses(plan, state, t).is_none();
    let is_ready = |t: &usize| plan.txs[*t].client == client && state.runs[*t].step == Step::Deciding && is_free(*t);
    (0..state.runs.len()).filter(is_ready).collect()
}

/// One write decides all the transactions of a client that are ready.
pub fn decide_together(plan: &Plan, state: &mut State, client: usize) {
    let ready = together(plan, state, client);
    decide_all(plan, state, &ready);
    let several = if plan.has(Breakage::OneOfSeveralStamped) { &ready[..1] } else { &ready[..] };
    let written = several.iter().fold(0, |docs, t| docs | state.runs[*t].own.docs);
    set_stamps(plan, state, ready[0], written);
    for t in ready {
        end(plan, state, t);
    }
}

fn decide_all(plan: &Plan, state: &mut State, ready: &[usize]) {
    let mut written = Written::default();
    for t in ready.iter().copied() {
        judge::committed(plan, state, t);
        let own = state.runs[t].own;
        written = Written { docs: written.docs | own.docs, values: written.values | own.values };
    }
    let stamp = next_stamp(plan, state, ready[0]);
    for t in ready.iter().copied() {
        state.runs[t].stamp = stamp;
        state.now.records[plan.txs[t].client].committed |= 1 << t;
    }
    state.happens(written);
    judge::ordered(plan, state, ready[0]);
}

/// Sets the stamps of these documents' collections to that of the write that decides `t`.
fn set_stamps(plan: &Plan, state: &mut State, t: usize, docs: Docs) {
    let mut written = plan.stamps(docs);
    if plan.has(Breakage::OneCollectionStamped) {
        written = 1 << written.trailing_zeros();
    }
    let stamp = state.runs[t].stamp;
    let changes = &mut state.now.records[plan.txs[t].client].changes;
    for (_, change) in changes.iter_mut().enumerate().filter(|(at, _)| written >> at & 1 == 1) {
        *change = stamp;
    }
}

/// Broken on purpose: sets the stamps after the decision.
pub fn stamp(plan: &Plan, state: &mut State, t: usize) {
    set_stamps(plan, state, t, state.runs[t].own.docs);
    end(plan, state, t);
}

/// Acknowledges the decision once it is journaled. A decision that a restart has lost is sent again
/// with the same content.
pub fn acknowledge(plan: &Plan, state: &mut State, t: usize) {
    if state.status(plan, t) == TxStatus::Committed {
        state.journal_end = None;
        end(plan, state, t);
    } else if quiet::is_planned(plan) {
        // The protocol's owner finds out whether the decision was applied; this model leaves that
        // out.
        state.roll_back(t);
    } else {
        decide(plan, state, t);
    }
}
