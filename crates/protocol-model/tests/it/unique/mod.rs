//! Values stay unique in every state that each plan can reach; and each deliberate breakage is
//! found, under a plan that holds without it.

mod every;
mod plans;

use protocol_model::unique::{Breakage, Plan, Sent, explore};

use crate::expect::{expect_holds, expect_violation};

fn holds(plan: Plan, events: &[&str]) {
    expect_holds(&explore(plan), events);
}

fn fails(plan: Plan, breakage: Breakage, property: &str) {
    expect_violation(&explore(plan.broken(breakage)), property);
}

#[test]
fn same_inserts_hold() {
    holds(plans::same_inserts(), &["a transaction commits", "a duplicate", "a conflict", "a repair"]);
    holds(plans::same_inserts_alone(), &["a duplicate"]);
}

#[test]
fn different_inserts_hold() {
    holds(plans::different_inserts(), &["all commit"]);
    holds(plans::insert_beside_null(), &["all commit"]);
}

#[test]
fn nulls_hold() {
    holds(plans::nulls(), &["a transaction commits", "a duplicate", "a conflict", "a repair"]);
}

#[test]
fn insert_update_holds() {
    holds(plans::insert_update(), &["a transaction commits", "a duplicate", "a conflict", "a repair"]);
}

#[test]
fn moves_hold() {
    holds(plans::move_away(), &["all commit", "a duplicate", "a conflict", "a repair"]);
    holds(plans::move_back(), &["a duplicate", "a conflict", "a repair"]);
    holds(plans::insert_after_move(), &["all commit", "a duplicate", "a conflict", "a repair"]);
    holds(plans::away_and_back(), &["a duplicate", "a conflict", "a repair"]);
}

#[test]
fn reinserts_hold() {
    holds(plans::reinsert(), &["a transaction commits", "a duplicate", "a conflict", "a repair"]);
    holds(plans::insert_twice(), &["a transaction commits", "a duplicate", "a conflict", "a repair"]);
}

#[test]
fn hand_overs_hold() {
    holds(plans::hand_over_alone(), &["all commit", "a slot"]);
    holds(plans::hand_over(), &["a duplicate", "a conflict", "a repair", "a slot"]);
}

#[test]
fn swaps_hold() {
    holds(plans::swap_alone(), &["all commit", "a slot"]);
    holds(plans::swap_insert(), &["a duplicate", "a conflict", "a repair", "a slot"]);
    holds(plans::swap_temporary(), &["all commit", "a conflict", "a repair", "a slot"]);
}

#[test]
fn swaps_repaired_hold() {
    holds(plans::swap_repaired(), &["all commit", "a conflict", "a repair", "a slot"]);
    holds(plans::swap_twice(), &["all commit", "a conflict", "a repair", "a slot"]);
}

#[test]
fn chains_hold() {
    holds(plans::chain_alone(), &["all commit", "a slot"]);
    holds(plans::chain_insert(), &["all commit", "a duplicate", "a conflict", "a repair", "a slot"]);
}

#[test]
fn writes_outside_hold() {
    holds(plans::outside_insert(), &["a duplicate", "a conflict", "a repair"]);
    holds(plans::outside_update(), &["a transaction commits", "a duplicate", "a conflict", "a repair"]);
}

#[test]
fn dead_clients_hold() {
    holds(plans::dead(), &["a duplicate", "a conflict", "a repair", "a slot"]);
    holds(plans::dead_movers(), &["a duplicate", "a conflict", "a repair"]);
}

#[test]
fn aborted_transactions_hold() {
    holds(plans::aborted(), &["a duplicate", "a conflict", "a repair", "a slot"]);
    holds(plans::aborted_inserts(), &["a duplicate", "a conflict", "a repair"]);
}

#[test]
fn refused_statements_hold() {
    holds(plans::refused(), &["all commit", "a duplicate", "a conflict", "a repair"]);
}

#[test]
fn refused_stays_is_found() {
    fails(plans::refused(), Breakage::RefusedStays, "U4");
}

#[test]
fn taken_back_unchecked_is_found() {
    fails(plans::refused(), Breakage::TakenBackUnchecked, "U1");
}

