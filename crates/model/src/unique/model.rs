//! The model as `stateright` explores it: which steps are possible in a state, and what they do.

use protocol::TxStatus;
use stateright::{Model, Property};

use super::{
    ending, operation,
    plan::Plan,
    properties as p, repair,
    state::{State, Step},
};
use crate::explore::{Report, explore_model, told};

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
    Kill(usize),
}

/// The protocol under one plan.
#[derive(Clone, Debug)]
pub struct UniqueModel {
    /// The plan, which is constant during an exploration.
    pub plan: Plan,
}

/// Explores every state that `plan` can reach.
pub fn explore(plan: Plan) -> Report {
    let title = format!("unique {} {:?}", plan.name, plan.breakage);
    told(&title, || explore_quietly(plan))
}

/// The same, for explorations too many to speak of each.
pub fn explore_quietly(plan: Plan) -> Report {
    explore_model(UniqueModel { plan })
}

impl UniqueModel {
    /// Steps that clients take without a fault.
    fn progress(&self, state: &State, actions: &mut Vec<Action>) {
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

    /// Is anybody able to go on, faults aside?
    pub fn has_progress(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.progress(state, &mut actions);
        !actions.is_empty()
    }

    fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        let alive = |t: &usize| !matches!(state.runs[*t].step, Step::Over | Step::Dead);
        let runs = (0..state.runs.len()).filter(alive);
        if state.faults.deaths > 0 {
            actions.extend(runs.clone().map(Action::Die));
        }
        if state.faults.kills > 0 {
            actions.extend(runs.filter(|t| state.statuses[*t] == TxStatus::Active).map(Action::Kill));
        }
    }

    fn apply(&self, state: &mut State, action: Action) {
        let plan = &self.plan;
        match action {
            Action::Run(t) if state.runs[t].step == Step::Ending => ending::end(plan, state, t),
            Action::Run(t) => operation::advance(plan, state, t),
            Action::Clean(t, doc) => ending::clean(plan, state, t, doc),
            Action::Look(doc) => repair::look(state, doc),
            Action::Janitor => {
                state.janitor = state.janitor.take().and_then(|mending| repair::proceed(plan, state, mending));
            }
            Action::Die(t) => {
                state.faults.deaths -= 1;
                state.runs[t].step = Step::Dead;
            }
            Action::Kill(t) => {
                state.faults.kills -= 1;
                state.roll_back(t);
            }
        }
    }
}

impl Model for UniqueModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.plan)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.progress(state, actions);
        self.faults(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.apply(&mut next, action);
        next.observe(&self.plan);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("U1 committed values are distinct", p::committed_values_are_distinct),
            Property::always("U2 repairs are not refused", p::repairs_are_not_refused),
            Property::always("U3 duplicates are true", p::duplicates_are_true),
            Property::always("U4 committed is what was written", p::committed_is_what_was_written),
            Property::always("U5 quiescent is clean", p::quiescent_is_clean),
            Property::always("U6 nobody fails alone", p::nobody_fails_alone),
            Property::sometimes("all commit", p::all_commit),
            Property::sometimes("somebody commits", p::somebody_commits),
            Property::sometimes("a duplicate", p::is_duplicate),
            Property::sometimes("a conflict", p::is_conflict),
            Property::sometimes("a repair", p::is_repaired),
            Property::sometimes("a slot", p::is_slotted),
        ]
    }
}
