//! The client's transactions: they write, are decided, and their documents are finished.

use super::{
    plan::{Breakage, Plan},
    state::{Document, Phase, State},
    steps::Action,
};

/// Adds the next steps of this transaction that are possible.
pub fn steps(plan: &Plan, state: &State, transaction: usize, actions: &mut Vec<Action>) {
    let writes = plan.writes[transaction];
    match state.phases[transaction] {
        Phase::Writes(done) if done < writes.len() => {
            if may_lock(state, &state.documents[writes[done]]) {
                actions.push(Action::Write(transaction));
            }
        }
        Phase::Writes(_) => actions.push(Action::Begin(transaction)),
        Phase::Deciding => actions.extend([Action::Decide(transaction), Action::Refuse(transaction)]),
        Phase::Decided => actions.push(Action::Learn(transaction)),
        Phase::Known | Phase::RolledBack => {}
    }
    let is_over = matches!(state.phases[transaction], Phase::Decided | Phase::Known | Phase::RolledBack);
    let is_held = |document: &usize| state.documents[*document].held.is_some_and(|(holder, _)| holder == transaction);
    actions.extend(writes.iter().copied().filter(|at| is_over && is_held(at)).map(Action::Finish));
}

/// A document is free, or was left by a transaction that is known to be committed.
fn may_lock(state: &State, document: &Document) -> bool {
    document.held.is_none_or(|(holder, _)| state.phases[holder] == Phase::Known)
}

/// Locks the next document, and takes over what is left there.
pub fn write(plan: &Plan, state: &mut State, transaction: usize) {
    let Phase::Writes(done) = state.phases[transaction] else { return };
    let document = &mut state.documents[plan.writes[transaction][done]];
    let safe = document.held.map_or(document.safe, |(_, left)| left);
    *document = Document { safe, held: Some((transaction, safe | 1 << transaction)) };
    state.phases[transaction] = Phase::Writes(done + 1);
}

/// The transaction is about to be decided.
pub fn begin(plan: &Plan, state: &mut State, transaction: usize) {
    state.phases[transaction] = Phase::Deciding;
    if !plan.has(Breakage::CountedWhenKnown) {
        state.begun.push(transaction);
    }
}

/// The server commits the transaction.
pub fn decide(state: &mut State, transaction: usize) {
    state.phases[transaction] = Phase::Decided;
    state.order.push(transaction);
}

/// The client learns that the transaction is committed.
pub fn learn(plan: &Plan, state: &mut State, transaction: usize) {
    state.phases[transaction] = Phase::Known;
    if plan.has(Breakage::CountedWhenKnown) {
        state.begun.push(transaction);
    }
}

/// Makes a document clean whose holder is decided.
pub fn finish(state: &mut State, at: usize) {
    let Some((holder, left)) = state.documents[at].held else { return };
    let safe = if state.is_committed(holder) { left } else { state.documents[at].safe };
    state.documents[at] = Document { safe, held: None };
}
