//! Explorations of the real protocol: no property is violated.

use super::plans::*;
use crate::model::{
    explore::{holds, reaches},
    plan::{Plan, Tx, key, tx},
};

#[test]
fn write_skew_with_crash() {
    holds(Plan { crashes: 1, ..write_skew() });
}

#[test]
fn write_skew_from_afar_with_crash() {
    holds(write_skew_from_afar());
}

#[test]
fn transfer_and_snapshot_with_crash() {
    holds(Plan { crashes: 1, ..transfer_and_snapshot() });
}

#[test]
fn transfer_and_snapshot_with_loss_and_duplicate() {
    holds(Plan { losses: 1, duplicates: 1, ..transfer_and_snapshot() });
}

#[test]
fn transfer_and_dependent_and_snapshot_undisturbed() {
    holds(transfer_and_dependent_and_snapshot());
}

#[test]
fn one_after_the_other_and_snapshot_undisturbed() {
    holds(one_after_the_other_and_snapshot());
    holds(Plan { holds: true, ..one_after_the_other_and_snapshot() });
}

#[test]
fn one_after_the_other_and_snapshot_with_crash_of_coordinator() {
    holds(Plan { crashes: 1, crash_only: Some(3), ..one_after_the_other_and_snapshot() });
}

#[test]
fn one_after_the_other_and_two_snapshots_undisturbed() {
    holds(one_after_the_other_and_two_snapshots());
}

#[test]
fn audit_between_two_writes_and_snapshot_undisturbed() {
    holds(audit_between_two_writes_and_snapshot());
}

#[test]
fn validation_that_waits_and_snapshot_undisturbed() {
    holds(validation_that_waits_and_snapshot());
}

#[test]
fn validation_that_sees_keys_free_one_after_the_other_and_snapshot_with_early_timer() {
    holds(validation_that_sees_keys_free_one_after_the_other_and_snapshot());
}

#[test]
fn validation_that_brings_an_epoch_and_snapshot_with_crash() {
    holds(validation_that_brings_an_epoch_and_snapshot());
}

#[test]
fn transfer_and_two_that_wait_from_afar_disconnected() {
    holds(Plan { disconnections: 1, ..transfer_and_two_that_wait_from_afar() });
}

#[test]
fn transfer_and_audit_with_crash() {
    holds(Plan { crashes: 1, ..transfer_and_audit() });
}

#[test]
fn transfers_and_audit_undisturbed() {
    holds(transfers_and_audit());
}

#[test]
fn two_audits_from_afar_with_crash() {
    holds(two_audits_from_afar());
}

#[test]
fn one_participant_with_crash_and_two_collections() {
    holds(Plan { crashes: 1, collections: 2, ..one_participant() });
}

#[test]
fn come_and_gone_undisturbed() {
    holds(come_and_gone());
}

#[test]
fn transfer_then_transfer_with_duplicate_and_loss() {
    let second = Tx { after: Some(0), ..tx(2, &["1a", "2b"], &["1a", "2b"]) };
    holds(Plan { losses: 1, duplicates: 1, ..Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), second]) });
}

#[test]
fn two_participants_with_crash_and_early_timers() {
    holds(two_participants());
}

#[test]
fn two_participants_with_any_crashes_and_loss() {
    let plan = Plan { crashes: 2, crash_only: None, early_ticks: 0, losses: 1, ..two_participants() };
    holds(plan);
}

#[test]
fn two_increments_with_crashes_and_collection() {
    holds(Plan { crashes: 2, collections: 1, ..two_increments() });
}

#[test]
fn one_participant_with_crash_and_collection() {
    holds(Plan { crashes: 1, collections: 1, duplicates: 1, ..one_participant() });
}

#[test]
fn write_skew_apart() {
    holds(apart(write_skew()));
}

#[test]
fn transfer_and_audit_apart() {
    holds(apart(transfer_and_audit()));
}

#[test]
fn two_increments_apart_with_crashes_and_collection() {
    holds(apart(Plan { crashes: 2, collections: 1, ..two_increments() }));
}

