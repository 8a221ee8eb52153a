//! Explorations with one broken rule: a property is violated.

use super::plans::*;
use crate::model::{
    explore::is_noticed,
    group::plan::{Budget, Flaw},
};

#[test]
fn flaw_own_sync_is_noticed() {
    is_noticed(with(write(), Budget { elections: 1, ..Budget::default() }), Flaw::OwnSync);
}

#[test]
fn flaw_counts_unsynced_is_noticed() {
    let budget = Budget { elections: 1, crashes: 2, collections: 1, ..Budget::default() };
    is_noticed(with(write(), budget), Flaw::CountsUnsynced);
}

#[test]
fn flaw_old_term_accepted_is_noticed() {
    is_noticed(with(write(), Budget { elections: 1, ..Budget::default() }), Flaw::OldTermAccepted);
}

#[test]
fn flaw_begins_before_first_entry_is_noticed() {
    let budget = Budget { elections: 2, crashes: 1, ..Budget::default() };
    is_noticed(with(write(), budget), Flaw::BeginsBeforeFirstEntry);
}

#[test]
fn flaw_applies_all_is_noticed() {
    is_noticed(with(write(), Budget { elections: 1, crashes: 1, ..Budget::default() }), Flaw::AppliesAll);
}

#[test]
fn flaw_unconfirmed_is_noticed() {
    is_noticed(transfer_and_reader(), Flaw::Unconfirmed);
}

#[test]
fn flaw_unconfirmed_to_a_client_is_noticed() {
    is_noticed(transfer_and_reader_of_the_group(), Flaw::Unconfirmed);
}

#[test]
fn flaw_settled_unconfirmed_is_noticed() {
    is_noticed(write_and_snapshot(2), Flaw::SettledUnconfirmed);
}

#[test]
fn flaw_snapshot_unconfirmed_is_noticed() {
    is_noticed(write_and_snapshot(1), Flaw::SnapshotUnconfirmed);
}

#[test]
fn flaw_confirmed_before_is_noticed() {
    is_noticed(transfer_and_reader(), Flaw::ConfirmedBefore);
}

#[test]
fn flaw_answers_for_later_lives_is_noticed() {
    let budget = Budget { elections: 1, early_ticks: 1, ..Budget::default() };
    is_noticed(with(transfer_of_the_group(), budget), Flaw::AnswersForLaterLives);
}

#[test]
fn flaw_cuts_without_conflict_is_noticed() {
    let budget = Budget { elections: 1, late: 1, ..Budget::default() };
    is_noticed(with(writes_without_the_last_member(), budget), Flaw::CutsWithoutConflict);
}

#[test]
fn flaw_damage_taken_for_torn_is_noticed() {
    let budget = Budget { elections: 1, damages: 1, ..Budget::default() };
    is_noticed(with(writes_without_the_last_member(), budget), Flaw::DamageTakenForTorn);
}

#[test]
fn flaw_empty_disk_votes_is_noticed() {
    let budget = Budget { elections: 1, lost_disks: 1, ..Budget::default() };
    is_noticed(with(writes_without_the_last_member(), budget), Flaw::EmptyDiskVotes);
}

#[test]
fn flaw_empty_disk_confirms_is_noticed() {
    let budget = Budget { elections: 1, lost_disks: 1, ..Budget::default() };
    is_noticed(with(transfer_and_reader(), budget), Flaw::EmptyDiskConfirms);
}

#[test]
fn flaw_admitted_behind_is_noticed() {
    let budget = Budget { elections: 1, lost_disks: 1, ..Budget::default() };
    is_noticed(with(writes_without_the_last_member(), budget), Flaw::AdmittedBehind);
}

#[test]
fn flaw_marks_not_in_log_is_noticed() {
    let budget = Budget { elections: 1, late: 1, marks: 1, collections: 1, ..Budget::default() };
    is_noticed(with(transfer_without_the_last_member(), budget), Flaw::MarksNotInLog);
}

#[test]
fn flaw_marks_not_committed_is_noticed() {
    is_noticed(write_with_marks_of_a_leader_that_is_ahead(), Flaw::MarksNotCommitted);
}

#[test]
fn flaw_removed_without_items_is_noticed() {
    let budget = Budget { elections: 1, marks: 1, collections: 1, ..Budget::default() };
    is_noticed(with(writes_without_the_last_member(), budget), Flaw::RemovedWithoutItems);
}

#[test]
fn flaw_latecomers_leave_is_noticed() {
    is_noticed(transfer_and_two_readers(), Flaw::LatecomersLeave);
}

#[test]
fn flaw_validates_unreserved_is_noticed() {
    is_noticed(reader_that_brings_an_epoch_and_snapshot(), Flaw::ValidatesUnreserved);
}

#[test]
fn flaw_serves_unreserved_is_noticed() {
    is_noticed(write_and_reader_that_brings_an_epoch_and_snapshot(), Flaw::ServesUnreserved);
}

#[test]
fn flaw_not_found_of_later_lives_is_noticed() {
    is_noticed(with(write(), Budget { elections: 1, asks: 1, ..Budget::default() }), Flaw::NotFoundOfLaterLives);
}

#[test]
fn flaw_not_found_of_forgotten_is_noticed() {
    is_noticed(write_that_is_removed_and_asked_for(), Flaw::NotFoundOfForgotten);
}

#[test]
fn flaw_state_transferred_is_noticed() {
    is_noticed(writes_with_late_batch_and_marks(), Flaw::StateTransferred);
}

#[test]
fn flaw_pieces_mixed_is_noticed() {
    is_noticed(writes_and_a_member_that_comes_back(), Flaw::PiecesMixed);
}

#[test]
fn flaw_conflict_counted_is_noticed() {
    is_noticed(write_with_a_leader_that_is_ahead(), Flaw::ConflictCounted);
}

#[test]
fn flaw_segment_goes_on_is_noticed() {
    is_noticed(write_and_transfer_of_the_group(), Flaw::SegmentGoesOn);
}

#[test]
fn flaw_history_goes_on_is_noticed() {
    is_noticed(write_after_a_snapshot(), Flaw::HistoryGoesOn);
}

#[test]
fn flaw_full_acknowledges_nothing_is_noticed() {
    is_noticed(transfers_to_a_group_without_room(), Flaw::FullAcknowledgesNothing);
}

#[test]
fn flaw_hung_leads_is_noticed() {
    is_noticed(with(write(), Budget { elections: 1, hangs: 1, ..Budget::default() }), Flaw::HungLeads);
}
