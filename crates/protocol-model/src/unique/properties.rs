//! Properties that must hold in every state, and properties that must be reachable.

use super::{
    documents::Stored,
    state::{Flaw, Reported, State, Step, Why},
    steps::UniqueModel,
};

fn committed(state: &State) -> Vec<Option<u8>> {
    (0..state.documents.docs.len()).map(|doc| state.documents.visible(doc, &state.statuses, None)).collect()
}

/// U1: of the latest committed versions, no two have the same value.
pub fn committed_values_are_distinct(_: &UniqueModel, state: &State) -> bool {
    let mut values: Vec<u8> = committed(state).into_iter().flatten().collect();
    let all = values.len();
    values.sort_unstable();
    values.dedup();
    values.len() == all
}

/// U2: undoing is never refused, nor is finishing once the slot is set.
pub fn repairs_are_not_refused(_: &UniqueModel, state: &State) -> bool {
    state.flaw != Some(Flaw::RepairRefused)
}

/// U3: a duplicate is answered only if the value was in another document at some moment of the
/// statement.
pub fn duplicates_are_true(_: &UniqueModel, state: &State) -> bool {
    state.flaw != Some(Flaw::FalseDuplicate)
}

/// U4: the latest committed versions are what the committed transactions wrote.
pub fn committed_is_what_was_written(_: &UniqueModel, state: &State) -> bool {
    committed(state) == state.truth
}

/// U5: when no process has a step left, every document is clean and has no slot, and every living
/// client has an answer.
pub fn quiescent_is_clean(model: &UniqueModel, state: &State) -> bool {
    let clean = |stored: &Stored| stored.safe.is_some() && stored.slot.is_none() && stored.lock.is_none();
    let ended =
        state.runs.iter().all(|run| run.step == Step::Dead || (run.step == Step::Over && run.reported.is_some()));
    model.has_progress(state) || (ended && state.documents.docs.iter().flatten().all(clean))
}

/// U6: where no transaction blocks another, none fails.
pub fn no_transaction_fails_alone(model: &UniqueModel, state: &State) -> bool {
    let failed = |reported: Option<Reported>| matches!(reported, Some(Reported::RolledBack(_)));
    !model.plan.must_commit || !state.runs.iter().any(|run| failed(run.reported))
}

/// Reachable: every transaction of the plan commits.
pub fn all_commit(_: &UniqueModel, state: &State) -> bool {
    state.runs.iter().all(|run| run.reported == Some(Reported::Committed))
}

/// Reachable: one of the transactions commits.
pub fn a_transaction_commits(_: &UniqueModel, state: &State) -> bool {
    state.runs.iter().any(|run| run.reported == Some(Reported::Committed))
}

/// Possible: a duplicate is answered.
pub fn is_duplicate(_: &UniqueModel, state: &State) -> bool {
    state.refused
}

/// Possible: a conflict is answered.
pub fn is_conflict(_: &UniqueModel, state: &State) -> bool {
    has_failed(state, Why::Conflict)
}

fn has_failed(state: &State, why: Why) -> bool {
    state.runs.iter().any(|run| run.reported == Some(Reported::RolledBack(why)))
}

/// Possible: a rival or the janitor repairs a document.
pub fn is_repaired(_: &UniqueModel, state: &State) -> bool {
    state.repaired
}

/// Possible: finishing is refused, and the slot is set.
pub fn is_slotted(_: &UniqueModel, state: &State) -> bool {
    state.slotted
}
