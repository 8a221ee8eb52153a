//! A client that is alone reads without probes and misses nothing; and each deliberate breakage is
//! found.

use protocol_model::read_lease::{Breakage, Plan, explore};

use crate::expect::{expect_holds, expect_violation};

/// Length of a lease in ticks.
const V: u8 = 2;

/// A newcomer comes, decides, and may go again.
const NEWCOMER: Plan = Plan {
    name: "newcomer",
    end: 6,
    lease: V,
    newcomers: 1,
    sweeps: false,
    own: None,
    lost_answers: false,
    restarts: 0,
    missed_ticks: 0,
    strict: true,
    breakage: None,
};

/// A newcomer dies before it decides, and another one comes.
const TWO: Plan = Plan { name: "two newcomers", newcomers: 2, ..NEWCOMER };

/// The holder is paused so long that its record is fenced and closed.
const SWEEP: Plan = Plan { name: "sweep", sweeps: true, ..NEWCOMER };

/// The holder's clock runs slowly.
const CLOCK: Plan = Plan { name: "clock", missed_ticks: V, ..NEWCOMER };

/// The holder has a transaction of its own, with both documents in one collection.
const OWN: Plan = Plan { name: "own", end: 3, newcomers: 0, own: Some([0, 0]), ..NEWCOMER };

/// The same with the documents in two collections, which are finished one after the other.
const APART: Plan = Plan { name: "own, two collections", own: Some([0, 1]), ..OWN };

/// The holder does not learn the outcome of its own transaction.
const UNKNOWN: Plan = Plan { name: "unknown", lost_answers: true, ..OWN };

/// The server restarts once.
const RESTART: Plan = Plan { name: "restart", restarts: 1, ..OWN };

/// The same with documents in two collections.
const RESTART_APART: Plan = Plan { name: "restart, two collections", end: 2, own: Some([0, 1]), ..RESTART };

fn holds(plan: Plan, events: &[&str]) {
    expect_holds(&explore(plan), &[&["counts", "comes too late"][..], events].concat());
}

/// The breakage is found, and by what users notice if not `strict`.
fn fails(plan: Plan, breakage: Breakage, property: &str) {
    let strict = property == "L3";
    expect_violation(&explore(Plan { strict, breakage: Some(breakage), ..plan }), property);
}

const MEETINGS: [&str; 5] = ["newcomer decides", "newcomer waits", "newcomer is let in", "drops", "shows theirs"];

#[test]
fn newcomers_are_noticed() {
    holds(NEWCOMER, &MEETINGS);
    holds(TWO, &MEETINGS);
}

#[test]
fn newcomers_are_noticed_when_the_record_of_the_holder_is_closed() {
    holds(SWEEP, &[&MEETINGS[..], &["holds when closed"]].concat());
}

#[test]
fn newcomers_are_noticed_though_the_clock_of_the_holder_is_half_as_fast() {
    holds(CLOCK, &MEETINGS);
}

#[test]
fn own_transactions_are_shown() {
    holds(OWN, &["shows own"]);
    holds(APART, &["shows own", "shows own where it is clean"]);
    holds(UNKNOWN, &["shows own"]);
    holds(Plan { name: "unknown and swept", sweeps: true, ..UNKNOWN }, &["shows own", "holds when closed"]);
}

#[test]
fn own_transactions_are_shown_after_a_restart() {
    holds(RESTART, &["shows own", "comes from another process"]);
    holds(RESTART_APART, &["shows own", "comes from another process"]);
}

#[test]
fn own_transactions_and_newcomers_are_shown_together() {
    let small = Plan { name: "together", end: 2, lease: 1, newcomers: 1, sweeps: true, ..UNKNOWN };
    holds(small, &[&MEETINGS[..], &["shows own", "holds when closed"]].concat());
}

#[test]
fn newcomers_are_noticed_beside_a_restart() {
    let plan = Plan { name: "restart and newcomer", own: None, newcomers: 1, ..RESTART };
    holds(plan, &["newcomer decides", "drops", "shows theirs", "comes from another process"]);
    let short = Plan { name: "restart, own and newcomer", end: 1, lease: 1, newcomers: 1, ..RESTART };
    holds(short, &["newcomer decides", "drops", "shows theirs", "shows own", "comes from another process"]);
}

#[test]
fn breakages_of_the_newcomer_are_found() {
    fails(NEWCOMER, Breakage::NoWait, "L1");
    fails(NEWCOMER, Breakage::HalfWait, "L1");
    fails(CLOCK, Breakage::WaitWithoutMargin, "L1");
    fails(NEWCOMER, Breakage::WaitFromSending, "L1");
    fails(NEWCOMER, Breakage::LookBeforeInsert, "L1");
    fails(SWEEP, Breakage::ClosedFlagsIgnored, "L1");
    fails(TWO, Breakage::LivingUnflagged, "L1");
}

#[test]
fn breakages_of_the_lease_are_found() {
    fails(NEWCOMER, Breakage::FlagAfterList, "L1");
    fails(SWEEP, Breakage::OwnRecordUnchecked, "L1");
    fails(NEWCOMER, Breakage::CountedFromAnswer, "L1");
    fails(NEWCOMER, Breakage::ListOutlivesDrop, "L1");
    fails(UNKNOWN, Breakage::ListOutlivesDrop, "L2");
    fails(NEWCOMER, Breakage::UnsetFirst, "L1");
    fails(NEWCOMER, Breakage::FlagBesideUnset, "L1");
}

#[test]
fn breakages_with_own_transactions_are_found() {
    fails(OWN, Breakage::RegisteredAtHandOver, "L2");
    fails(OWN, Breakage::DroppedBeforeHandOver, "L1");
    fails(OWN, Breakage::FirstFinishEnds, "L1");
    fails(APART, Breakage::FirstFinishEnds, "L1");
    fails(UNKNOWN, Breakage::UnknownKeepsLease, "L2");
}

#[test]
fn breakages_with_restarts_are_found() {
    fails(RESTART, Breakage::NoCheckAfter, "L1");
    fails(RESTART, Breakage::ProcessNotCompared, "L1");
    fails(RESTART, Breakage::NotSettledAgain, "L1");
    fails(RESTART, Breakage::SettledInLater, "L1");
    fails(RESTART_APART, Breakage::SettleTrustsMemory, "L1");
}

/// A query begins only while the lease is held, and thus before a newcomer decides. What the check
/// of its answer adds is that the query does not show some of the newcomer's changes, and miss
/// earlier ones.
#[test]
fn checks_of_answers_keep_out_what_is_decided_during_a_query() {
    for breakage in [Breakage::NoCheckAfter, Breakage::PeriodIgnored, Breakage::LapseKeepsPeriod] {
        fails(NEWCOMER, breakage, "L3");
        holds(Plan { strict: false, breakage: Some(breakage), ..NEWCOMER }, &MEETINGS);
    }
}

/// The lease rests on a clock that never stands still for longer than the lease.
#[test]
fn a_clock_that_stands_for_longer_than_a_lease_breaks_it() {
    let plan = Plan { missed_ticks: V + 1, strict: false, ..CLOCK };
    let report = explore(plan);
    expect_violation(&report, "L1");
}
