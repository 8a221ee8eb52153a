//! Properties of validation: V1 to V5 must hold in every state; those behind them must be
//! reachable.

use protocol::TxStatus;

use super::{
    state::{Flaw, State},
    steps::ValidationModel,
    transaction::Step,
};

/// V1: there is a moment, not before its last lock, at which all answers of a committed transaction
/// are true.
pub fn answers_are_of_one_moment(_: &ValidationModel, state: &State) -> bool {
    state.flaw != Some(Flaw::NoMoment)
}

/// V2: no other transaction's write to a document that a committed transaction wrote is decided
/// between that moment and the transaction's decision.
pub fn no_update_is_lost(_: &ValidationModel, state: &State) -> bool {
    state.flaw != Some(Flaw::LostUpdate)
}

/// V3: committed transactions, those that only read included, have a serial order that agrees with
/// real time.
pub fn a_serial_order_exists(_: &ValidationModel, state: &State) -> bool {
    state.flaw != Some(Flaw::NoOrder)
}

/// V4: as long as a transaction has not ended, some transaction can go on.
pub fn every_wait_ends(model: &ValidationModel, state: &State) -> bool {
    let all_are_over = state.runs.iter().all(|run| run.step == Step::Over);
    all_are_over || model.has_progress(state)
}

/// V5: the committed values are those that the decisions made, finished or not.
pub fn finishing_changes_nothing(model: &ValidationModel, state: &State) -> bool {
    state.logical(&model.plan) == state.now.history[state.latest()].docs
}

/// Not vacuous: every transaction can commit.
pub fn all_commit(model: &ValidationModel, state: &State) -> bool {
    state.committed.count_ones() as usize == model.plan.txs.len()
}

/// Not vacuous: the looks of a transaction differ.
pub fn a_transaction_is_disturbed(_: &ValidationModel, state: &State) -> bool {
    state.runs.iter().any(|run| run.disturbed)
}

/// Not vacuous: a transaction commits though its looks have differed.
pub fn a_disturbed_one_commits(_: &ValidationModel, state: &State) -> bool {
    state.runs.iter().enumerate().any(|(t, run)| run.disturbed && state.committed >> t & 1 == 1)
}

/// Not vacuous: a transaction commits that was validated ahead of its commit.
pub fn one_validated_ahead_commits(_: &ValidationModel, state: &State) -> bool {
    state.runs.iter().enumerate().any(|(t, run)| run.rests_on_ahead && state.committed >> t & 1 == 1)
}

/// Not vacuous: a transaction waits for a rival.
pub fn a_transaction_waits(_: &ValidationModel, state: &State) -> bool {
    state.runs.iter().any(|run| matches!(run.step, Step::Waiting(_)))
}

/// Not vacuous: a transaction gives way to a rival.
pub fn a_transaction_gives_way(model: &ValidationModel, state: &State) -> bool {
    (0..state.runs.len()).any(|t| state.status(&model.plan, t) == TxStatus::RolledBack)
}

/// Not vacuous: a transaction commits beside a rival that holds a document that it has read.
pub fn a_rival_is_passed_by(_: &ValidationModel, state: &State) -> bool {
    state.runs.iter().enumerate().any(|(t, run)| run.has_passed_by && state.committed >> t & 1 == 1)
}

/// Not vacuous: a transaction is refused because of quiet, validated again, and commits.
pub fn a_refused_one_commits(_: &ValidationModel, state: &State) -> bool {
    state.runs.iter().enumerate().any(|(t, run)| run.was_refused && state.committed >> t & 1 == 1)
}
