//! Explorations of the real protocol, which must hold, and of the protocol with one flaw each,
//! which the model must notice.

use super::{
    explore::explore,
    plan::{Plan, Snap, Tx, key, snap, tx},
};
use crate::core::{Epoch, flaw::Flaw};

/// Explores the whole plan and fails if a property is violated.
fn holds(plan: Plan) {
    let report = explore(plan);
    assert!(report.violation.is_none(), "{}", report.violation.unwrap());
    assert!(report.states > 100, "nothing is explored: {report:?}");
}

/// Explores the plan with a flaw and fails if no property is violated.
fn is_noticed(plan: Plan, flaw: Flaw) {
    let report = explore(Plan { flaw: Some(flaw), ..plan });
    println!("{}", report.violation.expect("nobody notices"));
}

/// Two transactions; each reads the key that the other writes.
fn write_skew() -> Plan {
    Plan::new(2, vec![tx(1, &["1a"], &["2b"]), tx(2, &["2b"], &["1a"])])
}

/// [`write_skew`] with a first coordinator that holds none of the keys. The server of the first
/// read may crash.
fn write_skew_from_afar() -> Plan {
    let txs = vec![tx(3, &["1a"], &["2b"]), tx(2, &["2b"], &["1a"])];
    Plan { crashes: 1, crash_only: Some(1), ..Plan::new(3, txs) }
}

/// A transfer writes on both servers, and an audit reads both keys.
fn transfer_and_audit() -> Plan {
    Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), tx(2, &["1a", "2b"], &[])])
}

/// Two transfers and an audit of the same keys; the second transfer and the audit begin after the
/// first transfer, so that the audit finds values.
fn transfers_and_audit() -> Plan {
    let mut plan = Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), tx(1, &[], &["1a", "2b"]), tx(2, &["1a", "2b"], &[])]);
    plan.txs[1].after = Some(0);
    plan.txs[2].after = Some(0);
    plan
}

/// Two participants, and a coordinator that holds none of the keys. One participant's timers go off
/// early; the other participant crashes.
fn two_participants() -> Plan {
    let plan = Plan::new(3, vec![tx(1, &[], &["2b", "3c"])]);
    Plan { crashes: 1, crash_only: Some(3), early_ticks: 2, ticks_only: Some(2), ..plan }
}

/// Two audits read the keys of a writer. Their coordinator holds none of the keys and crashes.
fn two_audits_from_afar() -> Plan {
    let txs = vec![tx(1, &[], &["1a", "1c"]), tx(2, &["1a"], &[]), tx(2, &["1a", "1c"], &[])];
    Plan { crashes: 1, crash_only: Some(2), ..Plan::new(2, txs) }
}

/// A key is put and then deleted beside a reader. The reader could find the key absent, see the
/// write that came with the put, and miss the write that came with the delete.
fn come_and_gone() -> Plan {
    let go = Tx { after: Some(0), deletes: vec![key("1a")], ..tx(1, &[], &["2c"]) };
    Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), go, tx(2, &["1a", "2b", "2c"], &[])])
}

/// Two transactions read and write the same key on one server.
fn two_increments() -> Plan {
    Plan::new(1, vec![tx(1, &["1a"], &["1a"]), tx(1, &["1a"], &["1a"])])
}

/// Two transfers of the same keys on two servers, each with another server as its coordinator. No
/// wait has a time limit.
fn transfers_that_meet() -> Plan {
    Plan { waits_long: true, ..Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), tx(2, &[], &["1a", "2b"])]) }
}

/// [`transfers_that_meet`] with a first transfer that was refused before. A retry asks the servers
/// in order, from the first one on, wherever its coordinator is.
fn transfer_and_retry_that_meet(waited_ms: u32) -> Plan {
    let mut plan = transfers_that_meet();
    plan.txs[0] = Tx { waited_ms, ..keeping(plan.txs[0].clone()) };
    plan
}

/// A transfer, and a transaction that waits for it on the first server and reads its write on the
/// second.
fn transfer_and_reader_from_afar() -> Plan {
    Plan::new(3, vec![tx(1, &[], &["1a", "2b"]), tx(3, &["2b"], &["1a"])])
}

fn keeping(tx: Tx) -> Tx {
    Tx { keeps: true, waited_ms: 5, ..tx }
}

