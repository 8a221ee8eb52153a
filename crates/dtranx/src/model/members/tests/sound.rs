//! Explorations in which every member keeps the rules: each property holds in each state.

use crate::model::{
    explore::{holds, reaches},
    members::plan::{Budget, Plan},
};

fn with(budget: Budget) -> Plan {
    Plan { budget, ..Plan::default() }
}

#[test]
fn entry_with_election_and_crash_of_the_first_leader() {
    let plan = with(Budget { elections: 1, entries: 1, crashes: 1, ..Budget::default() });
    holds(Plan { crashing: vec![0], candidates: vec![1], ..plan });
}

#[test]
fn entry_with_election_and_crash_of_a_follower() {
    let plan = with(Budget { elections: 1, entries: 1, crashes: 1, ..Budget::default() });
    holds(Plan { crashing: vec![2], candidates: vec![1], ..plan });
}

/// A vote that is not synced may be forgotten, and given again.
#[test]
fn two_elections_and_crash_of_a_voter() {
    let plan = with(Budget { elections: 2, crashes: 1, ..Budget::default() });
    holds(Plan { crashing: vec![0], candidates: vec![1, 2], cut: vec![(1, 2)], ..plan });
}

#[test]
fn two_elections() {
    let plan = with(Budget { elections: 2, ..Budget::default() });
    holds(Plan { candidates: vec![1, 2], ..plan });
}

#[test]
fn entry_with_two_elections() {
    let plan = with(Budget { elections: 2, entries: 1, ..Budget::default() });
    holds(Plan { candidates: vec![1, 2], cut: vec![(0, 1)], ..plan });
}

#[test]
fn first_leader_is_elected_again() {
    let plan = with(Budget { elections: 1, entries: 1, ..Budget::default() });
    holds(Plan { candidates: vec![0, 2], is_replaced: true, ahead: 1, ..plan });
}

#[test]
fn late_batch_with_election() {
    let plan = with(Budget { elections: 1, entries: 1, ..Budget::default() });
    holds(Plan { candidates: vec![1], has_late: true, ..plan });
}

#[test]
fn entry_with_repeated_message() {
    holds(with(Budget { entries: 1, repeats: 1, heartbeats: 1, ..Budget::default() }));
}

#[test]
fn suffix_that_nobody_has_with_entries_of_the_next_leader() {
    let plan = with(Budget { entries: 2, heartbeats: 1, ..Budget::default() });
    holds(Plan { is_replaced: true, ahead: 2, writer: Some(1), cut: vec![(0, 2), (1, 2)], ..plan });
}

#[test]
fn answers_with_election() {
    let plan = with(Budget { elections: 1, answers: 2, ..Budget::default() });
    holds(Plan { candidates: vec![1], ..plan });
}

#[test]
fn answer_with_election_and_heartbeat() {
    let plan = with(Budget { elections: 1, answers: 1, heartbeats: 1, ..Budget::default() });
    holds(Plan { candidates: vec![1], writer: Some(0), ..plan });
}

#[test]
fn entry_with_leader_that_steps_down_and_election() {
    let plan = with(Budget { elections: 1, entries: 1, ends: 1, ..Budget::default() });
    holds(Plan { candidates: vec![0], ..plan });
}

#[test]
fn third_life_begins() {
    let plan = with(Budget { elections: 2, ..Budget::default() });
    reaches(Plan { candidates: vec![1, 2], cut: vec![(0, 1)], ..plan }, |state| {
        state.leaders.len() == 3 && state.leaders.values().all(|(_, has_begun)| *has_begun)
    });
}

/// An entry that the lost store has acknowledged stays, whether or not the leader hears of it.
#[test]
fn lost_store_that_has_acknowledged_an_entry() {
    let plan = with(Budget { elections: 2, ..Budget::default() });
    holds(Plan { lost: Some(2), ahead: 1, candidates: vec![1], ..plan });
}

#[test]
fn lost_store_that_has_acknowledged_an_entry_and_crash_of_the_leader() {
    let plan = with(Budget { elections: 1, crashes: 1, ..Budget::default() });
    holds(Plan { lost: Some(2), ahead: 1, candidates: vec![1], crashing: vec![0, 2], ..plan });
}

/// The lost store has elected the second member, and the first has not heard of it.
#[test]
fn lost_store_that_has_voted() {
    let plan = with(Budget { elections: 1, ..Budget::default() });
    holds(Plan { is_replaced: true, lost: Some(2), candidates: vec![0], ..plan.clone() });
    holds(Plan { is_begun_apart: true, lost: Some(2), candidates: vec![0], ..plan });
}

/// The first member refuses a store that votes for the second, and is then lost.
#[test]
fn store_that_is_called_lost_before_it_is() {
    let plan = with(Budget { elections: 1, entries: 1, losses: 1, ..Budget::default() });
    holds(Plan { is_mistaken: true, losing: vec![2], candidates: vec![1], writer: Some(0), ..plan });
}

