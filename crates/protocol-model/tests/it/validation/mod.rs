//! Snapshot and serializable by validation hold in every state that each plan can reach; each
//! deliberate breakage is found, under a plan that holds without it.

mod every;
mod plans;

use protocol_model::validation::{
    Breakage,
    Op::{Point, Write},
    Plan, explore,
    query::ONE,
};

use self::plans::*;
use crate::{
    DEEP, deep,
    expect::{expect_holds, expect_violation},
};

fn holds(plan: Plan, events: &[&str]) {
    expect_holds(&explore(plan), events);
}

fn fails(plan: Plan, breakage: Breakage, property: &str) {
    expect_violation(&explore(plan.broken(breakage)), property);
}

#[test]
fn points_hold() {
    holds(values_come_back(), &["all commit", "a transaction is disturbed"]);
    holds(read_then_write(), &["all commit", "a transaction gives way"]);
    holds(changed_twice(), &["all commit"]);
    holds(read_skew(), &["all commit", "a transaction gives way"]);
    holds(counters(), &["all commit", "a transaction gives way"]);
    holds(stricter(values_come_back()), &["all commit"]);
}

#[test]
fn scans_hold() {
    holds(moved_past_the_cursor(), &["a disturbed one commits"]);
    holds(decided_together(), &["a disturbed one commits"]);
    for plan in [torn_scan(), moved_past_the_cursor(), two_collections(), scan_then_write(), scanned_counters()] {
        holds(plan.clone(), &["all commit", "a transaction gives way"]);
        holds(one_by_one(plan.clone()), &["all commit"]);
        holds(stricter(plan), &["all commit"]);
    }
}

#[test]
fn restarts_hold() {
    holds(restarts(), &["all commit", "a transaction gives way"]);
}

#[test]
fn remembered_looks_hold() {
    for plan in [values_come_back(), moved_past_the_cursor(), two_collections(), counters()] {
        holds(remembered(plan.clone()), &["all commit", "a transaction gives way"]);
        holds(remembered(of_one_client(plan.clone())), &["all commit", "a transaction gives way"]);
        holds(remembered(stricter(plan)), &["all commit"]);
    }
    holds(remembered(of_one_client(restarts())), &["all commit"]);
}

#[test]
fn wrong_memories_are_found() {
    let plan = || remembered(of_one_client(values_come_back()));
    fails(plan(), Breakage::KnownBeforeDecided, "V1");
    fails(plan(), Breakage::OwnRecordIgnored, "V1");
    fails(remembered(of_one_client(restarts())), Breakage::EpochIgnored, "V1");
}

#[test]
fn questions_ahead_of_the_commit_hold() {
    let possible = ["all commit", "one validated ahead commits", "a transaction gives way"];
    let restarts = |plan: Plan| Plan { restarts: 1, ..plan };
    for plan in [ahead_of_the_commit(), ahead_of_more(Write(3, ONE)), restarts(ahead_of_more(Write(3, ONE)))] {
        holds(plan.clone(), &possible);
        holds(of_one_client(plan), &possible);
    }
    holds(ahead_of_a_single_write(), &possible);
    for plan in [ahead_of_more(Point(3)), restarts(ahead_of_more(Point(3)))] {
        holds(plan.clone(), &["all commit", "a transaction gives way"]);
        holds(of_one_client(plan), &["all commit", "a transaction gives way"]);
    }
}

#[test]
fn wrong_questions_ahead_of_the_commit_are_found() {
    fails(ahead_of_more(Point(3)), Breakage::AheadOfARead, "V1");
    fails(ahead_of_more(Write(3, ONE)), Breakage::AheadOfAWrite, "V1");
    fails(of_one_client(ahead_of_the_commit()), Breakage::AheadKnownLate, "V1");
    fails(ahead_of_a_single_write(), Breakage::AheadUncompared, "V1");
    fails(ahead_of_the_commit(), Breakage::AheadWithOneLook, "V1");
}

