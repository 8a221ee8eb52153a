//! What a target cannot do is refused by name, before any server is started or asked.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use clap::Parser;
use txbench::{BenchError, run::plan, workload::registry::WorkloadCommand};

#[derive(Parser)]
struct Command {
    #[command(subcommand)]
    workload: WorkloadCommand,
}

/// Nobody listens there: whoever asks this server says so, and not what the test expects.
const NOBODY: &str = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300";

async fn assert_refused(line: &str, words: &[&str]) {
    let line = format!("bench {line} --uri {NOBODY} --replica-uri {NOBODY}");
    let (spec, args) = Command::try_parse_from(line.split_whitespace()).unwrap().workload.split();
    match plan::run(&spec, &args, &line).await {
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
