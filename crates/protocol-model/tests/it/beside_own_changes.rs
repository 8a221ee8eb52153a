//! Queries beside what own transactions have left: every answer is of one moment, and each
//! deliberate breakage is found.

use std::collections::BTreeSet;

use protocol_model::beside_own_changes::{Breakage, Plan, explore};

/// Two transactions of the same documents: the second takes over what the first has left.
const SAME: Plan = Plan { name: "same documents", writes: &[&[0, 1], &[1, 0]], breakage: None };

/// One document changes after the other.
const CHAIN: Plan = Plan { name: "chain", writes: &[&[0, 1], &[1, 2]], breakage: None };

/// Transactions that have nothing to do with each other: the order of their decisions can be seen.
const APART: Plan = Plan { name: "apart", writes: &[&[0], &[1]], breakage: None };

/// One transaction of all documents, and one of one.
const MIXED: Plan = Plan { name: "mixed", writes: &[&[0, 1, 2], &[1]], breakage: None };

const ALL: [Plan; 4] = [SAME, CHAIN, APART, MIXED];

#[test]
fn answers_are_of_one_moment() {
    let mut examples = BTreeSet::new();
    for plan in ALL {
        let report = explore(plan);
        assert!(report.complete, "{report:?}");
        examples.extend(report.examples);
    }
    let wanted = ["is believed beside what is left", "is not believed", "shows what was decided meanwhile"];
    assert_eq!(examples, wanted.into());
}

#[test]
fn each_breakage_is_found() {
    for breakage in [
        Breakage::OutcomeNotAsked,
        Breakage::LaterNotCounted,
        Breakage::CountedWhenKnown,
        Breakage::PermittedLate,
        Breakage::LookedBeforeAsking,
        Breakage::OpenNotCounted,
    ] {
        let found = ALL.iter().any(|plan| {
            let report = explore(Plan { breakage: Some(breakage), ..*plan });
            report.violations.iter().any(|(property, _)| property.starts_with("B1"))
        });
        assert!(found, "{breakage:?}");
    }
}
