//! The end of a transaction: the decision, one atomic step, and then its documents, one by one, in
//! any order.

use protocol::TxStatus;

use super::{
    plan::{End, Plan},
    repair,
    state::{Mending, Reported, State, Step, Why},
};

/// Ends a transaction whose statements are done.
pub fn end(plan: &Plan, state: &mut State, t: usize) {
    match plan.txs[t].end {
        End::RollBack => abort(state, t, Why::User),
        End::Commit if state.statuses[t] != TxStatus::Active => abort(state, t, Why::AbortedByRival),
        End::Commit => {
            state.statuses[t] = TxStatus::Committed;
            let run = &mut state.runs[t];
            run.reported = Some(Reported::Committed);
            run.step = Step::Finishing(false);
            for (doc, value) in std::mem::take(&mut run.effects) {
                state.truth[doc] = value;
            }
        }
    }
}

/// Rolls back a transaction that cannot commit or must not.
pub fn abort(state: &mut State, t: usize, why: Why) {
    state.roll_back(t);
    let run = &mut state.runs[t];
    run.reported = Some(Reported::RolledBack(why));
    run.step = Step::Undoing;
    run.effects.clear();
    run.witness = false;
}

/// The owner finishes or undoes one of its documents.
pub fn clean(plan: &Plan, state: &mut State, t: usize, doc: usize) {
    let slotting = state.runs[t].step == Step::Finishing(true);
    let refused = repair::clean(plan, state, Mending { doc, holder: t, slotting }, false);
    if let Step::Finishing(slotting) = &mut state.runs[t].step {
        *slotting = refused;
    }
}
