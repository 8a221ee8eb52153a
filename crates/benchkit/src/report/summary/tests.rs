//! Tests of the summary: lines and figures out of results that are made by hand.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use super::*;
use crate::{
    measure::KindCounts,
    report::{fake, spread::Spread},
};

/// A run of two kinds of transactions: `committed` of each a second, for ten seconds, in 2 ms and
/// in 4 ms.
fn run_result(target: &str, clients: u32, round: u32, committed: u64) -> RunResult {
    let mut run = fake::empty("w", target, clients, round, 10.0);
    for (kind, latency_ms) in [("new-order", 2), ("stock-level", 4)] {
        let counts = run.counts.kinds.entry(kind.to_owned()).or_default();
        (0..committed * 10).for_each(|_| counts.latencies.note(Duration::from_millis(latency_ms)));
    }
    run.counts.operations = committed * 10 * 2 * 5;
    run.commands = [("find".to_owned(), committed * 40), ("update".to_owned(), committed * 20)].into();
    run.used.server_cpu_us = Some(i64::try_from(committed * 20 * 1_500).unwrap());
    run
}

fn lines(runs: Vec<RunResult>) -> Vec<Line> {
    Summary::of(&fake::result("title", runs)).lines
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 0.002, "{found}, not {expected}");
}

#[test]
fn rounds_are_one_line_with_median_and_spread() {
    let lines =
        lines(vec![run_result("plain", 8, 1, 10), run_result("plain", 8, 2, 30), run_result("plain", 8, 3, 20)]);
    assert_eq!((lines.len(), lines[0].rounds), (1, 3));
    let figures = lines[0].figures().unwrap();
    assert_eq!(figures.rate, Spread { median: 40.0, least: 20.0, most: 60.0 });
    assert_eq!(figures.operations_rate.median, 200.0);
    close(figures.mean_ms, 3.0);
    close(figures.p50_ms, 2.0);
    close(figures.p99_ms, 4.0);
    close(figures.max_ms, 4.0);
}

#[test]
fn commands_and_processor_time_are_divided_by_transactions_and_operations() {
    let lines = lines(vec![run_result("plain", 8, 1, 10)]);
    let figures = lines[0].figures().unwrap();
    assert_eq!(figures.commands_per_tx, [("find".to_owned(), 2.0), ("update".to_owned(), 1.0)].into());
    assert_eq!(figures.commands_in_all_per_tx(), 3.0);
    assert_eq!(figures.per_operation(3.0), Some(0.6));
    assert_eq!(figures.server_cpu_ms_per_tx, Some(1.5));
    assert_eq!((figures.client_cpu_ms_per_tx, figures.written_bytes_per_tx), (None, None));
}

#[test]
fn broken_round_leaves_no_figures() {
    let broken = RunResult { broken: Some("the sum is wrong".to_owned()), ..run_result("plain", 8, 2, 10) };
    let lines = lines(vec![run_result("plain", 8, 1, 10), broken, run_result("native", 8, 1, 20)]);
    assert_eq!(lines[0].outcome.as_ref().unwrap_err(), "in 1 of 2 rounds: the sum is wrong");
    let native = lines[1].figures().unwrap();
    assert_eq!(native.against, [("native", 1.0)].into(), "a broken baseline is none");
}

#[test]
fn targets_are_compared_within_a_setting() {
    let runs = [("plain", 8, 40), ("mongotx", 8, 30), ("native", 8, 20), ("mongotx", 32, 90)];
    let lines = lines(runs.map(|(target, clients, committed)| run_result(target, clients, 1, committed)).into());
    let against = |at: usize| lines[at].figures().unwrap().against.clone();
    assert_eq!(against(1), [("plain", 0.75), ("native", 1.5)].into());
    assert_eq!(against(3), [].into(), "no baseline with 32 clients");
}

#[test]
fn tpmc_is_new_orders_a_minute_where_the_transactions_are_tpccs() {
    let tpcc = lines(vec![run_result("plain", 8, 1, 10)]);
    assert_eq!(tpcc[0].figures().unwrap().tpmc.unwrap().median, 600.0);
    let mut other = run_result("plain", 8, 1, 10);
    other.counts.kinds.remove("stock-level");
    let tpcc = lines(vec![other.clone()]);
    assert_eq!(tpcc[0].figures().unwrap().tpmc.unwrap().median, 600.0, "a run too short for rare kinds");
    other.counts.kinds.insert("refund".to_owned(), KindCounts::default());
    assert!(lines(vec![other])[0].figures().unwrap().tpmc.is_none());
}

#[test]
fn kinds_have_their_own_latency_share_and_conflicts() {
    let mut one = run_result("plain", 8, 1, 10);
    let orders = one.counts.kinds.get_mut("new-order").unwrap();
    (orders.rolled_back, orders.given_up) = (3, 2);
    orders.conflicts = [("write conflict".to_owned(), 25)].into();
    let lines = lines(vec![one]);
    let figures = lines[0].figures().unwrap();
    let [orders, levels] = &figures.kinds[..] else { panic!("{:?}", figures.kinds) };
    assert_eq!((orders.kind.as_str(), orders.rolled_back, orders.given_up), ("new-order", 3, 2));
    close(orders.p50_ms, 2.0);
    close(levels.p50_ms, 4.0);
    assert_eq!((orders.share_percent, orders.conflicts_percent), (50.0, 20.0));
    assert_eq!((levels.conflicts_percent, figures.given_up), (0.0, 2));
    close(figures.conflicts_percent, 100.0 * 25.0 / 225.0);
}

#[test]
fn run_without_a_commit_has_no_figures_by_transaction() {
    let lines = lines(vec![fake::empty("w", "plain", 1, 1, 10.0)]);
    let figures = lines[0].figures().unwrap();
    assert_eq!((figures.rate.median, figures.server_cpu_ms_per_tx, figures.per_operation(1.0)), (0.0, None, None));
}

#[test]
fn workloads_stay_together_in_the_order_of_their_first_run() {
    let mut other = run_result("plain", 8, 1, 10);
    other.workload = "v".to_owned();
    let lines = lines(vec![run_result("plain", 8, 1, 10), other, run_result("plain", 1, 1, 10)]);
    let order = lines.iter().map(|line| (line.setting.workload.as_str(), line.setting.clients));
    assert_eq!(order.collect::<Vec<_>>(), [("w", 8), ("w", 1), ("v", 8)]);
}

#[test]
fn every_line_of_a_large_result_has_figures_or_a_reason() {
    let summary = Summary::of(&fake::realistic());
    assert_eq!(summary.lines.len(), 2 * 3 * 4);
    let broken: Vec<(&str, u32, &str)> =
        summary.broken().map(|(line, reason)| (line.target.as_str(), line.setting.clients, reason)).collect();
    let [("plain", 32, reason)] = broken[..] else { panic!("{broken:?}") };
    assert!(reason.starts_with("in 3 of 3 rounds: 1000 accounts"), "{reason}");
    for figures in summary.lines.iter().filter_map(Line::figures) {
        assert!(figures.p50_ms <= figures.p95_ms && figures.p99_ms <= figures.max_ms);
    }
}
