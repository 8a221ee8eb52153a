//! Validations that do not read again what nothing has changed: a commit is of one moment
//! nevertheless, and each deliberate breakage is found.

use protocol_model::unchanged_reads::{BOTH, Breakage, Plan, X, Y, explore};

use crate::expect::{expect_holds, expect_violation};

/// No other client changes anything.
const ALONE: Plan = Plan {
    name: "alone",
    locks: true,
    together: false,
    looks: 2,
    decisions: &[],
    plain: &[],
    losses: false,
    their_decisions: &[],
    their_plain: &[],
    expires: false,
    their_ends: 0,
    restarts: 0,
    end: 0,
    breakage: None,
};

/// The client itself decides other transactions.
const OWN: Plan = Plan { name: "own decisions", decisions: &[BOTH, BOTH], losses: true, ..ALONE };

/// The client itself makes plain writes.
const PLAIN: Plan = Plan { name: "own plain writes", plain: &[0, 1], losses: true, ..ALONE };

/// The other client decides transactions.
const THEIRS: Plan = Plan { name: "their decisions", their_decisions: &[BOTH, BOTH], ..ALONE };

/// The other client makes plain writes.
const NOTICE: Plan = Plan { name: "their plain writes", their_plain: &[0, 0], end: 3, ..ALONE };

/// The other client ends its notice, and gives another one.
const END: Plan = Plan { name: "their notice is over", their_plain: &[0, 0], their_ends: 1, ..ALONE };

/// The other client ends the notice of one of two collections.
const ENDS: Plan = Plan { name: "one of their two notices is over", their_plain: &[0, 1], their_ends: 1, ..ALONE };

/// The other client makes an index by which the server removes a document, and ends its notice.
const EXPIRY: Plan = Plan { name: "their index removes", their_plain: &[0], their_ends: 1, expires: true, ..ALONE };

/// The other client also decides a transaction.
const EXPIRY_BESIDE: Plan =
    Plan { name: "their index removes, and they decide", looks: 1, their_decisions: &[BOTH], ..EXPIRY };

/// The other client makes plain writes in two collections.
const NOTICES: Plan = Plan { name: "their plain writes in two collections", their_plain: &[0, 1], ..ALONE };

/// The server starts again, and loses what was written plainly.
const RESTART: Plan = Plan { name: "restart", plain: &[0, 1], restarts: 1, ..ALONE };

/// One document is changed by the client itself, the other one also by transactions of the other
/// client.
const MIXED: Plan =
    Plan { name: "mixed", looks: 1, plain: &[1, 0], decisions: &[X], their_decisions: &[Y, Y], ..ALONE };

/// A plan with a few of each: looks, own and others' changes, and restarts.
const ALL: Plan =
    Plan { name: "all", looks: 1, plain: &[0], their_decisions: &[BOTH], their_plain: &[1], restarts: 1, ..ALONE };

fn holds(plan: Plan, events: &[&str]) {
    for together in [false, true] {
        let report = explore(Plan { together, ..plan });
        expect_holds(&report, &[&["commits unasked", "commits asked"][..], events].concat());
    }
}

fn fails(plan: Plan, breakage: Breakage, property: &str) {
    expect_violation(&explore(Plan { breakage: Some(breakage), ..plan }), property);
}

#[test]
fn own_changes_are_noticed() {
    holds(ALONE, &[]);
    holds(OWN, &["commits unasked after a change", "commits later", "conflicts"]);
    holds(PLAIN, &["commits unasked after a change", "commits half asked", "commits later", "conflicts"]);
}

#[test]
fn changes_of_others_are_noticed() {
    holds(THEIRS, &["commits unasked after a change", "commits later", "conflicts"]);
    holds(NOTICE, &["commits after a notice", "commits later", "conflicts"]);
    holds(NOTICES, &["commits beside a notice", "commits later", "conflicts"]);
    holds(END, &["commits after an end", "commits later", "conflicts"]);
    holds(ENDS, &["commits after an end", "commits beside a notice", "commits later", "conflicts"]);
}

#[test]
fn documents_that_the_server_removes_are_noticed() {
    holds(EXPIRY, &["commits after an end", "commits beside what may expire", "commits later", "conflicts"]);
    holds(EXPIRY_BESIDE, &["commits after an end", "commits beside what may expire", "commits later", "conflicts"]);
}

