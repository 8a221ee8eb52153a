//! Runs from many seeds, and runs of a broken protocol, which must be noticed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;
use crate::core::{flaw::Flaw, group};

/// Runs these seeds; panics with the first property that one of them breaks.
fn run_seeds(seeds: std::ops::Range<u64>, options: &SimOptions) -> Report {
    let mut total = Report::default();
    for seed in seeds {
        match simulate(seed, options) {
            Ok(report) => {
                total.committed += report.committed;
                total.refused += report.refused;
                total.unknown_committed += report.unknown_committed;
                total.snapshots += report.snapshots;
                total.moved += report.moved;
                total.told += report.told;
                total.groups.add(report.groups);
                total.crashes += report.crashes;
                total.most_segments = total.most_segments.max(report.most_segments);
            }
            Err(failure) => panic!("{failure}"),
        }
    }
    total
}

#[test]
fn simulate_three_servers_is_correct() {
    let total = run_seeds(0..80, &SimOptions::default());
    assert!(total.committed > 80 * 50 && total.crashes > 80 * 2, "little happens: {total:?}");
    assert!(total.told + total.unknown_committed > 0, "no answer is lost: {total:?}");
    assert!(total.snapshots > 80 * 8, "few snapshots are made: {total:?}");
    assert!(total.most_segments < 30, "the log grows: {total:?}");
}

#[test]
fn simulate_one_server_is_correct() {
    run_seeds(0..30, &SimOptions { servers: 1, ..SimOptions::default() });
}

#[test]
fn simulate_five_servers_in_trouble_is_correct() {
    let options = SimOptions {
        servers: 5,
        crashes: 12,
        partitions: 6,
        pauses: 6,
        loss: 10,
        duplication: 10,
        ..SimOptions::default()
    };
    run_seeds(0..30, &options);
}

#[test]
fn simulate_many_snapshots_is_correct() {
    let total = run_seeds(0..60, &snapshots(4, 12));
    assert!(total.snapshots > 60 * 10, "few snapshots are made: {total:?}");
}

#[test]
fn simulate_two_keys_is_correct() {
    run_seeds(0..50, &SimOptions { servers: 2, keys: 2, clients: 4, crashes: 8, ..SimOptions::default() });
}

#[test]
fn simulate_servers_without_keys_is_correct() {
    run_seeds(0..20, &SimOptions { servers: 4, keys: 2, clients: 4, ..SimOptions::default() });
}

#[test]
fn simulate_varied_clusters_is_correct() {
    for seed in 0..50 {
        run_seeds(seed..seed + 1, &SimOptions::varied(seed));
    }
}

#[test]
fn simulate_no_faults_answers_everybody() {
    let options = SimOptions { crashes: 0, partitions: 0, pauses: 0, loss: 0, duplication: 0, ..SimOptions::default() };
    for seed in 0..20 {
        let report = simulate(seed, &options).unwrap();
        assert_eq!(report.unknown_committed + report.unknown_aborted, 0, "{report:?}");
    }
}

#[test]
fn simulate_same_seed_runs_the_same() {
    let mut traces = [Vec::new(), Vec::new()];
    for trace in &mut traces {
        simulate_traced(7, &SimOptions::default(), &mut |line| trace.push(line.to_owned())).unwrap();
    }
    assert!(traces[0].len() > 1_000);
    assert_eq!(traces[0], traces[1]);
}

/// Servers of which the first ones are groups of three members, of which much goes wrong.
fn groups(servers: u16, groups: u16) -> SimOptions {
    let faults = SimOptions { crashes: 8, partitions: 8, pauses: 4, hangs: 4, lost_disks: 30, ..SimOptions::default() };
    SimOptions { servers, groups, ..faults }
}

#[test]
fn simulate_one_group_is_correct() {
    let total = run_seeds(0..60, &groups(1, 1));
    assert!(total.committed > 60 * 30 && total.groups.lives > 60 * 2, "little happens: {total:?}");
    assert!(total.groups.lost_disks > 5 && total.told > 10, "little happens: {total:?}");
}

#[test]
fn simulate_a_group_and_two_servers_is_correct() {
    run_seeds(0..60, &groups(3, 1));
}

#[test]
fn simulate_two_groups_is_correct() {
    let total = run_seeds(0..60, &groups(2, 2));
    assert!(total.snapshots > 60 * 3, "few snapshots are made: {total:?}");
}

#[test]
fn simulate_groups_whose_messages_are_lost_is_correct() {
    run_seeds(0..40, &SimOptions { loss: 12, duplication: 12, ..groups(2, 1) });
}

