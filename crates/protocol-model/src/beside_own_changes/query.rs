//! The query: its permit, its reads, and what it shows.

use super::{
    plan::{Breakage, Plan},
    state::{DOCUMENTS, Document, Phase, Query, State, Version},
    steps::Action,
};

/// Adds the query's next steps that are possible.
pub fn steps(plan: &Plan, state: &State, actions: &mut Vec<Action>) {
    let unread = (0..DOCUMENTS).filter(|at| state.read[*at].is_none());
    match state.query {
        Query::Out => actions.push(Action::Permit),
        Query::Reads => {
            actions.extend(unread.map(Action::Read));
            if state.read.iter().all(Option::is_some) {
                actions.push(Action::Answer);
            }
        }
        Query::Asks => {
            let unasked = holders(state).into_iter().filter(|holder| state.outcomes[*holder].is_none());
            let unasked: Vec<usize> = unasked.collect();
            if plan.has(Breakage::LookedBeforeAsking) && state.later.is_none() {
                actions.push(Action::Look);
            } else if unasked.is_empty() {
                actions.push(Action::HaveOutcomes);
            } else {
                actions.extend(unasked.into_iter().map(Action::Ask));
            }
        }
        Query::HasOutcomes if state.later.is_none() => actions.push(Action::Look),
        Query::HasOutcomes => actions.push(Action::Judge),
        Query::Believed(_) | Query::InVain => {}
    }
}

/// The transactions that hold documents of the answer.
fn holders(state: &State) -> Vec<usize> {
    let held = state.read.iter().flatten().filter_map(|document| document.held);
    let mut holders: Vec<usize> = held.map(|(holder, _)| holder).collect();
    holders.sort_unstable();
    holders.dedup();
    holders
}

/// The query is permitted, and sent.
pub fn permit(plan: &Plan, state: &mut State) {
    state.query = Query::Reads;
    state.committed = state.order.len();
    if !plan.has(Breakage::PermittedLate) {
        note_begun(state);
    }
}

/// Notes what has begun to be decided, and what of it is not over.
fn note_begun(state: &mut State) {
    state.permitted = Some(state.begun.len());
    let is_open = |one: &usize| matches!(state.phases[*one], Phase::Deciding | Phase::Decided);
    state.open = state.begun.iter().copied().filter(is_open).collect();
}

/// The server reads a document for the query.
pub fn read(state: &mut State, at: usize) {
    if state.permitted.is_none() && state.read.iter().any(Option::is_some) {
        note_begun(state);
    }
    state.read[at] = Some(state.documents[at]);
}

/// Asks whether a transaction is committed. One that is being decided may not be.
pub fn ask(plan: &Plan, state: &mut State, holder: usize) {
    let is_known = state.phases[holder] == Phase::Known;
    let is_committed = if plan.has(Breakage::OutcomeNotAsked) { is_known } else { state.is_committed(holder) };
    state.outcomes[holder] = Some(is_committed);
}

/// Looks at the transactions that have begun since the permit.
pub fn look(state: &mut State) {
    let permitted = state.permitted.unwrap_or_default();
    state.later = Some(state.begun[permitted..].to_vec());
}

/// Believes the answer, or does not.
pub fn judge(plan: &Plan, state: &mut State) {
    let later = state.later.clone().unwrap_or_default();
    let open = state.open.iter().filter(|_| !plan.has(Breakage::OpenNotCounted));
    let counted: Vec<usize> =
        later.iter().filter(|_| !plan.has(Breakage::LaterNotCounted)).chain(open).copied().collect();
    let is_written = |at: &usize| counted.iter().any(|one| plan.writes[*one].contains(at));
    let changed = (0..DOCUMENTS).filter(is_written).count();
    if changed > 1 {
        state.query = Query::InVain;
        return;
    }
    let by_outcome = |holder: usize| state.outcomes[holder] == Some(true) && !later.contains(&holder);
    let shown = |document: &Option<Document>| -> Version {
        let document = document.unwrap_or_default();
        document.held.filter(|(holder, _)| by_outcome(*holder)).map_or(document.safe, |(_, left)| left)
    };
    state.query = Query::Believed(std::array::from_fn(|at| shown(&state.read[at])));
}
