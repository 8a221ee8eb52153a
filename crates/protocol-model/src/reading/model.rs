//! The model as `stateright` explores it: the possible steps, what they do, and what must hold.

use protocol::TxStatus;
use stateright::{Model, Property};

use super::{
    plan::Plan,
    properties as p,
    state::State,
    statement,
    steps::{Action, ReadingModel},
};
use crate::explore::{Report, explore_and_print, explore_model};

/// Explores every state that `plan` can reach.
pub fn explore(plan: Plan) -> Report {
    let title = format!("reading {} {:?}", plan.name, plan.breakage);
    explore_and_print(&title, || explore_model(ReadingModel { plan }))
}

impl Model for ReadingModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.plan)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.progress(state, actions);
        if state.faults.aborts > 0 {
            let active = (0..state.runs.len()).filter(|t| state.statuses[*t] == TxStatus::Active);
            actions.extend(active.map(Action::Abort));
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
            Action::Abort(t) => {
                next.faults.aborts -= 1;
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
            Property::sometimes("a statement skips a document", p::a_statement_skips_a_document),
            Property::sometimes("a transaction loses its locks", p::a_transaction_loses_its_locks),
        ]
    }
}