#[test]
fn one_disturbed_document_holds() {
    for plan in [two_points(), stricter(two_points()), remembered(two_points())] {
        holds(plan, &["all commit", "a transaction gives way"]);
    }
    fails(two_points(), Breakage::SeveralDisturbed, "V1");
    fails(moved_past_the_cursor(), Breakage::ScanDisturbed, "V1");
    holds(disturbed_after_rivals(), &["all commit"]);
    fails(disturbed_after_rivals(), Breakage::DisturbedAfterRivals, "V3");
}

#[test]
fn reads_by_key_hold() {
    for plan in [moved_key(), key_comes_and_goes()] {
        holds(plan.clone(), &["all commit", "a transaction gives way"]);
        holds(one_by_one(plan.clone()), &["all commit"]);
        holds(remembered(plan.clone()), &["all commit", "a transaction gives way"]);
        holds(stricter(plan), &["all commit", "a transaction gives way"]);
    }
    for plan in [key_stays(), another_matches(), torn_key()] {
        holds(plan.clone(), &["all commit"]);
        holds(stricter(plan), &["all commit"]);
    }
    fails(moved_key(), Breakage::NothingByKeyConcluded, "V1");
    fails(another_matches(), Breakage::ScanComparedAsKeys, "V1");
}

#[test]
fn serializable_holds() {
    holds(write_skew(), &["all commit", "a transaction waits", "a transaction gives way"]);
    holds(roster(2), &["all commit", "a transaction waits", "a transaction gives way"]);
    holds(roster(usize::from(deep(3))), &["all commit", "a transaction waits", "a transaction gives way"]);
    holds(phantoms(), &["all commit", "a transaction waits", "a transaction gives way"]);
    holds(read_only_anomaly(), &["all commit", "a transaction gives way"]);
    holds(one_document_afterwards(), &["all commit", "a transaction gives way"]);
    holds(weaker_rivals(), &["all commit", "a transaction gives way"]);
}

#[test]
fn own_views_hold() {
    for plan in [own_view(), converted()] {
        holds(plan.clone(), &["all commit", "a transaction gives way"]);
        holds(stricter(plan), &["all commit", "a transaction gives way"]);
    }
    // Serial orders know no single writes.
    holds(converted_beside_a_single_write(), &["all commit", "a transaction gives way"]);
}

#[test]
fn predicate_writes_hold() {
    for plan in [one_more_matches(), matches_again(), nothing_matches(), duplicate()] {
        holds(plan.clone(), &["all commit", "a transaction gives way"]);
        holds(stricter(plan), &["all commit", "a transaction gives way"]);
    }
}

#[test]
fn lock_waits_hold() {
    holds(lock_waits(), &["all commit", "a transaction gives way"]);
    holds(stricter(Plan { lock_waits: true, ..counters() }), &["all commit"]);
}

#[test]
fn single_writes_hold_as_far_as_they_are_compared() {
    holds(single_write(), &["all commit", "a transaction gives way"]);
    let report = explore(single_writes_come_back());
    assert!(!report.violations.is_empty(), "documented, but it cannot happen: {report:?}");
}

#[test]
fn looks_are_needed() {
    for plan in [values_come_back(), moved_past_the_cursor()] {
        fails(plan.clone(), Breakage::NoLooks, "V1");
        fails(plan.clone(), Breakage::OneLook, "V1");
        fails(plan.clone(), Breakage::FirstLookLate, "V1");
        fails(plan.clone(), Breakage::SecondLookEarly, "V1");
        fails(plan.clone(), Breakage::StampsAfterDecision, "V1");
    }
    fails(values_come_back(), Breakage::StampUsedTwice, "V1");
    fails(two_collections(), Breakage::OneCollectionStamped, "V1");
    fails(decided_together(), Breakage::OneOfSeveralStamped, "V1");
    fails(restarts(), Breakage::EpochIgnored, "V1");
}

