//! Expectations of an exploration: its plan holds, or the rule that was broken in it is found.

use protocol_model::Report;

/// Expects that every reachable state was visited without a violation, and that each of these
/// events happens in some state: without it the plan would not explore what it was written for.
pub(crate) fn expect_holds(report: &Report, events: &[&str]) {
    assert!(report.complete, "{report:?}");
    for event in events {
        assert!(report.examples.contains(event), "{event} in {report:?}");
    }
}

/// Expects a violation of a property whose name begins so.
pub(crate) fn expect_violation(report: &Report, property: &str) {
    assert!(report.violations.iter().any(|(found, _)| found.starts_with(property)), "{report:?}");
}
