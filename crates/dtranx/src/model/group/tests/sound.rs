//! Explorations by the rules: no property is violated, and what is to be explored is reached.

use super::plans::*;
use crate::core::CommitAnswer;
use crate::model::{
    explore::{holds, reaches},
    group::{
        member::Member,
        plan::{Budget, Plan},
    },
};

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
fn write_and_reader_that_brings_an_epoch_and_snapshot_with_election() {
    holds(write_and_reader_that_brings_an_epoch_and_snapshot());
}

#[test]
fn write_with_two_elections_and_a_question() {
    holds(with(write(), Budget { elections: 2, asks: 1, ..Budget::default() }));
}

#[test]
fn transfer_of_the_group_with_election_and_a_question() {
    holds(with(transfer_of_the_group(), Budget { elections: 1, asks: 1, ..Budget::default() }));
}

#[test]
fn writes_with_marks_late_batch_and_election() {
    holds(writes_with_late_batch_and_marks());
}

#[test]
fn writes_and_a_member_that_comes_back_with_two_removals() {
    holds(writes_and_a_member_that_comes_back());
}

#[test]
fn writes_and_a_member_that_comes_back_with_removal_and_election() {
    let budget = Budget { elections: 1, marks: 1, collections: 1, ..Budget::default() };
    holds(Plan { candidates: vec![1], ..with(writes_and_a_member_that_comes_back(), budget) });
}

#[test]
fn write_with_a_leader_that_is_ahead_with_two_elections_and_report() {
    holds(write_with_a_leader_that_is_ahead());
}

#[test]
fn write_with_marks_of_a_leader_that_is_ahead_with_crash_and_election() {
    holds(write_with_marks_of_a_leader_that_is_ahead());
}

#[test]
fn write_that_is_removed_and_asked_for_with_two_elections() {
    holds(write_that_is_removed_and_asked_for());
}

#[test]
fn write_and_transfer_of_the_group_with_removal_crash_and_election() {
    holds(write_and_transfer_of_the_group());
}

#[test]
fn write_after_a_snapshot_with_two_elections() {
    holds(write_after_a_snapshot());
}

#[test]
fn transfers_to_a_group_without_room_and_marks() {
    holds(transfers_to_a_group_without_room());
}

#[test]
fn write_with_election_and_disk_that_hangs() {
    holds(with(write(), Budget { elections: 1, hangs: 1, ..Budget::default() }));
}

#[test]
fn transfer_to_the_group_with_election_and_disk_that_hangs() {
    let plan = Plan { candidates: vec![1], crash_only: Some(0), cut_off: Some(2), ..transfer_to_the_group() };
    holds(with(plan, Budget { elections: 1, hangs: 1, ..Budget::default() }));
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

#[test]
fn transfers_to_a_group_without_room_reach_the_second_one_after_a_removal() {
    reaches(transfers_to_a_group_without_room(), |state| {
        matches!(state.clients[1].answer, Some(CommitAnswer::Committed(_)))
    });
}

#[test]
fn writes_and_a_member_that_comes_back_reach_a_transfer_that_begins_again() {
    reaches(writes_and_a_member_that_comes_back(), |state| {
        let (first, last) = (&state.members[0].server, &state.members[2]);
        last.transfer.as_ref().is_some_and(|transfer| transfer.name.1 < first.removed)
    });
}

#[test]
fn write_with_two_elections_and_a_question_reaches_both_answers() {
    let plan = || with(write(), Budget { elections: 2, asks: 1, ..Budget::default() });
    reaches(plan(), |state| {
        state.budget.asks == 0 && matches!(state.clients[0].answer, Some(CommitAnswer::Committed(_)))
    });
    reaches(plan(), |state| {
        state.budget.asks == 0 && matches!(state.clients[0].answer, Some(CommitAnswer::Refused(_)))
    });
}