#[test]
fn exemptions_are_found() {
    fails(read_skew(), Breakage::SeveralExempt, "V1");
    fails(values_come_back(), Breakage::SeveralReadAgainOnce, "V1");
    fails(torn_scan(), Breakage::ScanExempt, "V1");
    fails(read_skew(), Breakage::ReadOnlyExempt, "V1");
    fails(read_only_anomaly(), Breakage::ReadOnlyExempt, "V3");
    fails(one_document_afterwards(), Breakage::LockedExempt, "V3");
}

#[test]
fn missing_entries_are_found() {
    fails(one_more_matches(), Breakage::PredicateWriteWithoutEntry, "V1");
    fails(matches_again(), Breakage::UnmatchedPassedOver, "V1");
    fails(nothing_matches(), Breakage::NoMatchWithoutEntry, "V1");
    fails(duplicate(), Breakage::DuplicateWithoutEntry, "V1");
    fails(duplicate(), Breakage::DuplicateUnconfirmed, "V1");
    fails(counters(), Breakage::NoComparisonUnderLock, "V1");
}

#[test]
fn own_view_again_is_found() {
    fails(scan_then_write(), Breakage::OwnViewAgain, "V1");
    fails(converted(), Breakage::ConvertedWithoutLooks, "V1");
    fails(converted_beside_a_single_write(), Breakage::OwnViewFirst, "V1");
}

/// A transaction that counts between two inserts could never commit.
#[test]
fn own_view_again_never_commits() {
    let report = explore(own_view().broken(Breakage::OwnViewAgain));
    assert!(!report.examples.contains(&"all commit"), "{report:?}");
}

#[test]
fn a_wrong_order_is_found() {
    for plan in [read_then_write(), scan_then_write()] {
        fails(plan.clone(), Breakage::ValidatedBeforeLastLock, "V1");
        fails(plan, Breakage::LastAnswerIgnored, "V1");
    }
    fails(read_skew(), Breakage::StatusRemembered, "V1");
    fails(changed_twice(), Breakage::EarlierVersionMapped, "V1");
    fails(moved_past_the_cursor(), Breakage::ProbeAfterScan, "V1");
}

#[test]
fn rivals_are_looked_for() {
    for plan in [write_skew(), roster(2), phantoms()] {
        fails(plan, Breakage::RivalsIgnored, "V3");
    }
    fails(read_only_anomaly(), Breakage::RivalsIgnored, "V3");
}

#[test]
fn quiet_holds() {
    let passed_by = ["all commit", "a rival is passed by", "a refused one commits"];
    for plan in [audit(), audit_of_two()] {
        holds(plan.clone(), &passed_by);
        holds(remembered(plan.clone()), &passed_by);
        holds(asked_late(plan), &passed_by);
    }
    if *DEEP {
        holds(Plan { restarts: 1, ..audit_of_two() }, &["a rival is passed by"]);
        holds(two_audits(), &passed_by);
        holds(audited_write_skew(), &["a rival is passed by"]);
    }
    holds(audited_reader(), &passed_by);
    holds(quiet_elsewhere(), &passed_by);
    holds(quiet_write_skew(), &["a rival is passed by"]);
    holds(of_one_client(quiet_write_skew()), &["a rival is passed by"]);
}

#[test]
fn quiet_that_rests_on_nothing_is_found() {
    fails(audit(), Breakage::NotValidatedAgain, "V3");
    fails(audit(), Breakage::QuietNotLookedAt, "V3");
    fails(audit(), Breakage::HeardWhileItStands, "V3");
    fails(quiet_elsewhere(), Breakage::QuietForgotten, "V3");
    fails(audited_reader(), Breakage::HeardAfterwards, "V3");
    fails(audit_of_two(), Breakage::QuietOfOneCollection, "V3");
    let mut afterwards = audit_of_two();
    afterwards.txs[2].after = Some(1);
    fails(Plan { restarts: 1, ..afterwards }, Breakage::QuietUnjournaled, "V3");
}

#[test]
fn waits_have_an_order() {
    fails(write_skew(), Breakage::NoOrderOfAges, "V4");
    fails(roster(2), Breakage::NoOrderOfAges, "V4");
    fails(lock_waits(), Breakage::LockWaitsWithoutAges, "V4");
}
