//! Exploration of a plan: every state that it can reach is checked.

use std::{fmt::Debug, hash::Hash};

use stateright::{Checker, HasDiscoveries, Model, Property};

/// A plan that can be explored: where it begins, its steps, and what a state of it must not be.
pub(super) trait Explored: Clone + Send + Sync + 'static {
    type State: Clone + Debug + Hash + PartialEq + Send + Sync;
    type Action: Clone + Debug + PartialEq + Send + Sync;
    /// A rule that can be broken on purpose.
    type Flaw;

    /// State in which the exploration begins.
    fn first(&self) -> Self::State;

    /// Every step that is possible from this state, faults too.
    fn actions(&self, state: &Self::State) -> Vec<Self::Action>;

    /// Takes a step.
    fn take(&self, state: &mut Self::State, action: &Self::Action);

    /// Description of the first violated property of this state; `None` if it has none.
    fn violation(&self, state: &Self::State) -> Option<String>;

    /// The same plan with a broken rule.
    fn with_flaw(self, flaw: Self::Flaw) -> Self;
}

/// Result of an exploration.
#[derive(Debug)]
struct Report {
    /// Number of different states.
    states: usize,
    /// Description of the state that was found and the steps that lead to it; `None` if there is
    /// none.
    found: Option<String>,
}

/// A plan, and what is looked for in each of its states.
#[derive(Clone)]
struct Search<P, F> {
    plan: P,
    find: F,
}

impl<P, F> Model for Search<P, F>
where
    P: Explored,
    F: Fn(&P, &P::State) -> Option<String>,
{
    type State = P::State;
    type Action = P::Action;

    fn init_states(&self) -> Vec<P::State> {
        vec![self.plan.first()]
    }

    fn actions(&self, state: &P::State, actions: &mut Vec<P::Action>) {
        actions.extend(self.plan.actions(state));
    }

    fn next_state(&self, state: &P::State, action: P::Action) -> Option<P::State> {
        let mut next = state.clone();
        self.plan.take(&mut next, &action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("in order", |search: &Self, state: &P::State| {
            (search.find)(&search.plan, state).is_none()
        })]
    }
}

/// Explores every state that a plan can reach, up to the first in which something is found.
fn explore<P, F>(plan: P, find: F) -> Report
where
    P: Explored,
    F: Fn(&P, &P::State) -> Option<String> + Clone + Send + Sync + 'static,
{
    let begun = std::time::Instant::now();
    let search = Search { plan: plan.clone(), find: find.clone() };
    let checker = search.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let mut report = Report { states: checker.unique_state_count(), found: None };
    if let Some(path) = checker.discovery("in order") {
        let what = find(&plan, path.last_state()).unwrap_or_default();
        let steps: Vec<String> = path.into_actions().iter().map(|action| format!("{action:?}")).collect();
        report.found = Some(format!("{what}\n{}", steps.join("\n")));
    }
    println!("{} states in {:.1?}", report.states, begun.elapsed());
    report
}

/// Explores the whole plan and fails if a property is violated.
pub(super) fn holds<P: Explored>(plan: P) {
    let report = explore(plan, P::violation);
    assert!(report.found.is_none(), "{}", report.found.unwrap());
    assert!(report.states > 100, "nothing is explored: {report:?}");
}

/// Explores the plan with a flaw and fails if no property is violated.
pub(super) fn is_noticed<P: Explored>(plan: P, flaw: P::Flaw) {
    let report = explore(plan.with_flaw(flaw), P::violation);
    println!("{}", report.found.expect("it is not noticed"));
}

/// Explores the plan and fails if no state is reached in which `what` is true.
pub(super) fn reaches<P: Explored>(plan: P, what: fn(&P::State) -> bool) {
    let report = explore(plan, move |_, state| what(state).then(String::new));
    assert!(report.found.is_some(), "it is not reached: {report:?}");
}
