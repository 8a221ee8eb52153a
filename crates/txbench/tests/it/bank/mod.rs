//! The bank on real servers: what is acknowledged is checked exactly, however a run ends, and a
//! target that loses something is found out.
mod faults;
mod run;

use txbench::workload::{Broken, bank::files};

use self::{
    faults::Fault,
    run::{Run, Stop},
};

/// Replays everything on a target and expects that the check finds nothing.
async fn all_is_well(target: &str, clients: u32, options: &[&str]) -> run::RunResult {
    let outcome = Run { target, clients, options, fault: Fault::None, stop: Stop::AtTheEnd }.go().await;
    outcome.check.as_ref().unwrap_or_else(|broken| panic!("{target} {options:?}: {broken}"));
    assert_eq!(outcome.violations, 0, "{target} {options:?}");
    outcome
}

fn promise(outcome: run::RunResult) -> String {
    match outcome.check {
        Err(Broken::Promise(what)) => what,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_replay_by_one_client_is_exact_without_transactions_too() {
    let outcome = all_is_well("plain", 1, &["--operations", "300"]).await;
    assert_eq!(outcome.committed, 300);
}

#[tokio::test]
async fn a_replay_by_several_clients_is_exact() {
    for option in [&[][..], &["--by-account"], &["--alone"], &["--by-account", "--alone"]] {
        for target in ["native", "mongotx"] {
            all_is_well(target, 6, &[&["--operations", "120"], option].concat()).await;
        }
    }
}

#[tokio::test]
async fn a_replay_that_is_stopped_is_exact() {
    for options in [&["--operations", "300"][..], &["--operations", "30", "--endless"]] {
        let run = Run { target: "mongotx", clients: 3, options, fault: Fault::None, stop: Stop::After(25) };
        let outcome = run.go().await;
        outcome.check.unwrap();
        assert_eq!(outcome.committed, 75, "{options:?}");
    }
}

#[tokio::test]
async fn files_are_replayed_like_the_operations_that_they_were_made_of() {
    let folder = tempfile::tempdir().unwrap();
    let (out, mix) = (folder.path().to_owned(), "30,30,40".parse().unwrap());
    files::write_files(&files::FilesArgs { out, operations: 200, files: 2, accounts: 12, mix, seed: 3 }).unwrap();
    let path = folder.path().to_str().unwrap();
    let outcome = all_is_well("mongotx", 3, &["--files", path]).await;
    assert_eq!(outcome.committed, 200);
}

#[tokio::test]
async fn sums_and_the_audit_are_consistent_while_others_write() {
    let options = ["--operations", "120", "--accounts", "6", "--mix", "20,20,60", "--readers", "40", "--audit"];
    for target in ["native", "mongotx"] {
        let outcome = all_is_well(target, 5, &[&options[..], &["--index-balances"]].concat()).await;
        for kind in ["balance", "largest", "bank-sum", "partial-check", "deposit", "withdrawal", "transfer"] {
            assert!(outcome.kinds.get(kind).is_some_and(|count| *count > 0), "{kind}: {:?}", outcome.kinds);
        }
    }
}

#[tokio::test]
async fn more_accounts_than_one_page_are_checked() {
    all_is_well("plain", 1, &["--operations", "50", "--accounts", "11000"]).await;
}

#[tokio::test]
async fn a_lost_write_is_found() {
    for options in [&["--operations", "60"][..], &["--operations", "60", "--audit"]] {
        let run = Run { target: "plain", clients: 1, options, fault: Fault::LoseUpdate(20), stop: Stop::AtTheEnd };
        let what = promise(run.go().await);
        assert!(what.contains("accounts are wrong") && what.contains("too little"), "{what}");
    }
}

#[tokio::test]
async fn a_write_that_is_done_twice_is_found() {
    let options = &["--operations", "60"];
    let run = Run { target: "plain", clients: 1, options, fault: Fault::RepeatUpdate(20), stop: Stop::AtTheEnd };
    assert!(promise(run.go().await).contains("accounts are wrong"));
}

#[tokio::test]
async fn a_lost_record_of_the_audit_is_found_while_it_runs_and_at_the_end() {
    let options = &["--operations", "100", "--audit", "--readers", "50"];
    let run = Run { target: "plain", clients: 1, options, fault: Fault::LoseInsert, stop: Stop::AtTheEnd };
    let outcome = run.go().await;
    assert!(outcome.violations > 0);
    assert!(promise(outcome).contains("the audit has 0 records of 100 operations"));
}

#[tokio::test]
async fn half_a_transfer_is_found_by_the_sum_over_the_bank() {
    let options = &["--operations", "100", "--mix", "0,0,100", "--readers", "50"];
    let run = Run { target: "plain", clients: 1, options, fault: Fault::LoseUpdate(10), stop: Stop::AtTheEnd };
    assert!(run.go().await.violations > 0);
}

#[tokio::test]
async fn an_operation_that_is_given_up_or_in_doubt_does_not_spoil_the_check() {
    for (fault, committed, unknown) in [(Fault::RefuseBegin(9), 59, 0), (Fault::LoseAnswer(9), 59, 1)] {
        for options in [&["--operations", "60"][..], &["--operations", "60", "--audit"]] {
            let run = Run { target: "mongotx", clients: 1, options, fault, stop: Stop::AtTheEnd };
            let outcome = run.go().await;
            outcome.check.unwrap_or_else(|broken| panic!("{fault:?} {options:?}: {broken}"));
            assert_eq!((outcome.committed, outcome.unknown), (committed, unknown), "{fault:?}");
        }
    }
}
