//! Complete exploration of a plan by stateright, and its report: how many states, which properties
//! hold. The plans are in the tests.

use std::{fmt::Debug, hash::Hash, time::Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::{plan::Plan, steps::ProtocolModel};

/// Result of one exploration of a plan.
#[derive(Debug)]
pub struct Report {
    /// Number of different states that were visited.
    pub states: usize,
    /// True if every reachable state was visited.
    pub complete: bool,
    /// The violated properties, each with the steps that lead there.
    pub violations: Vec<(&'static str, String)>,
    /// Properties that must be possible and of which an example was found.
    pub examples: Vec<&'static str>,
}

/// Explores every state that `plan` can reach.
pub fn explore(plan: Plan) -> Report {
    let title = format!("{} {:?}", plan.name, plan.mutation);
    explore_and_print(&title, || explore_model(ProtocolModel { plan }))
}

/// Runs an exploration and prints its result.
#[allow(clippy::disallowed_methods, reason = "its duration is printed, and nothing depends on it")]
pub(crate) fn explore_and_print(title: &str, explore: impl FnOnce() -> Report) -> Report {
    let begun = Instant::now();
    let report = explore();
    println!("{title}: {} states, {:.1?}, {:?}", report.states, begun.elapsed(), report.violations);
    report
}

/// Explores every state that `model` can reach. The checker stops earlier only at a violation.
pub(crate) fn explore_model<M>(model: M) -> Report
where
    M: Model + Send + Sync + 'static,
    M::State: Hash + Send + Sync + Debug + Clone + PartialEq,
    M::Action: Clone + PartialEq + Debug,
{
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let mut report =
        Report { states: checker.unique_state_count(), complete: false, violations: Vec::new(), examples: Vec::new() };
    let possible = |name| checker.model().property(name).expectation == Expectation::Sometimes;
    for (property, path) in checker.discoveries() {
        if possible(property) {
            report.examples.push(property);
        } else {
            let steps: Vec<String> = path.into_actions().iter().map(|action| format!("{action:?}")).collect();
            report.violations.push((property, steps.join(", ")));
        }
    }
    report.examples.sort_unstable();
    report.complete = checker.is_done() && report.violations.is_empty();
    report
}