#[test]
fn write_skew_apart_with_crash() {
    holds(apart(Plan { crashes: 1, ..write_skew() }));
}

/// The server that crashes coordinates the audit, and takes part in the transfer.
#[test]
fn transfer_and_audit_apart_with_crash() {
    holds(apart(Plan { crashes: 1, crash_only: Some(2), ..transfer_and_audit() }));
}

#[test]
fn transfer_then_increment_apart_with_slow_storage_and_crash() {
    holds(apart(slow_storage(Plan { crashes: 1, ..transfer_then_increment() })));
}

#[test]
fn two_participants_apart_with_crash_and_early_timer() {
    holds(apart(Plan { early_ticks: 1, ..two_participants() }));
}

#[test]
fn two_participants_apart_with_any_crash() {
    holds(apart(Plan { early_ticks: 0, crash_only: None, ..two_participants() }));
}

#[test]
fn one_participant_apart_with_crash_early_timer_and_loss() {
    holds(apart(Plan { crashes: 1, early_ticks: 1, losses: 1, ..one_participant() }));
}

#[test]
fn one_participant_apart_with_two_crashes() {
    holds(apart(Plan { crashes: 2, ..one_participant() }));
}

#[test]
fn one_participant_apart_with_crash_and_collection() {
    holds(apart(Plan { crashes: 1, collections: 1, ..one_participant() }));
}

#[test]
fn one_participant_apart_with_early_timer_loss_and_duplicate() {
    holds(apart(Plan { early_ticks: 1, losses: 1, duplicates: 1, ..one_participant() }));
}

#[test]
fn two_participants_apart_with_early_timer() {
    holds(apart(Plan { crashes: 0, early_ticks: 1, ..two_participants() }));
}

#[test]
fn transfers_and_audit_with_slow_storage() {
    holds(slow_storage(transfers_and_audit()));
}

#[test]
fn transfer_then_increment_apart_with_slow_storage() {
    holds(apart(slow_storage(transfer_then_increment())));
}

#[test]
fn transfers_that_meet_do_not_wait_for_each_other_for_ever() {
    holds(transfers_that_meet());
}

#[test]
fn transfers_that_meet_apart_with_early_timer() {
    holds(apart(Plan { early_ticks: 1, ..transfers_that_meet() }));
}

#[test]
fn transfer_and_older_retry_that_meet_do_not_wait_for_each_other_for_ever() {
    holds(transfer_and_retry_that_meet(5));
}

#[test]
fn transfer_and_younger_retry_that_meet_do_not_wait_for_each_other_for_ever() {
    let mut plan = transfer_and_retry_that_meet(0);
    plan.txs[1].waited_ms = 5;
    holds(plan);
}

#[test]
fn transfers_that_meet_with_crash() {
    holds(Plan { crashes: 1, waits_long: false, ..transfers_that_meet() });
}

#[test]
fn transfers_that_meet_disconnected() {
    holds(Plan { disconnections: 2, ..transfers_that_meet() });
}

#[test]
fn transfers_that_meet_disconnected_with_crash() {
    holds(Plan { disconnections: 1, crashes: 1, waits_long: false, ..transfers_that_meet() });
}

#[test]
fn increments_and_retry_on_two_servers_disconnected() {
    holds(Plan { disconnections: 1, ..increments_and_retry(&["1a", "2b"], 2, true) });
}

#[test]
fn transfer_and_reader_from_afar_with_early_timer() {
    holds(Plan { early_ticks: 1, ..transfer_and_reader_from_afar() });
}

#[test]
fn increments_and_retry_apart() {
    holds(apart(increments_and_retry(&["1a"], 1, true)));
}

#[test]
fn increments_and_retry_on_two_servers_with_early_timer() {
    holds(Plan { early_ticks: 1, ..increments_and_retry(&["1a", "2b"], 2, true) });
}

#[test]
fn increments_and_no_retry_with_crash_and_loss() {
    holds(Plan { crashes: 1, losses: 1, ..increments_and_retry(&["1a", "2b"], 2, false) });
}

