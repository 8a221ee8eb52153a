//! The engine on real servers: its counts, its refusals, its reports of broken data.

use crate::common;

use std::time::Instant;

use benchkit::report::result::BenchResult;
use common::{bench, parse, try_parse};
use txbench::BenchError;

/// Runs a command line on the shared server, for the shortest time that can be measured unless it
/// gives another.
async fn bench_shared(line: &str) -> Result<BenchResult, BenchError> {
    let uri = local_mongod::shared_standalone().await.unwrap().uri();
    bench(&format!("{line} --uri {uri} --seconds 1 --warm-up 0")).await
}

#[tokio::test]
async fn targets_take_turns_and_data_is_kept_for_the_next_round() {
    let result =
        bench_shared("transfer --documents 100 --targets plain,mongotx --clients 1,3 --rounds 2").await.unwrap();
    let order: Vec<(u32, u32, &str)> =
        result.runs.iter().map(|run| (run.round, run.clients, run.target.as_str())).collect();
    let of_round = |round| [(1, "plain"), (1, "mongotx"), (3, "plain"), (3, "mongotx")].map(|(c, t)| (round, c, t));
    assert_eq!(order, [of_round(1), of_round(2)].concat());
    for run in &result.runs {
        assert_eq!(run.broken, None, "{}", run.target);
        assert!(run.counts.committed_in_all > 0 && run.counts.operations == 2 * run.counts.committed());
        let by_second: u64 = run.counts.seconds.iter().map(|second| second.committed).sum();
        assert_eq!(by_second, run.counts.committed());
        assert!(run.counts.committed_in_all >= run.counts.committed());
        assert!(run.used.server_cpu_us.is_some(), "{:?}", run.used);
        assert!(run.used.server_written_bytes.is_some(), "{:?}", run.used);
    }
}

#[tokio::test]
async fn transfers_that_read_first_and_audits_beside_them_are_right_where_nothing_is_lost() {
    let line = "transfer --documents 4 --reads-first --auditors 1 --clients 4 --rounds 1";
    let result = bench_shared(&format!("{line} --targets mongotx,gateway --isolation snapshot")).await.unwrap();
    for run in &result.runs {
        assert_eq!(run.broken, None, "{}", run.target);
        assert!(run.counts.committed_in_all > 0);
    }
}

/// One run compares levels, each target at those that it has.
#[tokio::test]
async fn levels_take_turns_as_targets_do() {
    let line = "ycsb --core c --records 50 --targets plain,mvcc,mongotx --isolation read-committed,snapshot";
    let result = bench_shared(&format!("{line} --clients 1 --rounds 1")).await.unwrap();
    let order: Vec<&str> = result.runs.iter().map(|run| run.target.as_str()).collect();
    assert_eq!(order, ["plain", "mvcc, read committed", "mongotx, read committed", "mongotx, snapshot"]);
    let commands = |at: usize| {
        let run = &result.runs[at];
        assert_eq!(run.broken, None, "{}", run.target);
        run.commands.values().sum::<u64>() as f64 / run.counts.committed() as f64
    };
    // Snapshot costs a command: it checks that all that was read is of one moment.
    assert!(commands(3) > commands(2) + 0.5, "{} and {}", commands(2), commands(3));
    for start in ["mvcc, read committed: ", "mongotx, snapshot: "] {
        assert!(result.facts.iter().any(|fact| fact.starts_with(start)), "{start}: {:?}", result.facts);
    }
    let none = bench_shared("transfer --targets mvcc --isolation snapshot,serializable --clients 1").await.unwrap_err();
    assert!(none.to_string().contains("mvcc") && none.to_string().contains("snapshot"), "{none}");
}

#[tokio::test]
async fn auditors_are_refused_where_nothing_is_summed() {
    let refused = bench_shared("transfer --auditors 1 --clients 2 --rounds 1 --targets recipe").await.unwrap_err();
    assert!(refused.to_string().contains("recipe"), "{refused}");
}

#[tokio::test]
async fn commands_are_counted_by_name() {
    let result = bench_shared("transfer --documents 100 --targets plain --clients 2 --rounds 1").await.unwrap();
    let run = &result.runs[0];
    let (updates, transfers) = (run.commands["update"], run.counts.committed());
    // Transfers that begin before the time measured, or end after it, have some of their commands
    // in it.
    assert!(updates.abs_diff(2 * transfers) <= 4, "{updates} updates for {transfers} transfers");
    assert!(!run.commands.contains_key("insert"), "loading is not measured: {:?}", run.commands);
}

