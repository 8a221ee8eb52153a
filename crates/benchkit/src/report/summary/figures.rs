//! The figures of one target in one setting: medians over its rounds.

use std::collections::BTreeMap;

use super::{KindFigures, distinct, kinds};
use crate::{
    measure::Latencies,
    report::{
        result::RunResult,
        spread::{Spread, median},
    },
};

/// TPC-C's transaction whose number a minute is the throughput, tpmC (clause 5.4).
const NEW_ORDER: &str = "new-order";
/// TPC-C's other transactions. New orders beside anything else are not TPC-C's.
const OTHERS: [&str; 4] = ["payment", "order-status", "delivery", "stock-level"];

/// Medians over rounds. What is divided by committed transactions is `None` where none was
/// committed.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Number of committed transactions in a second.
    pub rate: Spread,
    /// Operations of committed transactions a second, as the workload counts them.
    pub operations_rate: Spread,
    /// Committed new orders a minute, where the transactions are TPC-C's. Those that the workload
    /// rolls back on purpose are not among them.
    pub tpmc: Option<Spread>,
    /// Mean latency in milliseconds, all kinds together.
    pub mean_ms: f64,
    /// Latency that half of the transactions do not exceed.
    pub p50_ms: f64,
    /// Latency that 95 % do not exceed.
    pub p95_ms: f64,
    /// Latency that 99 % do not exceed.
    pub p99_ms: f64,
    /// The longest latency of all rounds.
    pub max_ms: f64,
    /// The latencies of all rounds together, for curves.
    pub latencies: Latencies,
    /// Figures by kind of transaction, in the order of their names.
    pub kinds: Vec<KindFigures>,
    /// Commands sent for each committed transaction, by name.
    pub commands_per_tx: BTreeMap<String, f64>,
    /// Operations of one committed transaction.
    pub operations_per_tx: Option<f64>,
    /// Processor time of the servers for each committed transaction, in milliseconds.
    pub server_cpu_ms_per_tx: Option<f64>,
    /// Processor time of the client processes, likewise.
    pub client_cpu_ms_per_tx: Option<f64>,
    /// Bytes that the servers wrote for each committed transaction.
    pub written_bytes_per_tx: Option<f64>,
    /// Attempts that a rival ended, in percent of all attempts.
    pub conflicts_percent: f64,
    /// Transactions given up, in all rounds.
    pub given_up: u64,
    /// Throughput divided by that of a baseline, by its name, where it was measured in the same
    /// setting.
    pub against: BTreeMap<&'static str, f64>,
}

impl Figures {
    /// The figures of these rounds, none of them broken; `None` without rounds.
    pub fn of(runs: &[&RunResult]) -> Option<Self> {
        let spread = |figure: fn(&RunResult) -> f64| Spread::of(runs.iter().map(|run| figure(run)));
        let each: Vec<Latencies> = runs.iter().map(|run| run.counts.latencies()).collect();
        let latency = |of: &dyn Fn(&Latencies) -> f64| median(each.iter().map(of)).unwrap_or_default();
        let mut latencies = Latencies::new();
        each.iter().for_each(|round| latencies.add(round));
        Some(Self {
            rate: spread(RunResult::rate)?,
            operations_rate: spread(RunResult::operations_rate)?,
            tpmc: tpmc(runs),
            mean_ms: latency(&Latencies::mean_ms),
            p50_ms: latency(&|round| round.quantile_ms(0.50)),
            p95_ms: latency(&|round| round.quantile_ms(0.95)),
            p99_ms: latency(&|round| round.quantile_ms(0.99)),
            max_ms: latencies.max_ms(),
            latencies,
            kinds: kinds::all(runs),
            commands_per_tx: commands(runs),
            operations_per_tx: per_tx(runs, |run| Some(run.counts.operations as f64)),
            server_cpu_ms_per_tx: per_tx(runs, |run| run.used.server_cpu_us.map(|us| us as f64 / 1_000.0)),
            client_cpu_ms_per_tx: per_tx(runs, |run| run.used.client_cpu_us.map(|us| us as f64 / 1_000.0)),
            written_bytes_per_tx: per_tx(runs, |run| run.used.server_written_bytes.map(|bytes| bytes as f64)),
            conflicts_percent: spread(RunResult::conflicts_percent)?.median,
            given_up: runs.iter().flat_map(|run| run.counts.kinds.values()).map(|kind| kind.given_up).sum(),
            against: BTreeMap::new(),
        })
    }

    /// Commands of all kinds that were sent for each committed transaction.
    pub fn commands_in_all_per_tx(&self) -> f64 {
        self.commands_per_tx.values().sum()
    }

    /// A number for each transaction as one for each operation; `None` where the workload counts no
    /// operations.
    pub fn per_operation(&self, per_tx: f64) -> Option<f64> {
        self.operations_per_tx.filter(|operations| *operations > 0.0).map(|operations| per_tx / operations)
    }
}

/// The median of what rounds used for each committed transaction; `None` where a round does not
/// know, or where none committed anything.
fn per_tx(runs: &[&RunResult], used: impl Fn(&RunResult) -> Option<f64>) -> Option<f64> {
    let committed = runs.iter().filter(|run| run.counts.committed() > 0);
    let each: Option<Vec<f64>> = committed.map(|run| Some(run.per_transaction(used(run)?))).collect();
    median(each?)
}

fn commands(runs: &[&RunResult]) -> BTreeMap<String, f64> {
    let names = distinct(runs.iter().flat_map(|run| run.commands.keys()));
    let sent = |run: &RunResult, name: &String| run.commands.get(name).map_or(0.0, |count| *count as f64);
    let each = names.into_iter().map(|name| (name.clone(), per_tx(runs, |run| Some(sent(run, name)))));
    each.filter_map(|(name, count)| Some((name, count?))).collect()
}

fn tpmc(runs: &[&RunResult]) -> Option<Spread> {
    let is_tpcc = |kind: &String| kind == NEW_ORDER || OTHERS.contains(&kind.as_str());
    let mut kinds = runs.iter().flat_map(|run| run.counts.kinds.keys()).peekable();
    let all_are_tpccs = kinds.peek().is_some() && kinds.all(is_tpcc);
    let orders = |run: &RunResult| run.counts.kinds.get(NEW_ORDER).map_or(0, |kind| kind.latencies.count());
    let minute = |run: &&RunResult| orders(run) as f64 * 60.0 / run.seconds;
    if all_are_tpccs { Spread::of(runs.iter().map(minute)) } else { None }
}
