//! Explorations with one broken rule: a property is violated.

use crate::core::group::Flaw;
use crate::model::{
    explore::is_noticed,
    members::plan::{Budget, Plan},
};

fn with(budget: Budget) -> Plan {
    Plan { budget, ..Plan::default() }
}

#[test]
fn flaw_own_sync_is_noticed() {
    is_noticed(with(Budget { entries: 1, ..Budget::default() }), Flaw::OwnSync);
}

#[test]
fn flaw_counts_unsynced_is_noticed() {
    is_noticed(with(Budget { entries: 1, heartbeats: 1, ..Budget::default() }), Flaw::CountsUnsynced);
}

#[test]
fn flaw_old_term_accepted_is_noticed() {
    let plan = with(Budget { elections: 1, entries: 1, ..Budget::default() });
    is_noticed(Plan { candidates: vec![1], has_late: true, ..plan }, Flaw::OldTermAccepted);
}

#[test]
fn flaw_votes_unsynced_is_noticed() {
    let plan = with(Budget { elections: 2, crashes: 1, ..Budget::default() });
    is_noticed(Plan { crashing: vec![0], candidates: vec![1, 2], cut: vec![(1, 2)], ..plan }, Flaw::VotesUnsynced);
}

#[test]
fn flaw_acknowledges_unsynced_is_noticed() {
    is_noticed(with(Budget { entries: 1, ..Budget::default() }), Flaw::AcknowledgesUnsynced);
}

#[test]
fn flaw_begins_before_first_entry_is_noticed() {
    is_noticed(with(Budget { elections: 1, ..Budget::default() }), Flaw::BeginsBeforeFirstEntry);
}

#[test]
fn flaw_applies_all_is_noticed() {
    is_noticed(with(Budget { entries: 1, crashes: 1, ..Budget::default() }), Flaw::AppliesAll);
}

#[test]
fn flaw_applies_unsynced_is_noticed() {
    is_noticed(with(Budget { entries: 1, heartbeats: 1, ..Budget::default() }), Flaw::AppliesUnsynced);
}

#[test]
fn flaw_unconfirmed_is_noticed() {
    is_noticed(Plan { is_replaced: true, ..with(Budget { answers: 1, ..Budget::default() }) }, Flaw::Unconfirmed);
}

#[test]
fn flaw_confirmed_before_is_noticed() {
    let plan = with(Budget { answers: 1, ..Budget::default() });
    is_noticed(Plan { is_replaced: true, ..plan }, Flaw::ConfirmedBefore);
}

#[test]
fn flaw_latecomers_leave_is_noticed() {
    let plan = with(Budget { elections: 1, answers: 1, heartbeats: 1, ..Budget::default() });
    is_noticed(Plan { candidates: vec![1], writer: Some(0), ..plan }, Flaw::LatecomersLeave);
}

#[test]
fn flaw_cuts_without_conflict_is_noticed() {
    is_noticed(with(Budget { entries: 2, ..Budget::default() }), Flaw::CutsWithoutConflict);
}

#[test]
fn flaw_conflict_counted_is_noticed() {
    let plan = with(Budget { entries: 2, heartbeats: 1, ..Budget::default() });
    let plan = Plan { is_replaced: true, ahead: 2, writer: Some(1), cut: vec![(0, 2), (1, 2)], ..plan };
    is_noticed(plan, Flaw::ConflictCounted);
}

#[test]
fn flaw_node_kept_is_noticed() {
    is_noticed(with(Budget { ends: 1, ..Budget::default() }), Flaw::NodeKept);
}

#[test]
fn flaw_rejoins_empty_is_noticed() {
    let plan = with(Budget { elections: 1, ..Budget::default() });
    is_noticed(Plan { lost: Some(2), ahead: 1, candidates: vec![1], ..plan }, Flaw::RejoinsEmpty);
}

#[test]
fn flaw_votes_before_it_rejoined_is_noticed() {
    let plan = with(Budget { elections: 1, ..Budget::default() });
    is_noticed(Plan { lost: Some(2), ahead: 1, candidates: vec![1], ..plan }, Flaw::VotesBeforeItRejoined);
}

#[test]
fn flaw_rejoins_by_majority_is_noticed() {
    let plan = with(Budget { elections: 1, ..Budget::default() });
    is_noticed(Plan { is_begun_apart: true, lost: Some(2), candidates: vec![0], ..plan }, Flaw::RejoinsByMajority);
}

/// A term that the lost store has voted in is over when all others have started again, unless it
/// has voted after one of them had.
#[test]
fn flaw_rejoins_in_any_term_is_noticed() {
    let plan = with(Budget { elections: 1, entries: 1, losses: 1, ..Budget::default() });
    let plan = Plan { is_mistaken: true, losing: vec![2], candidates: vec![1], writer: Some(0), ..plan };
    is_noticed(plan, Flaw::RejoinsInAnyTerm);
}

/// The first member is left, with a fourth; only the first has heard so.
fn changing(budget: Budget) -> Plan {
    Plan { learners: vec![3], changes: vec![vec![0, 3]], is_changing: true, ..with(budget) }
}

#[test]
fn flaw_goes_by_next_voters_is_noticed() {
    let plan = changing(Budget { elections: 2, ..Budget::default() });
    is_noticed(Plan { candidates: vec![1, 3], cut: vec![(1, 3), (2, 3)], ..plan }, Flaw::GoesByNextVoters);
}

#[test]
fn flaw_rounds_by_next_voters_is_noticed() {
    let plan = changing(Budget { answers: 1, ..Budget::default() });
    is_noticed(Plan { is_replaced: true, ..plan }, Flaw::RoundsByNextVoters);
}

/// The others need its vote, and it has what they do not have.
#[test]
fn flaw_leaves_with_the_final_is_noticed() {
    let plan = with(Budget { changes: 1, crashes: 1, drops: 1, ..Budget::default() });
    let plan = Plan { voters: vec![0], learners: vec![1], changes: vec![vec![1]], crashing: vec![0], ..plan };
    is_noticed(plan, Flaw::LeavesWithTheFinal);
}

#[test]
fn flaw_forgets_configurations_is_noticed() {
    let plan = changing(Budget { elections: 1, crashes: 1, ..Budget::default() });
    let cut = vec![(0, 2), (2, 3), (1, 3)];
    is_noticed(Plan { candidates: vec![1], crashing: vec![1], cut, ..plan }, Flaw::ForgetsConfigurations);
}

#[test]
fn flaw_commits_alone_is_noticed() {
    let plan = with(Budget { entries: 2, crashes: 1, elections: 1, ..Budget::default() });
    is_noticed(Plan { voters: vec![0], learners: vec![1], crashing: vec![0], ..plan }, Flaw::CommitsAlone);
}

/// The third has voted for the fourth, which goes, and whose candidacy the second has not heard of.
#[test]
fn flaw_rejoins_during_change_is_noticed() {
    let plan = with(Budget { elections: 1, ..Budget::default() });
    let plan = Plan { voters: vec![0, 1, 2, 3], changes: vec![vec![0, 1, 2]], is_going: true, ..plan };
    is_noticed(Plan { candidates: vec![0], cut: vec![(0, 3), (2, 3)], ..plan }, Flaw::RejoinsDuringChange);
}
