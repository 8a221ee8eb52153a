//! The model as `stateright` explores it: the possible steps, what they do, and what must hold.

use stateright::{Model, Property};

use super::{
    ending, operation,
    plan::Plan,
    properties as p, repair,
    state::{State, Step},
    steps::{Action, UniqueModel},
};
use crate::explore::{Report, explore_and_print, explore_model};

/// Explores every state that `plan` can reach.
pub fn explore(plan: Plan) -> Report {
    let title = format!("unique {} {:?}", plan.name, plan.breakage);
    explore_and_print(&title, || explore_quietly(plan))
}

/// Explores every state that `plan` can reach, and prints nothing.
pub fn explore_quietly(plan: Plan) -> Report {
    explore_model(UniqueModel { plan })
}

impl UniqueModel {
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
            Action::Abort(t) => {
                state.faults.aborts -= 1;
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
            Property::always("U6 no transaction fails alone", p::no_transaction_fails_alone),
            Property::sometimes("all commit", p::all_commit),
            Property::sometimes("a transaction commits", p::a_transaction_commits),
            Property::sometimes("a duplicate", p::is_duplicate),
            Property::sometimes("a conflict", p::is_conflict),
            Property::sometimes("a repair", p::is_repaired),
            Property::sometimes("a slot", p::is_slotted),
        ]
    }
}