#[test]
fn restarts_are_noticed() {
    holds(RESTART, &["commits unasked after a change", "commits half asked", "commits later", "conflicts"]);
}

#[test]
fn changes_of_all_kinds_are_noticed_together() {
    holds(MIXED, &["commits half asked", "commits later", "conflicts"]);
    holds(ALL, &["commits half asked", "commits later", "conflicts"]);
}

#[test]
fn changes_are_noticed_by_transactions_without_locks() {
    for plan in [OWN, PLAIN, THEIRS, RESTART, ALL] {
        holds(Plan { locks: false, ..plan }, &["commits later", "conflicts"]);
    }
}

#[test]
fn breakages_of_the_beginning_are_found() {
    for plan in [OWN, PLAIN] {
        fails(plan, Breakage::BaseAfterRead, "S2");
    }
    fails(THEIRS, Breakage::LookAfterRead, "S2");
    fails(NOTICE, Breakage::AgeIgnored, "S2");
}

#[test]
fn breakages_of_the_later_look_are_found() {
    fails(OWN, Breakage::LookBeforeLock, "S1");
    fails(THEIRS, Breakage::StampsIgnored, "S2");
    fails(RESTART, Breakage::ConnectionsIgnored, "S2");
    fails(MIXED, Breakage::NotBesideAsked, "S2");
    fails(RESTART, Breakage::NotBesideAsked, "S2");
}

#[test]
fn breakages_of_notices_are_found() {
    fails(NOTICE, Breakage::NoticeInLaterOnly, "S2");
    fails(NOTICE, Breakage::NoticeAfterWrite, "S2");
    fails(NOTICE, Breakage::NoticeUnacknowledged, "S2");
    fails(NOTICES, Breakage::NoticeOfAnother, "S2");
    fails(NOTICE, Breakage::NoticeNotRenewed, "S2");
    fails(NOTICE, Breakage::NoticeAgeFromAnswer, "S2");
    fails(NOTICE, Breakage::NoticeRemovedAtShutdown, "S2");
}

#[test]
fn breakages_of_ends_are_found() {
    fails(END, Breakage::EndedBeforeKnown, "S2");
    fails(END, Breakage::EndForgotten, "S2");
    fails(END, Breakage::EndIgnored, "S2");
    fails(ENDS, Breakage::EndIgnored, "S2");
}

#[test]
fn breakages_of_catalogs_are_found() {
    fails(EXPIRY, Breakage::CatalogFromBeforeEnd, "S2");
    fails(EXPIRY, Breakage::CatalogFromAnswer, "S2");
    fails(EXPIRY, Breakage::ExpiryIgnored, "S2");
}

#[test]
fn breakages_of_counting_are_found() {
    fails(PLAIN, Breakage::PlainFromAnswer, "S2");
    fails(PLAIN, Breakage::UnknownPlainUncounted, "S2");
    fails(OWN, Breakage::DecisionFromAnswer, "S2");
    fails(OWN, Breakage::UncountedBeforeFinisher, "S2");
    fails(OWN, Breakage::UnknownDecisionUncounted, "S2");
}

/// The answer of the later look is needed for that only where it is sent ahead of the answers to
/// the reads.
#[test]
fn memory_is_asked_behind_the_questions() {
    let together = Plan { together: true, ..MIXED };
    fails(together, Breakage::MemoryAtSending, "S2");
    for plan in [OWN, PLAIN, MIXED] {
        let report = explore(Plan { breakage: Some(Breakage::MemoryAtSending), ..plan });
        assert!(report.complete, "{report:?}");
    }
}

/// The rules rest on this: what a look has shown is not missed by a later read.
#[test]
fn reads_have_to_show_what_is_decided_and_not_acknowledged() {
    fails(THEIRS, Breakage::ReadsOfAcknowledged, "S2");
}

/// Of the documents that are read again, one may be disturbed if it is the only one, because plain
/// writes change the others and leave no stamp.
#[test]
fn one_of_several_that_are_asked_again_may_not_be_disturbed() {
    fails(MIXED, Breakage::OneOfSeveralDisturbed, "S2");
}
