//! Explorations of the protocol with one flaw: a property is violated.

use super::plans::*;
use crate::core::flaw::Flaw;
use crate::model::{explore::is_noticed, plan::Plan};

/// Makes one test per flaw, with the plan that shows the flaw.
macro_rules! flaws {
    ($($name:ident: $flaw:ident in $plan:expr,)*) => { $(
        #[test]
        fn $name() {
            is_noticed($plan, Flaw::$flaw);
        }
    )* };
}

flaws! {
    flaw_read_locks_not_restored_is_noticed: ReadLocksNotRestored in write_skew_from_afar(),
    flaw_reads_not_locked_is_noticed: ReadsNotLocked in write_skew(),
    flaw_versions_not_checked_is_noticed: VersionsNotChecked in write_skew(),
    flaw_promise_not_logged_is_noticed: PromiseNotLogged in
        two_participants(),
    flaw_vote_before_durable_apart_is_noticed: VoteBeforeDurable in
        apart(Plan { crashes: 1, crash_only: Some(2), ..transfer_and_audit() }),
    flaw_vote_before_durable_is_noticed: VoteBeforeDurable in Plan { crashes: 1, ..one_participant() },
    flaw_answer_before_durable_is_noticed: AnswerBeforeDurable in
        Plan { crashes: 1, losses: 1, ..one_participant() },
    flaw_acknowledge_before_durable_is_noticed: AcknowledgeBeforeDurable in Plan { crashes: 1, ..one_participant() },
    flaw_complete_before_acknowledged_is_noticed: CompleteBeforeAcknowledged in
        Plan { losses: 1, ..one_participant() },
    flaw_complete_at_first_acknowledgement_is_noticed: CompleteAtFirstAcknowledgement in
        Plan { collections: 1, losses: 1, crashes: 0, early_ticks: 0, ..two_participants() },
    flaw_inquiry_during_handover_is_noticed: InquiryDuringHandover in
        apart(Plan { early_ticks: 1, ..one_participant() }),
    flaw_abort_releases_only_granted_is_noticed: AbortReleasesOnlyGranted in apart(write_skew()),
    flaw_probe_after_check_is_noticed: ProbeAfterCheck in slow_storage(transfers_and_audit()),
    flaw_unlock_before_applied_is_noticed: UnlockBeforeApplied in apart(slow_storage(transfer_then_increment())),
    flaw_decisions_sent_once_is_noticed: DecisionsSentOnce in Plan { losses: 1, ..one_participant() },
    flaw_late_prepare_accepted_is_noticed: LatePrepareAccepted in
        Plan { duplicates: 1, collections: 1, ..one_participant() },
    flaw_validation_ignores_locks_is_noticed: ValidationIgnoresLocks in transfers_and_audit(),
    flaw_absence_only_validated_is_noticed: AbsenceOnlyValidated in come_and_gone(),
    flaw_storage_not_persisted_is_noticed: StorageNotPersisted in
        Plan { crashes: 1, collections: 1, ..two_increments() },
    flaw_gc_record_after_removal_is_noticed: GcRecordAfterRemoval in
        Plan { crashes: 1, collections: 1, ..two_increments() },
    flaw_exceptions_ignored_is_noticed: ExceptionsIgnored in
        Plan { collections: 1, losses: 1, crashes: 0, early_ticks: 0, ..two_participants() },
    flaw_completeness_forgotten_is_noticed: CompletenessForgotten in
        Plan { crashes: 1, collections: 2, ..one_participant() },
    flaw_validations_renamed_is_noticed: ValidationsRenamed in two_audits_from_afar(),
    flaw_numbers_reused_is_noticed: NumbersReused in Plan { crashes: 1, ..one_participant() },
    flaw_younger_never_gives_way_is_noticed: YoungerNeverGivesWay in transfers_that_meet(),
    flaw_waiter_left_at_abort_is_noticed: WaiterLeftAtAbort in transfer_and_reader_from_afar(),
    flaw_gone_drops_locks_is_noticed: GoneDropsLocks in Plan { disconnections: 1, ..write_skew() },
    flaw_gone_leave_one_by_one_is_noticed: GoneLeaveOneByOne in
        Plan { disconnections: 1, ..transfer_and_two_that_wait_from_afar() },
    flaw_kept_for_ever_is_noticed: KeptForEver in increments_and_retry(&["1a"], 1, false),
    flaw_keys_elsewhere_accepted_is_noticed: KeysElsewhereAccepted in old_map_after_a_move(),
    flaw_map_not_changed_is_noticed: MapNotChanged in old_map_after_a_move(),
    flaw_map_not_locked_is_noticed: MapNotLocked in two_moves_to_one_server(),
    flaw_fence_not_locked_is_noticed: FenceNotLocked in write_skew_beside_a_move(),
    flaw_fence_not_restored_is_noticed: FenceNotRestored in
        Plan { crashes: 1, crash_only: Some(1), ..write_skew_beside_a_move() },
    flaw_unmet_takes_parts_is_noticed: UnmetTakesParts in move_to_a_joiner_and_snapshot(),
    flaw_unmet_coordinates_is_noticed: UnmetCoordinates in one_after_the_other_by_a_joiner_and_snapshot(),
    flaw_unmet_in_first_epoch_is_noticed: UnmetInFirstEpoch in move_beside_a_joiner_and_snapshot(),
    flaw_unkept_locks_taken_is_noticed: UnkeptLocksTaken in increment_that_names_a_transfer(),
}

