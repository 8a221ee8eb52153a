//! Exploration of a plan: every state that it can reach is checked.

use std::{fmt::Debug, hash::Hash};

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::{
    plan::Plan,
    properties::violation,
    state::{Action, State},
};

/// Result of an exploration.
#[derive(Debug)]
pub(crate) struct Report {
    /// Number of different states.
    pub(crate) states: usize,
    /// Violated property and the steps that lead to it, if any.
    pub(crate) violation: Option<String>,
}

impl Model for Plan {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(state.steps(self));
        actions.extend(state.faults(self));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        next.take(self, &action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("in order", |plan: &Plan, state: &State| violation(plan, state).is_none())]
    }
}

/// Explores every state that `plan` can reach, up to the first that violates a property.
pub(crate) fn explore(plan: Plan) -> Report {
    explore_all(plan, violation)
}

/// Explores every state that `model` can reach, up to the first of which `violation` says
/// something. The model's one property is that it does not.
pub(super) fn explore_all<M>(model: M, violation: impl Fn(&M, &M::State) -> Option<String>) -> Report
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let begun = std::time::Instant::now();
    let checker = model.clone().checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let mut report = Report { states: checker.unique_state_count(), violation: None };
    if let Some(path) = checker.discovery("in order") {
        let what = violation(&model, path.last_state()).unwrap_or_default();
        let steps: Vec<String> = path.into_actions().iter().map(|action| format!("{action:?}")).collect();
        report.violation = Some(format!("{what}\n{}", steps.join("\n")));
    }
    println!("{} states in {:.1?}", report.states, begun.elapsed());
    report
}