#[test]
fn simulate_a_group_without_faults_answers_everybody() {
    let options = SimOptions { crashes: 0, partitions: 0, pauses: 0, loss: 0, duplication: 0, ..SimOptions::default() };
    for seed in 0..20 {
        let report = simulate(seed, &SimOptions { groups: 3, ..options.clone() }).unwrap();
        assert_eq!(report.unknown_committed + report.unknown_aborted, 0, "{report:?}");
        assert_eq!(report.groups.lives, 3, "{report:?}");
    }
}

/// Groups of which the leader is often cut off from the others, and hears late of what they say.
fn torn_groups(servers: u16, count: u16) -> SimOptions {
    let options = SimOptions { partitions: 0, crashes: 2, hangs: 0, lost_disks: 0, ..groups(servers, count) };
    let options = SimOptions { isolations: 12, clients: 8, ..options };
    // What an old leader says is wrong in one of some hundred runs: the log has nothing that takes
    // time besides.
    SimOptions { complete_block: 1 << 12, pauses: 16, loss: 10, duplication: 10, keys: 3, ..options }
}

#[test]
fn simulate_torn_groups_is_correct() {
    run_seeds(0..60, &torn_groups(1, 1));
    let total = run_seeds(0..60, &torn_groups(2, 2));
    assert!(total.groups.overlaps > 20, "no old leader goes on: {total:?}");
    // The log says often what is complete, too.
    for (servers, count) in [(1, 1), (2, 2)] {
        let complete_block = groups(servers, count).complete_block;
        run_seeds(60..90, &SimOptions { complete_block, ..torn_groups(servers, count) });
    }
}

/// Servers between which many ranges move.
fn moving(servers: u16, keys: u8, crashes: usize) -> SimOptions {
    SimOptions { servers, keys, crashes, moves: 25, clients: 8, ..SimOptions::default() }
}

#[test]
fn simulate_moves_is_correct() {
    let total = run_seeds(0..60, &moving(3, 8, 4));
    assert!(total.moved > 60 * 5 && total.snapshots > 60 * 5, "few ranges move: {total:?}");
    run_seeds(0..40, &SimOptions { loss: 12, duplication: 12, partitions: 5, ..moving(5, 4, 12) });
}

#[test]
fn simulate_moves_of_groups_is_correct() {
    let total = run_seeds(0..40, &SimOptions { moves: 25, ..groups(3, 1) });
    assert!(total.moved > 40, "few ranges move: {total:?}");
}

/// Fails unless some seed notices that a group's members break a rule.
fn is_noticed_in_groups(flaw: group::Flaw, options: SimOptions) {
    let options = SimOptions { group_flaw: Some(flaw), ..options };
    let failure = (0..600).find_map(|seed| simulate(seed, &options).err());
    println!("{}", failure.expect("it is not noticed"));
}

/// Many clients want the same few keys.
fn crowded(servers: u16, keys: u8, crashes: usize) -> SimOptions {
    SimOptions { servers, keys, crashes, clients: 8, snapshots: 0, ..SimOptions::default() }
}

/// Many snapshots, and servers that hear late of the others' epochs.
fn snapshots(keys: u8, crashes: usize) -> SimOptions {
    SimOptions { keys, crashes, clients: 8, snapshots: 40, loss: 15, duplication: 10, ..SimOptions::default() }
}

/// Fails unless some seed notices the flaw.
fn is_noticed(flaw: Flaw, options: SimOptions) {
    let options = SimOptions { flaw: Some(flaw), ..options };
    let failure = (0..200).find_map(|seed| simulate(seed, &options).err());
    println!("{}", failure.expect("it is not noticed"));
}

/// A test for each flaw. Those that need a rarer coincidence are in the model.
macro_rules! flaws {
    ($($name:ident: $flaw:ident in $options:expr,)*) => { $(
        #[test]
        fn $name() {
            is_noticed(Flaw::$flaw, $options);
        }
    )* };
}

