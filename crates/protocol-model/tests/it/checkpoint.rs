//! A copy that a checkpoint calls good is of one moment; and each deliberate breakage is found.

use protocol_model::checkpoint::{Breakage, Plan, explore};

use crate::expect::{expect_holds, expect_violation};

fn plan(clients: &[bool]) -> Plan {
    Plan { clients: clients.to_vec(), decisions: 2, jumps: 0, breakage: None }
}

fn holds(plan: Plan) {
    let events = ["a good copy", "a good copy of something", "a broken hold", "everything is decided"];
    expect_holds(&explore(plan), &events);
}

fn fails(plan: Plan, breakage: Breakage, property: &str) {
    expect_violation(&explore(Plan { breakage: Some(breakage), ..plan }), property);
}

#[test]
fn copies_are_of_one_moment() {
    holds(plan(&[true, true]));
    holds(plan(&[true, false]));
    holds(plan(&[false, false]));
}

#[test]
fn copies_are_of_one_moment_though_the_clock_is_set_back() {
    holds(Plan { jumps: 1, ..plan(&[true, false]) });
}

#[test]
fn each_breakage_is_found() {
    fails(plan(&[false]), Breakage::LookBeforeInsert, "H");
    fails(plan(&[false]), Breakage::RecordsBeforeHold, "H");
    fails(plan(&[true]), Breakage::LivingAreLeft, "H");
    fails(plan(&[true]), Breakage::NoSweep, "H");
    fails(Plan { jumps: 1, ..plan(&[true]) }, Breakage::NoComparison, "H1");
    fails(Plan { jumps: 1, ..plan(&[false]) }, Breakage::OpenAreNoted, "H2");
    fails(plan(&[true]), Breakage::HoldForEver, "H3");
}
