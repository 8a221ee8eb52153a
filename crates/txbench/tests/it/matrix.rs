//! Every workload on every target: a small run whose data is whole afterwards, or a refusal with
//! the reason.

use crate::common;

use std::collections::BTreeSet;

use benchkit::report::result::BenchResult;
use clap::CommandFactory;
use common::{Bench, bench};
use futures_util::future::join_all;
use txbench::{BenchError, targets::registry::TARGETS};

/// A workload, and the targets that refuse it with what they cannot do. All others run it.
struct Row {
    workload: &'static str,
    refused: &'static [(&'static str, &'static str)],
}

const GENERAL: (&str, &str) = ("recipe", "do other work than moving amounts");
/// Documents are found by their keys alone.
const QUERY: (&str, &str) = ("dtranx", "query by other fields than _id, which ");

/// Small runs, without anything that a target without transactions cannot keep: orders rolled back,
/// several clients.
const ROWS: &[Row] = &[
    Row {
        workload: "bank --operations 60",
        refused: &[("mvcc", "keep a unique index"), ("dtranx", "keep a unique index")],
    },
    Row { workload: "bank --operations 60 --account-index plain", refused: &[] },
    Row {
        workload: "bank --operations 60 --account-index plain --by-account --audit --readers 20",
        refused: &[("mvcc", "repeatable read"), ("recipe", "query"), QUERY],
    },
    Row {
        workload: "checkin --synthetic 60 --documents 4",
        refused: &[GENERAL, ("dtranx", "search by distance, which checkin")],
    },
    Row { workload: "transfer --documents 40", refused: &[] },
    Row { workload: "hot-spot --documents 6 --writes 3", refused: &[GENERAL] },
    Row {
        workload: "ycsb --records 100 --mix read=20,update=20,insert=20,scan=20,read-modify-write=20",
        refused: &[GENERAL],
    },
    Row { workload: "tpcc --scale 0.001 --rollback-percent 0", refused: &[GENERAL, QUERY] },
];

async fn run_on(workload: &str, target: &str, clients: u32) -> Result<BenchResult, BenchError> {
    let (alone, set) =
        (local_mongod::shared_standalone().await.unwrap(), local_mongod::shared_replica_set().await.unwrap());
    let line = format!(
        "{workload} --targets {target} --clients {clients} --rounds 1 --seconds 1 --warm-up 0 --uri {} \
         --replica-uri {}",
        alone.uri(),
        set.uri()
    );
    // DTranx has no weaker level than the strongest.
    let line = if target == "dtranx" { format!("{line} --isolation serializable") } else { line };
    bench(&line).await
}

/// One workload on all targets, one after the other.
async fn check(row: &Row) {
    for traits in TARGETS.iter().map(|entry| &entry.traits) {
        let (name, workload) = (traits.name, row.workload);
        let clients = if traits.transactional { 3 } else { 1 };
        let ended = run_on(workload, name, clients).await;
        match (row.refused.iter().find(|(refusing, _)| *refusing == name), ended) {
            (None, Ok(result)) => {
                let run = &result.runs[0];
                assert_eq!(run.broken, None, "{workload} on {name}");
                assert!(run.counts.committed_in_all > 0, "{workload} on {name}");
            }
            (Some((_, why)), Err(BenchError::Refused(said))) => {
                assert!(said.contains(name) && said.contains(why), "{workload} on {name}: {said}");
            }
            (None, Err(error)) => panic!("{workload} on {name}: {error}"),
            (Some(_), ended) => panic!("{workload} on {name} is not refused: {ended:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_workload_holds_on_every_target_or_is_refused() {
    join_all(ROWS.iter().map(check)).await;
}

#[test]
fn no_workload_is_left_out() {
    let all = Bench::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let tested: BTreeSet<String> =
        ROWS.iter().filter_map(|row| row.workload.split(' ').next()).map(str::to_owned).collect();
    assert_eq!(tested, all);
}
