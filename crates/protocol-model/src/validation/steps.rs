//! The steps of validation that are possible in a state. What they do is in the files of the
//! participants.

use super::{plan::Plan, quiet, state::State, statement};

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A transaction takes its next step.
    Run(usize),
    /// One write decides all the transactions of a client that are ready.
    Group(usize),
    /// A client, the owner or another, finishes or undoes a document of a decided transaction.
    Clean(usize),
    /// The quiet in this client's record ends.
    EndQuiet(usize),
    /// A single write outside transactions.
    Direct(usize),
    /// Another transaction of this client looks at the stamps, and the client remembers the look.
    Look(usize),
    /// Nothing that is written from here on will survive the next restart.
    ForeseeRestart,
    /// The server restarts as foreseen.
    Restart,
}

/// The protocol under one plan.
#[derive(Clone, Debug)]
pub struct ValidationModel {
    /// The plan, which is constant during an exploration.
    pub plan: Plan,
}

impl ValidationModel {
    /// Steps that clients take without a fault.
    pub(super) fn progress(&self, state: &State, actions: &mut Vec<Action>) {
        let enabled = |t: &usize| statement::is_enabled(&self.plan, state, *t);
        actions.extend((0..state.runs.len()).filter(enabled).map(Action::Run));
        actions.extend(
            self.plan.writers().into_iter().filter(|client| quiet::stands(state, *client)).map(Action::EndQuiet),
        );
        actions.extend((0..state.now.docs.len()).filter(|doc| state.is_left(&self.plan, *doc)).map(Action::Clean));
    }

    /// Returns true if any process can take a step without a fault or a single write.
    pub fn has_progress(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.progress(state, &mut actions);
        !actions.is_empty()
    }

    pub(super) fn directs(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, (doc, _)) in self.plan.directs.iter().enumerate() {
            if state.directs >> at & 1 == 0 && state.now.docs[*doc].pending.is_none() {
                actions.push(Action::Direct(at));
            }
        }
    }
}