/// Two transactions change the same keys. The second keeps its locks for a retry, which is part of
/// the plan only if `comes` is true.
fn increments_and_retry(names: &[&str], servers: u16, comes: bool) -> Plan {
    let mut plan = Plan::new(servers, vec![tx(1, names, names), keeping(tx(1, names, names))]);
    if comes {
        plan.txs.push(Tx { retries: Some(1), ..keeping(tx(1, names, names)) });
    }
    plan
}

/// An increment that wrongly names a transfer as its attempt before.
fn increment_that_names_a_transfer() -> Plan {
    let names = Tx { names: Some(1), ..tx(1, &["1a"], &["1a"]) };
    Plan::new(2, vec![tx(1, &["1a"], &["1a", "2b"]), names])
}

/// A transfer, and an audit that locks the keys it read because it was refused before.
fn transfer_and_keeping_audit() -> Plan {
    let audit = Tx { waited_ms: 25, ..keeping(tx(2, &["1a", "2b"], &[])) };
    Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), audit])
}

/// One participant, on another server than its coordinator.
fn one_participant() -> Plan {
    Plan::new(2, vec![tx(1, &[], &["2b"])])
}

/// The same plan with each event between a server's machines as a step of its own.
fn apart(plan: Plan) -> Plan {
    Plan { apart: true, ..plan }
}

/// The same plan with a storage on the first server that carries out and answers commands in any
/// order.
fn slow_storage(plan: Plan) -> Plan {
    Plan { slow_storage: Some(1), ..plan }
}

/// A transfer between two servers, and a later change of one of its keys.
fn transfer_then_increment() -> Plan {
    let then = Tx { after: Some(0), ..tx(1, &["1a"], &["1a"]) };
    Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), then])
}

/// A transfer between two servers beside a snapshot of both.
fn transfer_and_snapshot() -> Plan {
    Plan { snaps: vec![snap(2, &["1a", "2b"])], ..Plan::new(2, vec![tx(1, &[], &["1a", "2b"])]) }
}

/// A transfer, a transaction that reads one of its keys and writes another, and a snapshot of the
/// transfer's first key and of that other key.
fn transfer_and_dependent_and_snapshot() -> Plan {
    let txs = vec![tx(1, &[], &["1a", "2b"]), tx(2, &["2b"], &["2c"])];
    Plan { snaps: vec![snap(1, &["1a", "2c"])], holds: true, ..Plan::new(2, txs) }
}

/// Two writes on different servers; the second begins after the answer to the first, whose
/// coordinator holds none of the keys.
fn one_after_the_other_and_snapshot() -> Plan {
    let txs = vec![tx(3, &[], &["2b"]), Tx { after: Some(0), ..tx(1, &[], &["1a"]) }];
    Plan { snaps: vec![snap(1, &["1a", "2b"])], ..Plan::new(3, txs) }
}

/// [`one_after_the_other_and_snapshot`] on two servers only, with another snapshot that may
/// overtake the first.
fn one_after_the_other_and_two_snapshots() -> Plan {
    let txs = vec![tx(2, &[], &["2b"]), Tx { after: Some(0), ..tx(1, &[], &["1a"]) }];
    Plan { snaps: vec![snap(1, &["1a", "2b"]), snap(2, &[])], ..Plan::new(2, txs) }
}

/// A reader sees a new write on one server and an old write on the other server, which is then
/// replaced.
fn audit_between_two_writes_and_snapshot() -> Plan {
    let after = |before, tx| Tx { after: Some(before), ..tx };
    let txs = vec![
        tx(2, &[], &["2b"]),
        after(0, tx(1, &[], &["1a"])),
        after(0, tx(1, &["1a", "2b"], &[])),
        after(0, tx(2, &[], &["2b"])),
    ];
    let snaps = vec![Snap { after: Some(0), ..snap(1, &["1a", "2b"]) }];
    Plan { snaps, holds: true, ..Plan::new(2, txs) }
}

