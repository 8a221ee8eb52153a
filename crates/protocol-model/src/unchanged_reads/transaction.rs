//! The transaction: its beginning, its reads, and its lock. Its validation is in `validating`.

use super::{
    breakage::Breakage,
    own,
    plan::Plan,
    state::{Phase, State},
    steps::Action,
};

/// Adds the transaction's next steps that are possible.
pub fn steps(plan: &Plan, state: &State, actions: &mut Vec<Action>) {
    let tx = &state.tx;
    match (tx.phase, next(state)) {
        (Phase::Out, _) => actions.push(Action::Begin),
        (Phase::Reads, Some(doc)) => {
            actions.push(Action::Read { misses: false });
            if may_miss(plan, state, doc) {
                actions.push(Action::Read { misses: true });
            }
        }
        (Phase::Reads, None) if tx.locked || plan.has(Breakage::LookBeforeLock) => actions.push(Action::Validate),
        _ => {}
    }
    if !tx.locked && next(state).is_none() {
        actions.push(Action::Lock);
    }
}

/// The document that is read next.
fn next(state: &State) -> Option<usize> {
    state.tx.read.iter().position(Option::is_none)
}

/// Returns true if a read may miss the last decision. Reads wait for a decision that counts as
/// being under way (decision 0066).
fn may_miss(plan: &Plan, state: &State, doc: usize) -> bool {
    let is_kept_away = own::is_changing(plan, state, doc) && !plan.has(Breakage::ReadsOfAcknowledged);
    state.server.before.is_some() && !is_kept_away
}

/// The transaction begins: it remembers the number of own changes, and the last look.
pub fn begin(plan: &Plan, state: &mut State) {
    state.tx.phase = Phase::Reads;
    remember(state, !plan.has(Breakage::BaseAfterRead), !plan.has(Breakage::LookAfterRead));
}

fn remember(state: &mut State, base: bool, look: bool) {
    state.tx.has_base |= base;
    if look {
        state.tx.first = state.client.look;
    }
}

/// The server reads the next document.
pub fn read(plan: &Plan, state: &mut State, misses: bool) {
    let Some(doc) = next(state) else { return };
    if doc == 1 {
        remember(state, plan.has(Breakage::BaseAfterRead), plan.has(Breakage::LookAfterRead));
    }
    state.client.process = state.server.process;
    let shown = state.server.before.filter(|_| misses).unwrap_or(state.server.values);
    state.tx.read[doc] = Some(shown[doc]);
}

/// The server locks the transaction's document.
pub fn lock(state: &mut State) {
    state.client.process = state.server.process;
    state.tx.locked = true;
}
