//! The steps of reading that are possible in a state. What they do is in `statement` and `writing`.

use super::{
    plan::Plan,
    state::{State, Step},
};

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A transaction takes its next step.
    Run(usize),
    /// A client, the owner or another, removes the locks of decided transactions from a document.
    Clean(usize),
    /// A rival rolls back a transaction that is not decided.
    Abort(usize),
    /// Nothing that is written from here on will survive the next restart.
    ForeseeRestart,
    /// The server restarts as foreseen.
    Restart,
}

/// The protocol under one plan.
#[derive(Clone, Debug)]
pub struct ReadingModel {
    /// The plan, which is constant during an exploration.
    pub plan: Plan,
}

impl ReadingModel {
    /// Steps that clients take without a fault.
    pub(super) fn progress(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend((0..state.runs.len()).filter(|t| state.runs[*t].step != Step::Over).map(Action::Run));
        actions.extend((0..self.plan.docs).filter(|doc| state.is_left(*doc)).map(Action::Clean));
    }

    /// Returns true if any process can take a step without a fault.
    pub fn has_progress(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.progress(state, &mut actions);
        !actions.is_empty()
    }
}
