//! Explorations of a group by its rules, which must hold, and with one rule broken each, which the
//! model must notice.

use super::{
    member::Member,
    plan::{Budget, Flaw, Plan},
};
use crate::core::{CommitAnswer, ServerId};
use crate::model::{
    explore::{holds, is_noticed, reaches},
    plan::{Snap, Tx, snap, tx},
};

fn with(plan: Plan, budget: Budget) -> Plan {
    Plan { budget, ..plan }
}

/// A write on the group alone.
fn write() -> Plan {
    Plan::new(vec![tx(1, &[], &["1a"])])
}

/// A transfer that the other server coordinates.
fn transfer_to_the_group() -> Plan {
    Plan::new(vec![tx(2, &[], &["1a", "2b"])])
}

/// A transfer that the group coordinates.
fn transfer_of_the_group() -> Plan {
    Plan::new(vec![tx(1, &[], &["2b"])])
}

/// A transfer that the group coordinates and takes part in. It is over; the last member has nothing
/// of it but what arrives late.
fn transfer_without_the_last_member() -> Plan {
    let mut plan = Plan::new(vec![tx(1, &[], &["1a", "2b"])]);
    plan.base.before = 1;
    Plan { cut_off: Some(2), ..plan }
}

/// A transfer, and a reader of both keys who begins once some server has the transfer's writes.
/// Both keys had values before. The other server coordinates all of these. The last member cannot
/// be reached before the election, and the first is not told of it.
fn transfer_and_reader() -> Plan {
    let transfer = || tx(2, &[], &["1a", "2b"]);
    let reader = Tx { sees: Some(1), ..tx(2, &["2b", "1a"], &[]) };
    let mut plan = Plan::new(vec![transfer(), transfer(), reader]);
    plan.base.before = 1;
    let budget = Budget { elections: 1, ..Budget::default() };
    Plan { candidates: vec![1], cut_off: Some(2), budget, ..plan }
}

/// [`transfer_and_reader`] with a reader whom the group serves.
fn transfer_and_reader_of_the_group() -> Plan {
    let mut plan = transfer_and_reader();
    plan.base.txs[2].coordinator = ServerId(1);
    plan
}

/// A write that comes after one that is over, of which the last member has nothing.
fn writes_without_the_last_member() -> Plan {
    let second = Tx { after: Some(0), ..tx(1, &[], &["1c"]) };
    let mut plan = Plan::new(vec![tx(1, &[], &["1a"]), second]);
    plan.base.before = 1;
    Plan { cut_off: Some(2), ..plan }
}

/// A write, and a snapshot that is requested after its answer, and read. Another snapshot was made
/// before, so that a new life begins in a later epoch than the old one is in.
fn write_and_snapshot(maker: u16) -> Plan {
    let mut plan = Plan::new(vec![tx(1, &[], &["1a"])]);
    plan.base.snaps = vec![snap(2, &[]), Snap { after: Some(0), ..snap(maker, &["1a"]) }];
    plan.base.snaps_before = 1;
    let budget = Budget { elections: 1, ..Budget::default() };
    Plan { candidates: vec![1], cut_off: Some(2), budget, ..plan }
}

#[test]
fn write_with_two_elections() {
    holds(with(write(), Budget { elections: 2, ..Budget::default() }));
}

#[test]
fn write_with_election_and_crash() {
    holds(with(write(), Budget { elections: 1, crashes: 1, ..Budget::default() }));
}

/// Followers hear what is committed, and apply it when they start.
#[test]
fn write_with_election_and_two_crashes() {
    holds(with(write(), Budget { elections: 1, crashes: 2, collections: 1, ..Budget::default() }));
}

#[test]
fn write_with_election_and_lost_disk() {
    holds(with(write(), Budget { elections: 1, lost_disks: 1, ..Budget::default() }));
}

#[test]
fn write_with_election_and_damage() {
    holds(with(write(), Budget { elections: 1, damages: 1, ..Budget::default() }));
}

#[test]
fn write_with_election_and_late_batch() {
    holds(with(write(), Budget { elections: 1, late: 1, ..Budget::default() }));
}

#[test]
fn write_with_two_elections_and_lost_disk() {
    holds(with(write(), Budget { elections: 2, lost_disks: 1, ..Budget::default() }));
}