#[tokio::test]
async fn an_open_loop_begins_as_many_as_asked_and_counts_the_waiting() {
    let start = Instant::now();
    let result =
        bench_shared("transfer --documents 100 --targets plain --clients 2 --rounds 1 --rate 20").await.unwrap();
    let run = &result.runs[0];
    let due = 20.0 * start.elapsed().as_secs_f64() + 1.0;
    assert!(run.counts.committed_in_all as f64 <= due, "{} of {due}", run.counts.committed_in_all);
    assert_eq!(run.rate, Some(20.0));
    // One client cannot keep up with this: every transaction was due long before.
    let result = run_late().await;
    let late = &result.runs[0].counts;
    assert!(late.latencies().quantile_ms(1.0) > 100.0, "{}", late.latencies().quantile_ms(1.0));
}

async fn run_late() -> BenchResult {
    bench_shared("transfer --documents 100 --targets plain --clients 1 --rounds 1 --rate 1000000").await.unwrap()
}

#[tokio::test]
async fn the_same_seed_does_the_same_work_on_every_target() {
    let draws = |line: &str| {
        let (spec, _) = parse(line);
        let id = txbench::workload::ClientId { index: 0, of: 1, seed: 9 };
        let mut client = spec.make().unwrap().client(id).unwrap();
        (0..100).map(|_| client.choose().kind).collect::<Vec<_>>()
    };
    let line = "ycsb --core f --operations 1 --records 100";
    assert_eq!(draws(line), draws(line));
}

#[tokio::test]
async fn lost_updates_are_reported_as_broken_and_not_as_an_error() {
    // One transaction is enough for two of its updates to be lost.
    let line = "ycsb --mix read-modify-write=100 --operations 20 --records 50";
    let result = bench_shared(&format!("{line} --targets faulty-lost,mongotx --clients 1 --rounds 1")).await.unwrap();
    let broken: Vec<bool> = result.runs.iter().map(|run| run.broken.is_some()).collect();
    assert_eq!(broken, [true, false], "{:?}", result.runs[0].broken);
    let said = result.runs[0].broken.clone().unwrap();
    assert!(said.contains("writes") && said.contains("acknowledged"), "{said}");
}

#[tokio::test]
async fn every_core_workload_runs_and_its_data_is_whole() {
    for core in ["a", "b", "c", "d", "e"] {
        let line = format!("ycsb --core {core} --records 300 --targets plain,mongotx --clients 4 --rounds 1");
        let result = bench_shared(&line).await.unwrap();
        for run in &result.runs {
            assert_eq!(run.broken, None, "{core} on {}", run.target);
            assert!(run.counts.committed_in_all > 0, "{core} on {}", run.target);
        }
    }
}

#[tokio::test]
async fn a_hot_spot_loses_nothing() {
    let result = bench_shared("hot-spot --documents 2 --targets mongotx,mvcc --clients 8 --rounds 1").await.unwrap();
    for run in &result.runs {
        assert_eq!(run.broken, None, "{}", run.target);
        assert!(run.counts.committed_in_all > 0, "{}: {:?}", run.target, run.counts.kinds);
    }
}

#[tokio::test]
async fn a_transaction_that_is_refused_is_tried_again_and_counted_by_the_reason() {
    let result = bench_shared("hot-spot --documents 2 --targets faulty-busy --clients 1 --rounds 1").await.unwrap();
    let run = &result.runs[0];
    assert_eq!(run.broken, None);
    assert!(run.counts.committed_in_all > 0);
    // One may be refused before the time measured and commit within it, or the other way round.
    let (conflicts, committed) = (run.counts.conflicts(), run.counts.committed());
    assert!(conflicts.abs_diff(committed) <= 1, "{conflicts} for {committed}");
    let reasons: Vec<&str> = run.counts.kinds.values().flat_map(|kind| kind.conflicts.keys()).map(|r| &**r).collect();
    assert!(committed < 2 || reasons == ["busy"], "{reasons:?}");
}

#[test]
fn options_that_do_not_fit_together_are_refused_by_name() {
    let refused = parse("hot-spot --documents 2 --writes 3").0.make().err().unwrap();
    assert!(refused.to_string().contains("--writes"), "{refused}");
    for line in ["ycsb --mix read=50", "ycsb --scan-lengths 0", "transfer --targets oracle"] {
        assert!(try_parse(line).is_err(), "{line}");
    }
}
