//! The model as `stateright` explores it: the possible steps, what they do, and what must hold.

use stateright::{Model, Property};

use super::{
    plan::Plan,
    query,
    state::{DOCUMENTS, Phase, Query, State, Version},
    steps::{Action, BesideModel},
    transaction,
};
use crate::explore::{Report, explore_and_print, explore_model};

/// Explores every state that `plan` can reach.
pub fn explore(plan: Plan) -> Report {
    let title = format!("beside {} {:?}", plan.name, plan.breakage);
    explore_and_print(&title, || explore_model(BesideModel { plan }))
}

/// The documents as they are after the first of the committed transactions.
fn after(plan: &Plan, state: &State, first: usize) -> [Version; DOCUMENTS] {
    let mut documents = [0; DOCUMENTS];
    for transaction in &state.order[..first] {
        plan.writes[*transaction].iter().for_each(|at| documents[*at] |= 1 << transaction);
    }
    documents
}

/// The query shows the state of one moment, at which everything was committed that was when it
/// began.
fn of_one_moment(model: &BesideModel, state: &State) -> bool {
    let Query::Believed(shown) = state.query else { return true };
    (state.committed..=state.order.len()).any(|first| after(&model.plan, state, first) == shown)
}

impl Model for BesideModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.plan.writes.len())]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if matches!(state.query, Query::Believed(_) | Query::InVain) {
            return;
        }
        (0..self.plan.writes.len()).for_each(|one| transaction::steps(&self.plan, state, one, actions));
        query::steps(&self.plan, state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let (plan, mut state) = (&self.plan, last.clone());
        match action {
            Action::Write(transaction) => transaction::write(plan, &mut state, transaction),
            Action::Begin(transaction) => transaction::begin(plan, &mut state, transaction),
            Action::Decide(transaction) => transaction::decide(&mut state, transaction),
            Action::Refuse(transaction) => state.phases[transaction] = Phase::RolledBack,
            Action::Learn(transaction) => transaction::learn(plan, &mut state, transaction),
            Action::Finish(at) => transaction::finish(&mut state, at),
            Action::Permit => query::permit(plan, &mut state),
            Action::Read(at) => query::read(&mut state, at),
            Action::Answer => state.query = Query::Asks,
            Action::Ask(holder) => query::ask(plan, &mut state, holder),
            Action::HaveOutcomes => state.query = Query::HasOutcomes,
            Action::Look => query::look(&mut state),
            Action::Judge => query::judge(plan, &mut state),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("B1: an answer is the state of one moment", of_one_moment),
            Property::sometimes("is believed beside what is left", |_: &Self, state: &State| {
                let left = state.read.iter().flatten().filter(|document| document.held.is_some()).count();
                matches!(state.query, Query::Believed(_)) && left > 1
            }),
            Property::sometimes("shows what was decided meanwhile", |_: &Self, state: &State| {
                let is_later = |shown: &Version| state.order[state.committed..].iter().any(|one| shown & 1 << one != 0);
                matches!(&state.query, Query::Believed(shown) if shown.iter().any(is_later))
            }),
            Property::sometimes("is not believed", |_: &Self, state: &State| state.query == Query::InVain),
        ]
    }
}
