//! Explores a plan completely and says what was found.

use std::time::Instant;

use stateright::{Checker, Model};

use crate::{model::ProtocolModel, plan::Plan};

/// What an exploration found.
#[derive(Debug)]
pub struct Report {
    /// Different states.
    pub states: usize,
    /// Was every reachable state visited?
    pub complete: bool,
    /// The violated properties, each with the steps that lead there.
    pub violations: Vec<(&'static str, String)>,
    /// The examples found of what has to be possible.
    pub examples: Vec<&'static str>,
}

/// Explores every state that `plan` can reach. Without violation the checker has no reason to stop before.
pub fn explore(plan: Plan) -> Report {
    let (begun, name, mutation) = (Instant::now(), plan.name, plan.mutation);
    let model = ProtocolModel { plan };
    let failures = stateright::HasDiscoveries::AnyFailures;
    let checker = model.checker().finish_when(failures).spawn_bfs().join();
    let mut report =
        Report { states: checker.unique_state_count(), complete: false, violations: Vec::new(), examples: Vec::new() };
    for (property, path) in checker.discoveries() {
        if property.starts_with('P') {
            let steps: Vec<String> = path.into_actions().iter().map(|action| format!("{action:?}")).collect();
            report.violations.push((property, steps.join(", ")));
        } else {
            report.examples.push(property);
        }
    }
    report.examples.sort_unstable();
    report.complete = checker.is_done() && report.violations.is_empty();
    println!("{name} {mutation:?}: {} states, {:.1?}, {:?}", report.states, begun.elapsed(), report.violations);
    report
}
