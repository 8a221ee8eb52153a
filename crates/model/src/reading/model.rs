//! The model as `stateright` explores it: which steps are possible in a state, and what they do.

use protocol::TxStatus;
use stateright::{Model, Property};

use super::{
    plan::Plan,
    properties as p,
    state::{State, Step},
    statement,
};
use crate::explore::{Report, explore_model, told};

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A transaction takes its next step.
    Run(usize),
    /// A client, the owner or another, removes the locks of decided transactions from a document.
    Clean(usize),
    /// A rival rolls back a transaction that is not decided.
    Kill(usize),
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

/// Explores every state that `plan` can reach.
pub fn explore(plan: Plan) -> Report {
    let title = format!("reading {} {:?}", plan.name, plan.breakage);
    told(&title, || explore_model(ReadingModel { plan }))
}

impl ReadingModel {
    /// Steps that clients take without a fault.
    fn progress(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend((0..state.runs.len()).filter(|t| state.runs[*t].step != Step::Over).map(Action::Run));
        actions.extend((0..self.plan.docs).filter(|doc| state.is_left(*doc)).map(Action::Clean));
    }

    /// Is anybody able to go on, faults aside?
    pub fn has_progress(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.progress(state, &mut actions);
        !actions.is_empty()
    }
}

impl Model for ReadingModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.plan)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.progress(state, actions);
        if state.faults.kills > 0 {
            let active = (0..state.runs.len()).filter(|t| state.statuses[*t] == TxStatus::Active);
            actions.extend(active.map(Action::Kill));
        }
        if state.faults.restarts > 0 {
            let foreseen = state.journal_end.is_some();
            actions.push(if foreseen { Action::Restart } else { Action::ForeseeRestart });
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Run(t) => statement::advance(&self.plan, &mut next, t),
            Action::Clean(doc) => next.clear(doc, None),
            Action::Kill(t) => {
                next.faults.kills -= 1;
                next.decide(t, TxStatus::RolledBack);
            }
            Action::ForeseeRestart => next.journal_end = Some(next.now.clone()),
            Action::Restart => next.restart(),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("R1 reads are repeatable", p::reads_are_repeatable),
            Property::always("R2 reads hold until the decision", p::reads_hold_until_the_decision),
            Property::always("R3 doomed statements fail", p::doomed_statements_fail),
            Property::always("R4 writes rest on what is there", p::writes_rest_on_what_is_there),
            Property::always("R5 no update is lost", p::no_update_is_lost),
            Property::always("R6 quiescent is clean", p::quiescent_is_clean),
            Property::sometimes("all commit", p::all_commit),
            Property::sometimes("somebody skips", p::somebody_skips),
            Property::sometimes("somebody is robbed", p::somebody_is_robbed),
        ]
    }
}
