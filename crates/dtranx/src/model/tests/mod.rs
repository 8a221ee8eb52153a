//! Explorations of the real protocol, which must hold, and of the protocol with one flaw each,
//! which the model must notice.

mod flaws;
mod plans;
mod sound;

use super::{explore::explore, plan::Plan};
use crate::core::flaw::Flaw;

/// Explores the whole plan and fails if a property is violated.
fn holds(plan: Plan) {
    let report = explore(plan);
    assert!(report.violation.is_none(), "{}", report.violation.unwrap());
    assert!(report.states > 100, "nothing is explored: {report:?}");
}

/// Explores the plan with a flaw and fails if no property is violated.
fn is_noticed(plan: Plan, flaw: Flaw) {
    let report = explore(Plan { flaw: Some(flaw), ..plan });
    println!("{}", report.violation.expect("it is not noticed"));
}