#[test]
fn flaw_epoch_of_participant_is_noticed() {
    is_noticed(transfer_and_snapshot(), Flaw::EpochOfParticipant);
}

#[test]
fn flaw_epoch_not_entered_is_noticed() {
    is_noticed(transfer_and_dependent_and_snapshot(), Flaw::EpochNotEntered);
}

#[test]
fn flaw_snapshot_not_settled_is_noticed() {
    is_noticed(transfer_and_snapshot(), Flaw::SnapshotNotSettled);
}

#[test]
fn flaw_snapshot_disturbed_unnoticed_is_noticed() {
    is_noticed(one_after_the_other_and_snapshot(), Flaw::SnapshotDisturbedUnnoticed);
}

#[test]
fn flaw_snapshot_overtaken_unnoticed_is_noticed() {
    is_noticed(one_after_the_other_and_two_snapshots(), Flaw::SnapshotOvertakenUnnoticed);
}

#[test]
fn flaw_snapshot_over_restart_is_noticed() {
    let plan = Plan { crashes: 1, crash_only: Some(3), ..one_after_the_other_and_snapshot() };
    is_noticed(plan, Flaw::SnapshotOverRestart);
}

#[test]
fn flaw_epochs_not_reserved_is_noticed() {
    is_noticed(Plan { crashes: 1, ..transfer_and_snapshot() }, Flaw::EpochsNotReserved);
}

#[test]
fn flaw_validation_in_two_epochs_is_noticed() {
    is_noticed(audit_between_two_writes_and_snapshot(), Flaw::ValidationInTwoEpochs);
}

#[test]
fn flaw_validation_epoch_of_arrival_is_noticed() {
    is_noticed(validation_that_waits_and_snapshot(), Flaw::ValidationEpochOfArrival);
}

#[test]
fn flaw_validation_keys_in_two_epochs_is_noticed() {
    is_noticed(validation_that_sees_keys_free_one_after_the_other_and_snapshot(), Flaw::ValidationKeysInTwoEpochs);
}

#[test]
fn flaw_validation_before_reserved_is_noticed() {
    is_noticed(validation_that_brings_an_epoch_and_snapshot(), Flaw::ValidationBeforeReserved);
}

#[test]
fn flaw_resolved_unseen_is_noticed() {
    is_noticed(transfer_of_a_lost_coordinator(&["2b", "3c"]), Flaw::ResolvedUnseen);
}

#[test]
fn flaw_resolved_by_logs_only_is_noticed() {
    is_noticed(transfer_of_a_lost_coordinator(&["2b", "3c"]), Flaw::ResolvedByLogsOnly);
}

#[test]
fn flaw_resolved_by_first_item_is_noticed() {
    is_noticed(transfer_of_a_lost_coordinator_and_a_key_put_back(), Flaw::ResolvedByFirstItem);
}