#[test]
fn lost_store_of_the_leader() {
    let plan = with(Budget { elections: 1, ..Budget::default() });
    holds(Plan { lost: Some(0), ahead: 1, candidates: vec![1], ..plan });
}

#[test]
fn store_is_lost_at_any_time() {
    let plan = with(Budget { elections: 1, losses: 1, ..Budget::default() });
    holds(Plan { losing: vec![2], candidates: vec![1], ..plan });
}

#[test]
fn empty_store_gets_a_vote() {
    let plan = with(Budget { elections: 1, ..Budget::default() });
    reaches(Plan { lost: Some(2), candidates: vec![1], ..plan }, |state| state.has_replaced());
}

/// Of the first three members the first is left, with a fourth: a majority of these has nothing in
/// common with one of the others.
fn swap(budget: Budget) -> Plan {
    Plan { learners: vec![3], changes: vec![vec![0, 3]], ..with(budget) }
}

#[test]
fn change_with_election() {
    let plan = swap(Budget { elections: 1, changes: 1, ..Budget::default() });
    holds(Plan { candidates: vec![1], cut: vec![(0, 2), (2, 3)], ..plan });
}

#[test]
fn change_that_nobody_has_heard_of_with_elections() {
    let plan = swap(Budget { elections: 2, ..Budget::default() });
    holds(Plan { candidates: vec![1, 3], is_changing: true, cut: vec![(1, 3)], ..plan });
}

#[test]
fn change_with_crash_and_election() {
    let plan = swap(Budget { elections: 1, crashes: 1, ..Budget::default() });
    let cut = vec![(0, 2), (2, 3), (1, 3)];
    holds(Plan { candidates: vec![1], crashing: vec![1], is_changing: true, cut, ..plan });
}

#[test]
fn change_with_answer_and_election() {
    let plan = swap(Budget { elections: 1, answers: 1, ..Budget::default() });
    holds(Plan { candidates: vec![1], is_changing: true, cut: vec![(0, 2), (2, 3), (1, 3)], ..plan });
}

#[test]
fn leader_goes_with_answer_and_election() {
    let plan = with(Budget { elections: 1, answers: 1, ..Budget::default() });
    let cut = vec![(0, 2), (2, 3), (1, 3)];
    let plan = Plan { learners: vec![3], changes: vec![vec![1, 2, 3]], is_changing: true, cut, ..plan };
    holds(Plan { candidates: vec![1], ..plan });
}

#[test]
fn leader_goes_with_crash() {
    let plan = with(Budget { changes: 1, crashes: 1, elections: 1, drops: 1, ..Budget::default() });
    let plan = Plan { voters: vec![0], learners: vec![1], changes: vec![vec![1]], ..plan };
    holds(Plan { crashing: vec![0, 1], ..plan });
}

#[test]
fn group_of_one_gets_two_more_with_crash() {
    let plan = with(Budget { changes: 1, crashes: 1, elections: 1, ..Budget::default() });
    let plan = Plan { voters: vec![0], learners: vec![1, 2], changes: vec![vec![0, 1, 2]], ..plan };
    holds(Plan { crashing: vec![0], candidates: vec![1], cut: vec![(1, 2)], ..plan });
}

#[test]
fn group_of_one_with_learner_and_crash() {
    let plan = with(Budget { entries: 2, crashes: 1, elections: 1, ..Budget::default() });
    holds(Plan { voters: vec![0], learners: vec![1], crashing: vec![0], ..plan });
}

#[test]
fn two_changes() {
    let plan = with(Budget { changes: 1, ..Budget::default() });
    let plan = Plan { learners: vec![3], is_changing: true, changes: vec![vec![0, 3], vec![3]], ..plan };
    holds(Plan { cut: vec![(0, 2), (1, 3)], ..plan });
}

/// A store is lost while a change is under way: the next one waits until that is over.
#[test]
fn lost_store_with_change() {
    let plan = with(Budget { elections: 1, ..Budget::default() });
    let plan = Plan { learners: vec![3], is_changing: true, changes: vec![vec![0, 1, 2, 3]], ..plan };
    holds(Plan { lost: Some(2), candidates: vec![1], cut: vec![(1, 3), (2, 3)], ..plan });
}

#[test]
fn change_comes_to_its_end() {
    let plan = swap(Budget { changes: 1, ..Budget::default() });
    reaches(plan, |state| {
        let settled = state.members[0].group.settled().configuration;
        settled.voters.len() == 2 && !settled.is_joint()
    });
}

/// The third has voted for the fourth, which goes, and whose candidacy the second has not heard of.
#[test]
fn lost_store_that_has_voted_for_a_member_that_goes() {
    let plan = with(Budget { elections: 1, ..Budget::default() });
    let plan = Plan { voters: vec![0, 1, 2, 3], changes: vec![vec![0, 1, 2]], is_going: true, ..plan };
    holds(Plan { candidates: vec![0], cut: vec![(0, 3), (2, 3)], ..plan });
}
