//! Each deliberate breakage is found, under a plan that holds without it (see `explore.rs`).

use protocol_model::{Mutation, Op, Plan, explore};

use crate::{expect::expect_violation, plans};

fn fails(plan: Plan, mutation: Mutation, property: &str) {
    expect_violation(&explore(plan.broken(mutation)), property);
}

#[test]
fn repair_swapped_is_found() {
    fails(plans::zombie(), Mutation::RepairSwapped, "P1");
}

#[test]
fn held_unanswered_is_found() {
    fails(plans::group_quiet_gives_up(), Mutation::HeldUnanswered, "P");
}

#[test]
fn query_safe_first_is_found() {
    fails(plans::queries(), Mutation::QuerySafeFirst, "P3");
}

#[test]
fn mark_ignored_is_found() {
    fails(plans::together(), Mutation::MarkIgnored, "P3");
}

#[test]
fn given_back_taken_for_done_is_found() {
    fails(plans::sent_together(), Mutation::GivenBackTakenForDone, "P1");
    fails(plans::sent_in_one_statement([2, 1, 0]), Mutation::GivenBackTakenForDone, "P1");
}

#[test]
fn failed_statement_that_holds_nothing_is_found() {
    fails(plans::refused_in_one_statement(), Mutation::FailedStatementHoldsNothing, "P1 P2");
}

#[test]
fn number_of_held_documents_taken_for_the_first_ones_is_found() {
    fails(plans::sent_in_one_statement([2, 1, 0]), Mutation::FirstOfHeldByNumber, "P1");
}

#[test]
fn locked_taken_for_changed_is_found() {
    fails(plans::sent_in_two_refused(), Mutation::LockedTakenForChanged, "P1");
    fails(plans::sent_in_two(), Mutation::GivenBackTakenForDone, "P1");
}

#[test]
fn taken_over_undecided_is_found() {
    fails(plans::taken_over(), Mutation::TakenOverUndecided, "P1");
}

#[test]
fn undone_by_list_is_found() {
    fails(plans::found_by_key(), Mutation::UndoneByList, "P7 undone");
}

#[test]
fn delisted_early_is_found() {
    fails(plans::taken_over(), Mutation::DelistedEarly, "P1 P3");
}

#[test]
fn delisted_at_take_over_is_found() {
    fails(plans::taken_over_restart(), Mutation::DelistedAtTakeOver, "P1 P3");
    fails(plans::finished_late(), Mutation::DelistedAtTakeOver, "P1 P3");
}

#[test]
fn delisted_unanswered_is_found() {
    fails(plans::finished_late(), Mutation::DelistedUnanswered, "P");
}

#[test]
fn open_connection_taken_is_found() {
    fails(plans::bound(plans::group_restart()), Mutation::OpenConnectionTaken, "P1 P3");
}

#[test]
fn dials_below_is_found() {
    fails(plans::bound(plans::restart_alone()), Mutation::DialsBelow, "P1 P3");
}

#[test]
fn bound_sent_again_is_found() {
    fails(plans::bound(plans::restart_alone()), Mutation::BoundSentAgain, "P1 P3");
}

#[test]
fn no_barrier_is_found() {
    fails(plans::bound(plans::restart_late()), Mutation::NoBarrier, "P9");
}

#[test]
fn record_removed_early_is_found() {
    fails(plans::zombie(), Mutation::RecordRemovedEarly, "P1");
}

#[test]
fn missing_record_means_committed_is_found() {
    fails(plans::late(), Mutation::MissingRecordMeansCommitted, "P1 P2");
}

#[test]
fn lock_trusts_earlier_read_is_found() {
    fails(plans::rivals(), Mutation::LockTrustsEarlierRead, "P1 P3");
}

#[test]
fn fence_ignored_is_found() {
    fails(plans::zombie(), Mutation::FenceIgnored, "P1 P3");
}

#[test]
fn numbers_leave_above_low_is_found() {
    fails(plans::reads(), Mutation::NumbersLeaveAboveLow, "P9");
}

#[test]
fn no_evidence_is_found() {
    fails(plans::restart(), Mutation::NoEvidence, "P1 P3");
}

#[test]
fn epoch_ignored_is_found() {
    fails(plans::restart_alone(), Mutation::EpochIgnored, "P1 P3");
}

