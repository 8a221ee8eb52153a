//! A replica set whose primaries change: the protocol holds under each plan, and each deliberate
//! breakage is found.

use protocol_model::replicas::{Breakage, Faults, Plan, explore};

use crate::{
    deep,
    expect::{expect_holds, expect_violation},
};

fn holds(plan: Plan, events: &[&str]) {
    expect_holds(&explore(plan), events);
}

fn fails(plan: Plan, breakage: Breakage, property: &str) {
    expect_violation(&explore(plan.broken(breakage)), property);
}

/// The first primary is followed by another, and comes back.
fn there_and_back() -> Plan {
    Plan { name: "there_and_back", faults: Faults { elections: 2, ..Faults::default() }, ..Plan::default() }
}

/// The primary changes while a transaction is decided and finished; the owner's lease is found
/// expired though it lives.
fn zombie() -> Plan {
    Plan {
        name: "zombie",
        locked: true,
        faults: Faults { elections: 1, expiries: 1, ..Faults::default() },
        ..Plan::default()
    }
}

/// The primary changes while a sweep repairs the documents of a dead owner.
fn death() -> Plan {
    Plan { name: "death", faults: Faults { elections: deep(2), deaths: 1, ..Faults::default() }, ..Plan::default() }
}

/// The primary changes while a client registers and another client repairs one document.
fn meeting() -> Plan {
    Plan {
        name: "meeting",
        registers: true,
        faults: Faults { elections: deep(2), meetings: 1, ..Faults::default() },
        ..Plan::default()
    }
}

#[test]
fn there_and_back_holds() {
    holds(there_and_back(), &["commits", "comes back", "two primaries"]);
}

#[test]
fn zombie_holds() {
    holds(zombie(), &["commits", "two primaries"]);
}

#[test]
fn death_holds() {
    holds(death(), &["commits", "two primaries"]);
}

#[test]
fn meeting_holds() {
    holds(meeting(), &["commits", "two primaries"]);
}

#[test]
fn write_concern_error_ignored_is_found() {
    fails(there_and_back(), Breakage::WriteConcernErrorIgnored, "M");
}

#[test]
fn prepared_at_one_is_found() {
    fails(there_and_back(), Breakage::PreparedAtOne, "M1");
}

#[test]
fn decision_at_one_is_found() {
    fails(zombie(), Breakage::DecisionAtOne, "M");
}

#[test]
fn finish_at_one_is_found() {
    fails(there_and_back(), Breakage::FinishAtOne, "M");
}

#[test]
fn repair_at_one_is_found() {
    fails(death(), Breakage::RepairAtOne, "M1");
}

#[test]
fn record_read_at_one_is_found() {
    fails(meeting(), Breakage::RecordReadAtOne, "M");
}

#[test]
fn older_primary_is_found() {
    fails(there_and_back(), Breakage::OlderPrimary, "M");
}

#[test]
fn look_at_one_is_found() {
    fails(zombie(), Breakage::LookAtOne, "M1");
}

#[test]
fn zombie_from_the_start_holds() {
    let faults = Faults { elections: deep(1), expiries: 1, ..Faults::default() };
    holds(Plan { name: "zombie_from_the_start", locked: false, faults, ..zombie() }, &["commits"]);
}

#[test]
fn absent_at_majority_is_found() {
    fails(meeting(), Breakage::AbsentAtMajority, "M");
}
