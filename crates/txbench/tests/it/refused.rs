//! Work that a target cannot do is refused by name, before any server is started or reached.

use crate::common;

use clap::Parser;
use common::bench;
use txbench::{
    BenchError,
    acid::{self, AcidArgs},
};

#[derive(Parser)]
struct Acid {
    #[command(flatten)]
    args: AcidArgs,
}

/// No server listens there: a connection to it fails with another error than the test expects.
const NO_SERVER: &str = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300";

async fn assert_refused(line: &str, words: &[&str]) {
    match bench(&format!("{line} --uri {NO_SERVER} --replica-uri {NO_SERVER}")).await {
        Err(BenchError::Refused(said)) => {
            words.iter().for_each(|word| assert!(said.contains(word), "{line}: {word:?} in {said}"));
        }
        other => panic!("{line}: {other:?}"),
    }
}

#[tokio::test]
async fn commit_before_the_journal_is_refused_where_decisions_are_always_in_it() {
    for target in ["mongotx", "mongotx-published"] {
        let words = [target, "{w: 1, j: false}", "--journal"];
        assert_refused(&format!("transfer --targets plain,{target} --write-concern 1 --journal false"), &words).await;
        let words = [target, "{w: 1, j: false}", "--tx-write-concern"];
        assert_refused(&format!("tpcc --targets {target} --tx-write-concern payment=1/unjournaled"), &words).await;
    }
}

#[tokio::test]
async fn isolation_that_a_target_does_not_have_is_refused() {
    let words = ["mvcc", "repeatable read", "read committed can"];
    for line in [
        "transfer --targets plain,mvcc --isolation repeatable-read",
        "tpcc --targets mvcc --tx-isolation payment=repeatable-read",
        "bank --targets mvcc --account-index plain --readers 10",
    ] {
        assert_refused(line, &words).await;
    }
    let line = ["acid", "--targets", "plain,mvcc", "--isolation", "repeatable-read", "--uri", NO_SERVER];
    let refused = acid::run_acid(&Acid::try_parse_from(line).unwrap().args).await.unwrap_err().to_string();
    assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
}

#[tokio::test]
async fn waiting_for_locks_is_refused_where_no_target_waits() {
    assert_refused("transfer --targets plain,native --lock-wait-ms 5", &["--lock-wait-ms", "plain, native"]).await;
}

#[tokio::test]
async fn what_a_key_value_store_cannot_do_is_refused_with_the_workload() {
    let line = |workload: &str| format!("{workload} --targets dtranx --isolation serializable");
    for (workload, words) in [
        ("tpcc", ["dtranx", "query by other fields than _id", "tpcc"]),
        ("checkin", ["dtranx", "search by distance", "checkin"]),
        ("bank", ["dtranx", "keep a unique index", "bank"]),
        ("bank --account-index plain --by-account", ["dtranx", "query by other fields than _id", "bank"]),
        ("transfer --auditors 2", ["dtranx", "aggregate", "transfer"]),
        ("transfer --write-concern 2", ["dtranx", "--write-concern", "cannot be on 2 nodes"]),
        ("transfer --journal false", ["dtranx", "--journal", "j: false"]),
        ("transfer --dtranx 127.0.0.1:1", ["--dtranx", "cannot use these servers", "127.0.0.1:1"]),
    ] {
        assert_refused(&line(workload), &words).await;
    }
    assert_refused("transfer --targets dtranx", &["dtranx", "read committed", "serializable can"]).await;
    let line = ["acid", "--targets", "plain,dtranx", "--uri", NO_SERVER];
    let refused = acid::run_acid(&Acid::try_parse_from(line).unwrap().args).await.unwrap_err().to_string();
    assert!(refused.contains("dtranx cannot query by other fields than _id, which the ACID tests need"), "{refused}");
}
