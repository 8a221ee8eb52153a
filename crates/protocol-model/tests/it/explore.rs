//! The protocol holds in every state that each plan can reach.

use protocol_model::{Op, Plan, Report, explore};

use crate::{DEEP, expect::expect_holds, plans};

fn holds(plan: Plan) -> Report {
    let report = explore(plan);
    expect_holds(&report, &["all commit"]);
    report
}

#[test]
fn rivals_hold() {
    holds(plans::rivals());
}

#[test]
fn together_holds() {
    holds(plans::together());
}

#[test]
fn sent_together_holds() {
    holds(plans::sent_together());
}

#[test]
fn sent_in_one_statement_holds() {
    for order in [[0, 2, 1], [2, 1, 0]] {
        holds(plans::sent_in_one_statement(order));
    }
    holds(plans::refused_in_one_statement());
    holds(plans::sent_in_one_statement_restart());
    holds(plans::taken_over_in_one_statement());
}

#[test]
fn sent_together_restart_holds() {
    holds(plans::sent_together_restart());
}

#[test]
fn sent_in_two_holds() {
    holds(plans::sent_in_two());
    holds(plans::sent_in_two_refused());
}

#[test]
fn sent_in_two_restart_holds() {
    holds(plans::sent_in_two_restart());
}

#[test]
fn taken_over_holds() {
    holds(plans::taken_over());
}

#[test]
fn taken_over_from_rivals_holds() {
    holds(plans::taken_over_from_rivals());
}

#[test]
fn taken_over_restart_holds() {
    holds(plans::taken_over_restart());
}

#[test]
fn found_by_key_holds() {
    holds(plans::found_by_key());
    holds(plans::found_by_key_and_taken_over());
    holds(plans::found_by_key_restart());
}

#[test]
fn finished_late_holds() {
    holds(plans::finished_late());
}

#[test]
fn bound_holds() {
    let long = [
        plans::rivals(),
        plans::restart(),
        plans::restart_death(),
        plans::restart_late(),
        plans::restart_zombie(),
        plans::group_restart(),
        plans::group_gives_up(),
        plans::group_abort(),
    ];
    let plans = [plans::restart_alone(), plans::group_quiet_restart()];
    for plan in plans.into_iter().chain(long.into_iter().filter(|_| *DEEP)) {
        holds(plans::bound(plan));
    }
}

#[test]
fn bound_with_take_overs_and_lists_holds() {
    for plan in [plans::taken_over(), plans::taken_over_restart(), plans::finished_late(), plans::enlisting_restart()] {
        holds(plans::bound(plan));
    }
}

#[test]
fn ring_holds() {
    holds(plans::ring());
}

#[test]
fn zombie_holds() {
    holds(plans::zombie());
}

#[test]
fn abort_holds() {
    holds(plans::abort());
}

#[test]
fn late_holds() {
    holds(plans::late());
}

#[test]
fn late_and_forgotten_holds() {
    holds(plans::late_and_forgotten());
}

#[test]
fn restart_alone_holds() {
    holds(plans::restart_alone());
}

#[test]
fn restart_holds() {
    holds(plans::restart());
}

#[test]
fn restart_death_holds() {
    holds(plans::restart_death());
}

/// Both faults at once in one small plan; the two larger plans, of one fault each, only in long
/// explorations.
#[test]
fn restart_late_zombie_holds() {
    holds(plans::restart_late_zombie());
    if *DEEP {
        holds(plans::restart_late());
        holds(plans::restart_zombie());
    }
}

#[test]
fn group_holds() {
    holds(plans::group());
}

#[test]
fn group_restart_holds() {
    holds(plans::group_restart());
}

#[test]
fn group_abort_holds() {
    holds(plans::group_abort());
}

#[test]
fn group_quiet_holds() {
    holds(plans::group_quiet());
    holds(plans::group_quiet_gives_up());
    holds(plans::group_quiet_restart());
    holds(plans::group_quiet_abort());
}

#[test]
fn group_gives_up_holds() {
    holds(plans::group_gives_up());
}

#[test]
fn reads_hold() {
    holds(plans::reads());
}

#[test]
fn reads_zombie_holds() {
    holds(plans::reads_zombie());
}

#[test]
fn reads_restart_holds() {
    holds(plans::reads_restart());
}

#[test]
fn queries_hold() {
    holds(plans::queries());
}

#[test]
fn insert_remove_holds() {
    holds(plans::insert_remove());
}

#[test]
fn insert_remove_restart_holds() {
    holds(plans::insert_remove_restart());
}

#[test]
fn enlisting_holds() {
    holds(plans::enlisting());
}

#[test]
fn enlisting_restart_holds() {
    holds(plans::enlisting_restart());
}

#[test]
fn refused_holds() {
    holds(plans::refused());
}

#[test]
fn deleted_holds() {
    holds(plans::deleted());
}

#[test]
fn deleted_and_inserted_holds() {
    holds(plans::deleted_and_inserted());
}

#[test]
fn expiring_holds() {
    for plan in [plans::expiring(), plans::expiring_restart(), plans::expiring_and_removed()] {
        let report = holds(plan);
        assert!(report.examples.contains(&"an expired document is written"), "{report:?}");
    }
}

#[test]
fn forged_holds() {
    holds(plans::forged(Op::Remove));
    holds(plans::forged(Op::Insert));
}

#[test]
fn strangers_hold() {
    holds(plans::strangers());
}
