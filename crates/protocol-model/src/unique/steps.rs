//! The steps of unique indexes that are possible in a state, with faults and without. What they do
//! is in `operation`, `combined_writes`, `ending` and `repair`.

use protocol::TxStatus;

use super::{
    plan::Plan,
    repair,
    state::{State, Step},
};

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A transaction takes its next step.
    Run(usize),
    /// A transaction finishes or undoes this document of its own.
    Clean(usize, usize),
    /// The janitor takes a document.
    Look(usize),
    /// The janitor takes its next step.
    Janitor,
    /// A client dies, and takes no further step.
    Die(usize),
    /// A rival rolls back a transaction that is not decided.
    Abort(usize),
}

/// The protocol under one plan.
#[derive(Clone, Debug)]
pub struct UniqueModel {
    /// The plan, which is constant during an exploration.
    pub plan: Plan,
}

impl UniqueModel {
    /// Steps that clients take without a fault.
    pub(super) fn progress(&self, state: &State, actions: &mut Vec<Action>) {
        for (t, run) in state.runs.iter().enumerate() {
            match run.step {
                Step::Finishing(_) | Step::Undoing => {
                    actions.extend(state.documents.held_by(t).map(|doc| Action::Clean(t, doc)));
                }
                Step::Over | Step::Dead => {}
                _ => actions.push(Action::Run(t)),
            }
        }
        if state.janitor.is_some() {
            actions.push(Action::Janitor);
        } else {
            let docs = 0..state.documents.docs.len();
            actions.extend(docs.filter(|doc| repair::may_look(&self.plan, state, *doc)).map(Action::Look));
        }
    }

    /// Returns true if any process can take a step without a fault.
    pub fn has_progress(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.progress(state, &mut actions);
        !actions.is_empty()
    }

    pub(super) fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        let alive = |t: &usize| !matches!(state.runs[*t].step, Step::Over | Step::Dead);
        let runs = (0..state.runs.len()).filter(alive);
        if state.faults.deaths > 0 {
            actions.extend(runs.clone().map(Action::Die));
        }
        if state.faults.aborts > 0 {
            actions.extend(runs.filter(|t| state.statuses[*t] == TxStatus::Active).map(Action::Abort));
        }
    }
}
