//! The figures of one kind of transaction, over all rounds. Those of a line as a whole are in
//! `figures`.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    measure::{KindCounts, Latencies},
    report::{
        result::RunResult,
        spread::{Spread, median},
    },
};

/// Medians over the rounds in which transactions of this kind committed; counts over all rounds.
#[derive(Clone, Debug)]
pub struct KindFigures {
    /// Name of the kind: "new-order", "read", …
    pub kind: String,
    /// Number of committed transactions in a second.
    pub rate: Spread,
    /// Part of all committed transactions that are of the kind, in percent.
    pub share_percent: f64,
    /// Mean of the latencies, in milliseconds.
    pub mean_ms: f64,
    /// Latency that half of them do not exceed.
    pub p50_ms: f64,
    /// Latency that 95 % do not exceed.
    pub p95_ms: f64,
    /// Latency that 99 % do not exceed.
    pub p99_ms: f64,
    /// The longest latency of all rounds.
    pub max_ms: f64,
    /// Attempts that a rival ended, by reason.
    pub conflicts: BTreeMap<String, u64>,
    /// Conflicts, in percent of all attempts of this kind.
    pub conflicts_percent: f64,
    /// Number of transactions rolled back because the workload wants it so.
    pub rolled_back: u64,
    /// Number of transactions that were given up.
    pub given_up: u64,
}

/// The figures of every kind, in the order of their names.
pub(super) fn all(runs: &[&RunResult]) -> Vec<KindFigures> {
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.counts.kinds.keys()).collect();
    names.into_iter().filter_map(|name| KindFigures::of(name, runs)).collect()
}

impl KindFigures {
    fn of(kind: &str, runs: &[&RunResult]) -> Option<Self> {
        let rounds: Vec<(&RunResult, &KindCounts)> =
            runs.iter().filter_map(|run| Some((*run, run.counts.kinds.get(kind)?))).collect();
        let seen: Vec<&Latencies> = rounds.iter().map(|(_, counts)| &counts.latencies).collect();
        let some: Vec<&Latencies> = seen.iter().copied().filter(|latencies| latencies.count() > 0).collect();
        let latency = |of: &dyn Fn(&Latencies) -> f64| median(some.iter().map(|one| of(one))).unwrap_or_default();
        let committed: u64 = seen.iter().map(|latencies| latencies.count()).sum();
        let conflicts = conflicts(&rounds);
        let ended: u64 = conflicts.values().sum();
        let total: u64 = runs.iter().map(|run| run.counts.committed()).sum();
        Some(Self {
            kind: kind.to_owned(),
            rate: Spread::of(rounds.iter().map(|(run, counts)| counts.latencies.count() as f64 / run.seconds))?,
            share_percent: percent(committed, total),
            mean_ms: latency(&Latencies::mean_ms),
            p50_ms: latency(&|round| round.quantile_ms(0.50)),
            p95_ms: latency(&|round| round.quantile_ms(0.95)),
            p99_ms: latency(&|round| round.quantile_ms(0.99)),
            max_ms: seen.iter().map(|latencies| latencies.max_ms()).fold(0.0, f64::max),
            conflicts_percent: percent(ended, ended + committed),
            conflicts,
            rolled_back: rounds.iter().map(|(_, counts)| counts.rolled_back).sum(),
            given_up: rounds.iter().map(|(_, counts)| counts.given_up).sum(),
        })
    }
}

fn conflicts(rounds: &[(&RunResult, &KindCounts)]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (reason, count) in rounds.iter().flat_map(|(_, counts)| &counts.conflicts) {
        *all.entry(reason.clone()).or_default() += count;
    }
    all
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / (whole as f64).max(1.0)
}