/// A reader sees one key absent and then another key present, which was put together with the
/// first. The first key is deleted while the reader is validated; the reader waits for the delete
/// and takes place after it. The snapshot shows a write that begins after the answer to the reader.
fn validation_that_waits_and_snapshot() -> Plan {
    let after = |before, tx| Tx { after: Some(before), ..tx };
    let delete = Tx { deletes: vec![key("1a")], ..tx(1, &[], &["2b"]) };
    let txs =
        vec![tx(1, &[], &["1a", "1c"]), after(0, delete), tx(1, &["1a", "1c"], &[]), after(2, tx(3, &[], &["3d"]))];
    let snaps = vec![Snap { after: Some(0), ..snap(2, &["1a", "3d"]) }];
    Plan { snaps, holds: true, ..Plan::new(3, txs) }
}

/// A reader of two keys on the first server finds one of them locked for a retry that never comes,
/// and waits. The other key is free, and is locked later by a write that the snapshot shows. The
/// snapshot does not show the write that the reader has seen on the second server, because that
/// write begins when the second server is in the epoch after the snapshot. The first server enters
/// that epoch without a wait for its log, because an earlier snapshot had it reserved.
fn validation_that_sees_keys_free_one_after_the_other_and_snapshot() -> Plan {
    let txs = vec![
        tx(1, &[], &["1a", "1b", "2c"]),
        keeping(tx(1, &["1a"], &["1a"])),
        tx(1, &[], &["1b"]),
        Tx { from: Epoch(2), ..tx(2, &[], &["2c"]) },
        Tx { sees: Some(3), ..tx(2, &["2c", "1a", "1b"], &[]) },
    ];
    let snaps = vec![snap(2, &[]), snap(2, &["1b", "2c"])];
    let plan = Plan { before: 2, snaps, snaps_before: 1, holds: true, ..Plan::new(2, txs) };
    Plan { early_ticks: 1, ticks_only: Some(1), ..plan }
}

/// A transfer that holds a key, a transaction of another coordinator that waits for that key, and a
/// reader of the same coordinator that waits for that transaction by another key.
fn transfer_and_two_that_wait_from_afar() -> Plan {
    let older = Tx { waited_ms: 50, ..tx(2, &[], &["1a", "1c"]) };
    Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), older, tx(2, &["1c"], &[])])
}

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
    flaw_nobody_gives_way_is_noticed: NobodyGivesWay in transfers_that_meet(),
    flaw_waiter_left_at_abort_is_noticed: WaiterLeftAtAbort in transfer_and_reader_from_afar(),
    flaw_gone_drops_locks_is_noticed: GoneDropsLocks in Plan { disconnections: 1, ..write_skew() },
    flaw_gone_leave_one_by_one_is_noticed: GoneLeaveOneByOne in
        Plan { disconnections: 1, ..transfer_and_two_that_wait_from_afar() },
    flaw_kept_for_ever_is_noticed: KeptForEver in increments_and_retry(&["1a"], 1, false),
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

/// A transfer whose coordinator is lost at any step. The coordinator holds some of the keys or
/// none.
fn transfer_of_a_lost_coordinator(puts: &[&str]) -> Plan {
    Plan { ruins: Some(1), ..Plan::new(3, vec![tx(1, &[], puts)]) }
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
fn flaw_resolved_unseen_is_noticed() {
    is_noticed(transfer_of_a_lost_coordinator(&["2b", "3c"]), Flaw::ResolvedUnseen);
}

#[test]
fn flaw_resolved_by_logs_only_is_noticed() {
    is_noticed(transfer_of_a_lost_coordinator(&["2b", "3c"]), Flaw::ResolvedByLogsOnly);
}

/// A transfer of two keys on one server, of which an earlier transaction in its log has put one: a
/// crash before the outcome is durable, and a restart, put that key back and not the other.
fn transfer_of_a_lost_coordinator_and_a_key_put_back() -> Plan {
    let before = tx(3, &[], &["2b"]);
    let transfer = Tx { after: Some(0), ..tx(1, &[], &["2b", "2c", "3d"]) };
    let plan = Plan::new(3, vec![before, transfer]);
    Plan { before: 1, crashes: 1, crash_only: Some(2), ruins: Some(1), ..plan }
}

#[test]
fn transfer_of_a_lost_coordinator_and_a_key_put_back_is_resolved_by_an_operator() {
    holds(transfer_of_a_lost_coordinator_and_a_key_put_back());
}

#[test]
fn flaw_resolved_by_first_item_is_noticed() {
    is_noticed(transfer_of_a_lost_coordinator_and_a_key_put_back(), Flaw::ResolvedByFirstItem);
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
