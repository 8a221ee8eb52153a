//! The model as `stateright` explores it: the possible steps, what they do, and what must hold.

use stateright::{Model, Property};

use super::{
    owner,
    plan::Plan,
    properties as p,
    state::State,
    steps::{Action, ReplicasModel, Who},
    sweeper,
};
use crate::explore::{Report, explore_and_print, explore_model};

/// Explores every state that `plan` can reach.
pub fn explore(plan: Plan) -> Report {
    let title = format!("replicas {} {:?}", plan.name, plan.breakage);
    explore_and_print(&title, || explore_model(ReplicasModel { plan }))
}

impl ReplicasModel {
    fn apply(&self, state: &mut State, action: Action) {
        let plan = &self.plan;
        match action {
            Action::Send(Who::Transaction, m) => owner::write(state, m),
            Action::Send(Who::Record, m) => owner::record(state, m),
            Action::Send(Who::Sweeper, m) => sweeper::send(plan, state, m),
            Action::Acknowledge(Who::Transaction) => owner::write_acknowledged(state),
            Action::Acknowledge(Who::Record) => owner::record_acknowledged(state),
            Action::Acknowledge(Who::Sweeper) => sweeper::acknowledged(state),
            Action::Lose(Who::Transaction) => owner::write_lost(state),
            Action::Lose(Who::Record) => owner::record_lost(state),
            Action::Lose(Who::Sweeper) => sweeper::lost(state),
            Action::Sweep(m) => sweeper::begin(state, m),
            Action::Meet(m, doc) => sweeper::meet(state, m, doc),
            Action::Elect(m, v) => {
                state.faults.elections -= 1;
                state.members.elect(m, v);
            }
            Action::Follow(m) => {
                if let Some(p) = state.members.to_follow(m) {
                    state.members.follow(m, p);
                }
            }
            Action::Die => {
                state.faults.deaths -= 1;
                state.owner.alive = false;
            }
        }
    }
}

impl Model for ReplicasModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.plan)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.progress(state, actions);
        self.rivals(state, true, actions);
        if state.faults.elections > 0 {
            actions.extend(state.members.candidates().into_iter().map(|(m, v)| Action::Elect(m, v)));
        }
        if state.faults.deaths > 0 && state.owner.alive {
            actions.push(Action::Die);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.apply(&mut next, action);
        next.trim();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("M1 all or nothing", p::all_or_nothing),
            Property::always("M2 answers are true", p::answers_are_true),
            Property::always("M3 quiescent is clean", p::quiescent_is_clean),
            Property::sometimes("commits", p::commits),
            Property::sometimes("comes back", p::comes_back),
            Property::sometimes("two primaries", p::two_primaries),
        ]
    }
}