#[test]
fn orphan_rolled_forward_is_found() {
    fails(plans::late_and_forgotten(), Mutation::OrphanRolledForward, "P1 P2");
}

#[test]
fn status_before_document_is_found() {
    fails(plans::reads(), Mutation::StatusBeforeDocument, "P3");
}

#[test]
fn lock_sent_twice_is_found() {
    fails(plans::late_and_forgotten(), Mutation::LockSentTwice, "P1 applied once");
}

#[test]
fn clean_epoch_read_late_is_found() {
    fails(plans::restart_alone(), Mutation::CleanEpochReadLate, "P1 P3");
}

#[test]
fn low_without_evidence_is_found() {
    fails(plans::restart_alone(), Mutation::LowWithoutEvidence, "P1 P3");
}

#[test]
fn owner_retires_any_record_is_found() {
    fails(plans::restart_alone(), Mutation::OwnerRetiresAnyRecord, "P1 P3");
}

#[test]
fn sweep_ignores_epoch_is_found() {
    fails(plans::restart_death(), Mutation::SweepIgnoresEpoch, "P1 P3");
}

#[test]
fn sweep_trusts_earlier_fence_is_found() {
    fails(plans::restart_zombie(), Mutation::SweepTrustsEarlierFence, "P1 P3");
}

#[test]
fn repair_trusts_volatile_status_is_found() {
    fails(plans::restart_zombie(), Mutation::RepairTrustsVolatileStatus, "P1 P2");
}

#[test]
fn examine_trusts_volatile_record_is_found() {
    fails(plans::restart_alone(), Mutation::ExamineTrustsVolatileRecord, "P9");
}

#[test]
fn sweep_trusts_volatile_repairs_is_found() {
    fails(plans::restart_death(), Mutation::SweepTrustsVolatileRepairs, "P1 P3");
}

#[test]
fn owner_trusts_missing_record_is_found() {
    fails(plans::late(), Mutation::OwnerTrustsMissingRecord, "P9");
}

#[test]
fn reader_trusts_missing_record_is_found() {
    fails(plans::reads_zombie(), Mutation::ReaderTrustsMissingRecord, "P3");
}

#[test]
fn sweep_list_before_fence_is_found() {
    fails(plans::enlisting(), Mutation::SweepListBeforeFence, "P1 P3");
}

#[test]
fn take_back_not_in_doubt_is_found() {
    fails(plans::sent_together(), Mutation::TakeBackNotInDoubt, "P1 P3");
    fails(plans::refused(), Mutation::TakeBackNotInDoubt, "P1 P3");
}

#[test]
fn finish_from_memory_is_found() {
    fails(plans::deleted(), Mutation::FinishFromMemory, "P1 P3");
    fails(plans::deleted_and_inserted(), Mutation::FinishFromMemory, "P1 P3");
}

#[test]
fn foreign_means_dead_is_found() {
    fails(plans::strangers(), Mutation::ForeignMeansDead, "P1 P3");
}

#[test]
fn not_outlived_is_found() {
    fails(plans::expiring(), Mutation::NotOutlived, "P1 P3");
}

#[test]
fn outlived_too_early_is_found() {
    fails(plans::expiring_restart(), Mutation::OutlivedTooEarly, "P1 P3");
}

#[test]
fn expired_left_in_place_is_found() {
    fails(plans::expiring(), Mutation::ExpiredLeftInPlace, "P1 P3");
    fails(plans::expiring_restart(), Mutation::ExpiredLeftInPlace, "P1 P3");
}

#[test]
fn gone_uncounted_is_found() {
    fails(plans::expiring(), Mutation::GoneUncounted, "P1 P3");
}

#[test]
fn expiry_finds_locked_is_found() {
    fails(plans::expiring(), Mutation::ExpiryFindsLocked, "P1 P3");
    fails(plans::expiring_restart(), Mutation::ExpiryFindsLocked, "P1 P3");
}

#[test]
fn repair_trusts_earlier_look_is_found() {
    fails(plans::expiring(), Mutation::RepairTrustsEarlierLook, "P1 presence");
    fails(plans::expiring_restart(), Mutation::RepairTrustsEarlierLook, "P1 presence");
}

#[test]
fn reserved_stored_is_found() {
    fails(plans::forged(Op::Remove), Mutation::ReservedStored, "P1 presence");
    fails(plans::forged(Op::Insert), Mutation::ReservedStored, "P1 presence");
}