flaws! {
    flaw_vote_before_durable_is_noticed: VoteBeforeDurable in SimOptions::default(),
    flaw_answer_before_durable_is_noticed: AnswerBeforeDurable in SimOptions::default(),
    flaw_acknowledge_before_durable_is_noticed: AcknowledgeBeforeDurable in SimOptions::default(),
    flaw_complete_before_acknowledged_is_noticed: CompleteBeforeAcknowledged in SimOptions::default(),
    flaw_numbers_reused_is_noticed: NumbersReused in SimOptions::default(),
    flaw_reads_not_locked_is_noticed: ReadsNotLocked in SimOptions::default(),
    flaw_ranges_not_locked_is_noticed: RangesNotLocked in SimOptions::default(),
    flaw_versions_not_checked_is_noticed: VersionsNotChecked in SimOptions::default(),
    flaw_validation_ignores_locks_is_noticed: ValidationIgnoresLocks in SimOptions::default(),
    flaw_probe_after_check_is_noticed: ProbeAfterCheck in crowded(3, 4, 4),
    flaw_complete_at_first_acknowledgement_is_noticed: CompleteAtFirstAcknowledgement in SimOptions::default(),
    flaw_inquiry_during_handover_is_noticed: InquiryDuringHandover in SimOptions::default(),
    flaw_abort_releases_only_granted_is_noticed: AbortReleasesOnlyGranted in SimOptions::default(),
    flaw_absence_only_validated_is_noticed: AbsenceOnlyValidated in crowded(2, 3, 0),
    flaw_exceptions_ignored_is_noticed: ExceptionsIgnored in SimOptions::default(),
    flaw_completeness_forgotten_is_noticed: CompletenessForgotten in SimOptions::default(),
    flaw_exceptions_not_logged_is_noticed: ExceptionsNotLogged in SimOptions::default(),
    flaw_late_prepare_accepted_is_noticed: LatePrepareAccepted in SimOptions::default(),
    flaw_storage_not_persisted_is_noticed: StorageNotPersisted in SimOptions::default(),
    flaw_gc_record_after_removal_is_noticed: GcRecordAfterRemoval in SimOptions::default(),
    flaw_request_repeated_is_noticed: RequestRepeated in SimOptions::default(),
    flaw_unlock_before_applied_is_noticed: UnlockBeforeApplied in SimOptions::default(),
    flaw_decisions_sent_once_is_noticed: DecisionsSentOnce in SimOptions::default(),
    flaw_epoch_of_participant_is_noticed: EpochOfParticipant in SimOptions::default(),
    flaw_epochs_reused_is_noticed: EpochsReused in SimOptions::default(),
    flaw_snapshot_not_settled_is_noticed: SnapshotNotSettled in SimOptions::default(),
    flaw_waiter_left_at_abort_is_noticed: WaiterLeftAtAbort in SimOptions::default(),
    flaw_kept_for_ever_is_noticed: KeptForEver in crowded(2, 3, 0),
    flaw_unkept_locks_taken_is_noticed: UnkeptLocksTaken in crowded(3, 3, 0),
    flaw_fence_not_locked_is_noticed: FenceNotLocked in moving(2, 3, 0),
    flaw_keys_elsewhere_accepted_is_noticed: KeysElsewhereAccepted in moving(2, 3, 0),
    flaw_map_not_locked_is_noticed: MapNotLocked in moving(3, 8, 0),
    flaw_map_not_changed_is_noticed: MapNotChanged in moving(3, 8, 0),
    flaw_not_found_of_forgotten_is_noticed: NotFoundOfForgotten in SimOptions { servers: 1, loss: 40, crashes: 12, ..SimOptions::default() },
}

/// A test for each rule of a group's members. Those that need a rarer coincidence are in the
/// models.
macro_rules! group_flaws {
    ($($name:ident: $flaw:ident in $options:expr,)*) => { $(
        #[test]
        fn $name() {
            is_noticed_in_groups(group::Flaw::$flaw, $options);
        }
    )* };
}

group_flaws! {
    group_flaw_own_sync_is_noticed: OwnSync in groups(1, 1),
    group_flaw_counts_unsynced_is_noticed: CountsUnsynced in groups(1, 1),
    group_flaw_old_term_accepted_is_noticed: OldTermAccepted in groups(1, 1),
    group_flaw_votes_unsynced_is_noticed: VotesUnsynced in groups(1, 1),
    group_flaw_acknowledges_unsynced_is_noticed: AcknowledgesUnsynced in groups(1, 1),
    group_flaw_begins_before_first_entry_is_noticed: BeginsBeforeFirstEntry in groups(1, 1),
    group_flaw_applies_all_is_noticed: AppliesAll in groups(1, 1),
    group_flaw_unconfirmed_is_noticed: Unconfirmed in torn_groups(1, 1),
    group_flaw_confirmed_before_is_noticed: ConfirmedBefore in torn_groups(1, 1),
    group_flaw_cuts_without_conflict_is_noticed: CutsWithoutConflict in groups(1, 1),
    group_flaw_conflict_counted_is_noticed: ConflictCounted in groups(1, 1),
    group_flaw_node_kept_is_noticed: NodeKept in groups(1, 1),
}
