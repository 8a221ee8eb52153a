//! The ACID tests on every target that has to pass them, and on one that does not have to.

use clap::Parser;
use txbench::acid::{AcidArgs, TargetReport, TestResult, run_acid};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: AcidArgs,
}

async fn test(line: &str) -> Vec<TargetReport> {
    let standalone = local_mongod::shared_standalone().await.unwrap().uri();
    let replica_set = local_mongod::shared_replica_set().await.unwrap().uri();
    let line = format!("acid {line} --uri {standalone} --replica-uri {replica_set}");
    run_acid(&Command::try_parse_from(line.split_whitespace()).unwrap().args).await.unwrap().targets
}

fn outcome<'a>(report: &'a TargetReport, clause: &str) -> &'a TestResult {
    &report.tests.iter().find(|test| test.clause == clause).unwrap().outcome
}

/// Failures and text of a report, for an assertion that fails.
fn failed(report: &TargetReport) -> (Vec<&str>, String) {
    (report.failed(), report.to_string())
}

#[tokio::test]
async fn single_writes_fail_the_tests_that_need_transactions() {
    let reports = test("--targets plain").await;
    assert_eq!(reports.len(), 1, "there are no levels without transactions");
    for clause in ["3.2.2.2", "3.3.3", "3.4.2.1", "3.4.2.2", "3.4.2.4", "3.4.2.6", "3.4.2.7", "3.4.2.8", "3.4.2.9"] {
        assert!(matches!(outcome(&reports[0], clause), TestResult::Failed(_)), "{clause}: {}", reports[0]);
    }
    assert_eq!(outcome(&reports[0], "3.2.2.1"), &TestResult::Passed);
}

/// The clauses that MongoTx fails at a level.
async fn check(level: &str, fails: &[&str]) {
    let reports = test(&format!("--targets mongotx --isolation {level}")).await;
    let (clauses, report_text) = failed(&reports[0]);
    assert_eq!(clauses, fails, "{level}: {report_text}");
}

// Each level is a test of its own: they wait more than they work, and so run at the same time.

#[tokio::test]
async fn mongotx_at_read_committed_lets_reads_change_and_phantoms_appear() {
    check("read-committed", &["3.4.2.7", "3.4.2.8", "3.4.2.9"]).await;
}

#[tokio::test]
async fn mongotx_at_repeatable_read_lets_phantoms_appear() {
    check("repeatable-read", &["3.4.2.8", "3.4.2.9"]).await;
}

#[tokio::test]
async fn mongotx_at_snapshot_passes_all() {
    check("snapshot", &[]).await;
}

#[tokio::test]
async fn mongotx_at_serializable_passes_all() {
    check("serializable", &[]).await;
}

async fn check_native(level: &str) {
    for report in test(&format!("--targets native --isolation {level}")).await {
        let (clauses, report_text) = failed(&report);
        assert_eq!(clauses, [""; 0], "{level}: {report_text}");
    }
}

#[tokio::test]
async fn native_transactions_at_read_committed_pass_all() {
    check_native("read-committed").await;
}

#[tokio::test]
async fn native_transactions_at_snapshot_pass_all() {
    check_native("snapshot").await;
}
