//! Properties of reading with read locks: R1 to R6 must hold in every state; those behind them must
//! be reachable.

use protocol::TxStatus;

use super::{
    plan::Op,
    state::{Flaw, State, Step},
    steps::ReadingModel,
};

fn is_free_of(state: &State, flaw: Flaw) -> bool {
    state.runs.iter().all(|run| run.flaw != Some(flaw))
}

/// R1: a transaction that reads a document again gets the same answer.
pub fn reads_are_repeatable(_: &ReadingModel, state: &State) -> bool {
    is_free_of(state, Flaw::Changed)
}

/// R2: the answers that a committed transaction got were still true at its decision.
pub fn reads_hold_until_the_decision(_: &ReadingModel, state: &State) -> bool {
    is_free_of(state, Flaw::Unlocked)
}

/// R3: no statement answers with values that it read after others had removed a lock of its
/// transaction.
pub fn doomed_statements_fail(_: &ReadingModel, state: &State) -> bool {
    is_free_of(state, Flaw::Doomed)
}

/// R4: no transaction prepares a write that rests on an older value.
pub fn writes_rest_on_what_is_there(_: &ReadingModel, state: &State) -> bool {
    is_free_of(state, Flaw::Outdated)
}

/// R5: no committed update is lost.
pub fn no_update_is_lost(model: &ReadingModel, state: &State) -> bool {
    let committed = (0..state.runs.len()).filter(|t| state.statuses[*t] == TxStatus::Committed);
    committed.into_iter().all(|t| {
        model.plan.txs[t].ops.iter().enumerate().all(|(at, op)| match *op {
            // The update found no document, so it has no effect.
            Op::Write(_) if state.runs[t].missed >> at & 1 == 1 => true,
            Op::Write(doc) => state.now.docs[doc].committed(&state.statuses) >> t & 1 == 1,
            Op::Read(_) | Op::Remove(_) => true,
        })
    })
}

/// R6: when no process has a step, no document is locked.
pub fn quiescent_is_clean(model: &ReadingModel, state: &State) -> bool {
    model.has_progress(state)
        || state.now.docs.iter().all(|doc| doc.lock == Default::default() && doc.pending.is_none())
}

/// Not vacuous: every transaction can commit.
pub fn all_commit(_: &ReadingModel, state: &State) -> bool {
    state.statuses.iter().all(|status| *status == TxStatus::Committed)
}

/// Not vacuous: a statement meets a document that was removed meanwhile.
pub fn a_statement_skips_a_document(_: &ReadingModel, state: &State) -> bool {
    state.runs.iter().any(|run| run.skipped)
}

/// Not vacuous: a transaction is rolled back when its locks are gone.
pub fn a_transaction_loses_its_locks(_: &ReadingModel, state: &State) -> bool {
    state.runs.iter().any(|run| run.robbed && run.step != Step::Over)
}