#[test]
fn write_with_two_elections_and_crash() {
    let plan = Plan { crash_only: Some(0), ..write() };
    holds(with(plan, Budget { elections: 2, crashes: 1, ..Budget::default() }));
}

#[test]
fn transfer_to_the_group_with_two_elections() {
    let plan = Plan { candidates: vec![1, 2], cut_off: Some(2), ..transfer_to_the_group() };
    holds(with(plan, Budget { elections: 2, ..Budget::default() }));
}

#[test]
fn transfer_to_the_group_with_election_and_crash() {
    let plan = Plan { candidates: vec![1], crash_only: Some(0), ..transfer_to_the_group() };
    holds(with(plan, Budget { elections: 1, crashes: 1, ..Budget::default() }));
}

#[test]
fn transfer_of_the_group_with_two_elections() {
    holds(with(transfer_of_the_group(), Budget { elections: 2, ..Budget::default() }));
}

#[test]
fn transfer_of_the_group_with_election_and_crash() {
    holds(with(transfer_of_the_group(), Budget { elections: 1, crashes: 1, ..Budget::default() }));
}

#[test]
fn transfer_of_the_group_with_election_and_early_timer() {
    holds(with(transfer_of_the_group(), Budget { elections: 1, early_ticks: 1, ..Budget::default() }));
}

#[test]
fn transfer_and_reader_with_election() {
    holds(transfer_and_reader());
}

#[test]
fn transfer_and_reader_with_any_election() {
    holds(Plan { candidates: vec![], cut_off: None, ..transfer_and_reader() });
}

#[test]
fn transfer_and_reader_of_the_group_with_election() {
    holds(transfer_and_reader_of_the_group());
}

#[test]
fn writes_with_marks_and_election() {
    let budget = Budget { elections: 1, marks: 1, collections: 2, ..Budget::default() };
    holds(with(writes_without_the_last_member(), budget));
}

#[test]
fn transfer_with_late_batch_marks_and_election() {
    let budget = Budget { elections: 1, late: 1, marks: 1, collections: 2, ..Budget::default() };
    holds(with(transfer_without_the_last_member(), budget));
}

#[test]
fn write_and_snapshot_with_election() {
    holds(write_and_snapshot(2));
}

#[test]
fn write_and_snapshot_of_the_group_with_election() {
    holds(write_and_snapshot(1));
}

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
fn flaw_removed_without_items_is_noticed() {
    let budget = Budget { elections: 1, marks: 1, collections: 1, ..Budget::default() };
    is_noticed(with(writes_without_the_last_member(), budget), Flaw::RemovedWithoutItems);
}

/// The explorations that hold would hold, too, if nothing happened in them.
#[test]
fn write_with_election_and_lost_disk_reaches_a_vote_of_the_new_store() {
    let plan = with(write(), Budget { elections: 1, lost_disks: 1, ..Budget::default() });
    reaches(plan, |state| {
        let is_new = state.budget.lost_disks == 0 && state.members.iter().all(|member| member.has_vote);
        is_new && state.members.iter().any(|member| member.is_serving() && member.term == 2)
    });
}

#[test]
fn transfer_to_the_group_reaches_a_commit_by_the_next_leader() {
    let plan = with(transfer_to_the_group(), Budget { elections: 1, ..Budget::default() });
    reaches(plan, |state| {
        let is_committed = matches!(state.clients[0].answer, Some(CommitAnswer::Committed(_)));
        let serves = |member: &Member| member.is_serving() && member.term == 2 && !member.server.items.is_empty();
        is_committed && state.members.iter().any(serves)
    });
}

#[test]
fn transfer_and_reader_reaches_a_validation_by_the_next_leader() {
    reaches(transfer_and_reader(), |state| {
        state.term() == 2 && matches!(state.clients[2].answer, Some(CommitAnswer::Validated(_)))
    });
}

#[test]
fn write_and_snapshot_reaches_a_read_after_an_election() {
    reaches(write_and_snapshot(2), |state| {
        state.term() == 2 && state.readers[1].seen.len() == 1 && state.readers[1].seen[0].is_some()
    });
}

#[test]
fn writes_with_marks_reach_items_that_a_follower_gets() {
    let budget = Budget { elections: 1, marks: 1, collections: 2, ..Budget::default() };
    reaches(with(writes_without_the_last_member(), budget), |state| {
        let last = &state.members[2];
        last.server.removed > 0 && !last.is_serving() && !last.server.items.is_empty()
    });
}
