//! The server's part in validation without reads: decisions, plain writes, removals by an index,
//! and restarts that lose what was not journaled.

use super::{
    breakage::Breakage,
    plan::{Docs, Plan},
    state::State,
    steps::Action,
};

/// Value of a document that the server has removed.
const REMOVED: u8 = 6;

/// Adds the server's next steps that are possible.
pub fn steps(plan: &Plan, state: &State, actions: &mut Vec<Action>) {
    if state.server.process < plan.restarts {
        actions.push(Action::Restart);
    }
    if state.now < plan.end {
        actions.push(Action::Tick);
    }
    let is_due = |doc: &usize| state.server.expires[*doc] && !state.server.expired[*doc];
    actions.extend((0..2).filter(is_due).map(Action::Expire));
}

/// A decision changes documents, and is journaled. Every other decision about a document brings its
/// first value back.
pub fn decide(plan: &Plan, state: &mut State, docs: Docs, by_own: bool) {
    let server = &mut state.server;
    let may_miss = plan.has(Breakage::ReadsOfAcknowledged) || by_own && plan.has(Breakage::UncountedBeforeFinisher);
    server.before = may_miss.then_some(server.values);
    for doc in (0..2).filter(|doc| docs[*doc]) {
        let stamps = if by_own { &mut server.own } else { &mut server.theirs };
        stamps[doc] += 1;
        server.values[doc] = (server.own[doc] + server.theirs[doc]) % 2;
    }
    server.journaled = server.values;
}

/// A plain write changes a document, and is not journaled yet. Its value never comes back.
pub fn write(state: &mut State, doc: usize, value: u8) {
    state.server.values[doc] = value;
    if let Some(before) = &mut state.server.before {
        before[doc] = value;
    }
}

/// The server removes a document by an index.
pub fn expire(state: &mut State, doc: usize) {
    state.server.expired[doc] = true;
    write(state, doc, REMOVED);
}

/// The server starts again, and loses what was not journaled.
pub fn restart(state: &mut State) {
    state.server.process += 1;
    state.server.values = state.server.journaled;
}