#[test]
fn crowd_holds() {
    holds(plans::crowd(), &["a transaction commits", "a duplicate", "a conflict", "a repair", "a slot"]);
}

#[test]
fn check_before_placing_is_found() {
    fails(plans::same_inserts(), Breakage::CheckBeforePlacing, "U1");
}

#[test]
fn no_check_is_found() {
    fails(plans::move_away(), Breakage::NoCheck, "U1");
}

#[test]
fn held_are_not_counted_is_found() {
    fails(plans::move_back(), Breakage::HeldAreNotCounted, "U1");
}

#[test]
fn counted_is_duplicate_is_found() {
    fails(plans::insert_after_move(), Breakage::CountedIsDuplicate, "U3");
}

#[test]
fn no_mirror_is_found() {
    fails(plans::same_inserts(), Breakage::NoMirror, "U1");
}

#[test]
fn no_slot_on_inserts_is_found() {
    fails(plans::different_inserts(), Breakage::NoSlotOnInserts, "U3");
    fails(plans::insert_beside_null(), Breakage::NoSlotOnInserts, "U3");
}

#[test]
fn no_slot_at_finishing_is_found() {
    fails(plans::swap_alone(), Breakage::NoSlotAtFinishing, "U2");
}

#[test]
fn rival_sets_no_slot_is_found() {
    fails(plans::swap_repaired(), Breakage::RivalSetsNoSlot, "U2");
}

#[test]
fn slot_on_one_only_is_found() {
    fails(plans::swap_alone(), Breakage::SlotOnOneOnly, "U2");
}

#[test]
fn finish_keeps_slot_is_found() {
    fails(plans::swap_alone(), Breakage::FinishKeepsSlot, "U5");
}

#[test]
fn active_rival_is_free_is_found() {
    fails(plans::move_back(), Breakage::ActiveRivalIsFree, "U1");
}

#[test]
fn decided_rival_is_free_is_found() {
    fails(plans::move_back(), Breakage::DecidedRivalIsFree, "U1");
    fails(plans::move_away(), Breakage::DecidedRivalIsFree, "U2");
}

#[test]
fn own_safe_is_taken_is_found() {
    fails(plans::hand_over_alone(), Breakage::OwnSafeIsTaken, "U6");
}

#[test]
fn refused_is_duplicate_is_found() {
    fails(plans::same_inserts(), Breakage::RefusedIsDuplicate, "U3");
}

#[test]
fn outside_trusts_user_index_is_found() {
    fails(plans::outside_insert(), Breakage::OutsideTrustsUserIndex, "U1");
}

#[test]
fn statements_that_are_sent_together_hold() {
    for sent in [Sent::Together, Sent::Fused] {
        holds(plans::updates_together(sent), &["a transaction commits", "a duplicate", "a conflict", "a repair"]);
        holds(plans::missed_together(sent), &["all commit", "a conflict", "a repair"]);
        let report = explore(plans::given_up_too_late(sent));
        assert!(report.complete && !report.examples.contains(&"all commit"), "{report:?}");
    }
    holds(plans::inserts_together(), &["a duplicate", "a conflict", "a repair"]);
    holds(plans::aborted_together(), &["a duplicate", "a conflict", "a repair"]);
}

#[test]
fn asked_is_done_is_found() {
    fails(plans::updates_together(Sent::Together), Breakage::AskedIsDone, "U1");
    fails(plans::updates_together(Sent::Fused), Breakage::AskedIsDone, "U1");
    fails(plans::inserts_together(), Breakage::AskedIsDone, "U1");
}

#[test]
fn given_back_is_done_is_found() {
    fails(plans::missed_together(Sent::Fused), Breakage::GivenBackIsDone, "U4");
    fails(plans::updates_together(Sent::Together), Breakage::GivenBackIsDone, "U4");
}

/// A server refuses the first statement, because the value is there when it is carried out.
#[test]
fn questions_behind_all_statements_allow_what_a_server_refuses() {
    let plan = plans::given_up_too_late(Sent::Fused).broken(Breakage::AskedAtTheEnd);
    assert!(explore(plan).examples.contains(&"all commit"));
}