#[test]
fn increment_that_names_a_transfer_with_early_timer() {
    holds(Plan { early_ticks: 1, ..increment_that_names_a_transfer() });
}

#[test]
fn transfer_and_keeping_audit_with_crash() {
    holds(Plan { crashes: 1, ..transfer_and_keeping_audit() });
}

#[test]
fn transfer_of_a_lost_coordinator_is_resolved_by_an_operator() {
    holds(transfer_of_a_lost_coordinator(&["2b", "3c"]));
}

#[test]
fn transfer_of_a_lost_coordinator_that_is_a_participant_is_resolved_by_an_operator() {
    holds(transfer_of_a_lost_coordinator(&["1a", "2b", "3c"]));
}

#[test]
fn transfer_of_a_lost_coordinator_and_a_crash_are_resolved_by_an_operator() {
    holds(Plan { crashes: 1, crash_only: Some(2), ..transfer_of_a_lost_coordinator(&["2b", "3c"]) });
}

#[test]
fn transfer_of_a_lost_coordinator_is_resolved_and_read_by_the_next() {
    let next = tx(2, &["2b"], &["3c"]);
    let mut plan = transfer_of_a_lost_coordinator(&["2b", "3c"]);
    plan.txs.push(next);
    holds(plan);
}

#[test]
fn transfer_of_a_lost_coordinator_and_a_key_put_back_is_resolved_by_an_operator() {
    holds(transfer_of_a_lost_coordinator_and_a_key_put_back());
}

/// A transaction that puts a key on one server and deletes one on another, where no version shows
/// whether that was done. What put the key before is in no log any more, so that no recovery puts
/// it again.
#[test]
fn deletion_of_a_lost_coordinator_is_resolved_by_an_operator() {
    let put = tx(3, &[], &["2b", "3c"]);
    let deletion = Tx { after: Some(0), deletes: vec![key("3c")], ..tx(1, &[], &["2b"]) };
    holds(Plan { before: 1, collected: true, ruins: Some(1), ..Plan::new(3, vec![put, deletion]) });
}

#[test]
fn increment_beside_a_move_with_crash() {
    holds(Plan { crashes: 1, ..increment_beside_a_move() });
}

#[test]
fn increment_beside_a_move_with_loss_and_duplicate() {
    holds(Plan { losses: 1, duplicates: 1, ..increment_beside_a_move() });
}

#[test]
fn write_skew_beside_a_move_with_crash() {
    holds(Plan { crashes: 1, crash_only: Some(1), ..write_skew_beside_a_move() });
}

#[test]
fn old_map_after_a_move_undisturbed() {
    holds(old_map_after_a_move());
}

#[test]
fn there_and_back_beside_an_audit_undisturbed() {
    holds(there_and_back_beside_an_audit());
}

#[test]
fn move_and_write_and_snapshot_undisturbed() {
    holds(move_and_write_and_snapshot());
}

#[test]
fn move_to_a_joiner_and_write_with_crash_of_the_joiner() {
    holds(Plan { crashes: 1, crash_only: Some(3), ..move_to_a_joiner_and_write() });
}

#[test]
fn joiner_takes_a_range_once_all_others_know_it() {
    reaches(move_to_a_joiner_and_write(), |state| state.maps.keys().any(|(_, at)| *at == 2));
}

#[test]
fn one_after_the_other_by_a_joiner_and_snapshot_undisturbed() {
    holds(one_after_the_other_by_a_joiner_and_snapshot());
}

#[test]
fn move_beside_a_joiner_and_snapshot_undisturbed() {
    holds(move_beside_a_joiner_and_snapshot());
}

#[test]
fn two_moves_to_one_server_with_crash() {
    holds(Plan { crashes: 1, ..two_moves_to_one_server() });
}

#[test]
fn move_of_a_lost_coordinator_with_crash() {
    holds(move_of_a_lost_coordinator());
}

#[test]
fn increment_beside_a_move_apart_with_slow_storage() {
    holds(apart(slow_storage(increment_beside_a_move())));
}
