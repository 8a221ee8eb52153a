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

/// A report of a plan that holds, in which `commits` happens.
fn report() -> Report {
    Report { states: 1, complete: true, violations: Vec::new(), examples: vec!["commits"] }
}

#[test]
fn a_plan_that_holds_is_as_expected() {
    expect_holds(&report(), &["commits"]);
}

#[test]
#[should_panic(expected = "a repair in")]
fn an_event_that_never_happens_is_missed() {
    expect_holds(&report(), &["commits", "a repair"]);
}

#[test]
#[should_panic(expected = "complete: false")]
fn an_exploration_that_was_not_complete_does_not_hold() {
    expect_holds(&Report { complete: false, ..report() }, &[]);
}

#[test]
#[should_panic(expected = "M1 all or nothing")]
fn a_violation_of_another_property_is_not_the_one() {
    let violations = vec![("M1 all or nothing", "Die".to_owned())];
    expect_violation(&Report { violations, ..report() }, "M2");
}
