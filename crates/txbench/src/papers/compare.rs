//! Results in a sentence: each target's throughput or latency against the first target's.

use benchkit::report::summary::{Figures, Line, Summary, distinct};

/// The metric that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Mean latency of a transaction.
    MeanLatency,
    /// The highest throughput, whatever the number of clients.
    PeakThroughput,
    /// Number of commands for each operation.
    CommandsPerOperation,
    /// Number of commands for each transaction.
    CommandsPerTransaction,
}

impl Metric {
    fn name(self) -> &'static str {
        match self {
            Self::MeanLatency => "Mean latency",
            Self::PeakThroughput => "Highest throughput",
            Self::CommandsPerOperation => "Commands for each operation",
            Self::CommandsPerTransaction => "Commands for each transaction",
        }
    }

    fn of(self, figures: &Figures) -> Option<f64> {
        match self {
            Self::MeanLatency => Some(figures.mean_ms),
            Self::PeakThroughput => Some(figures.rate.median),
            Self::CommandsPerOperation => figures.per_operation(figures.commands_in_all_per_tx()),
            Self::CommandsPerTransaction => Some(figures.commands_in_all_per_tx()),
        }
    }

    /// The most of all numbers of clients.
    fn most<'a>(self, lines: impl Iterator<Item = &'a Line>) -> Option<f64> {
        lines.filter_map(|line| self.of(line.figures()?)).filter(|value| *value > 0.0).max_by(f64::total_cmp)
    }
}

/// "Mean latency here, plain = 1. mongotx: update-heavy 1.52, read-only 1.01." `None` where nothing
/// can be compared.
pub(super) fn sentence(summary: &Summary, baseline: &str, metric: Metric) -> Option<String> {
    let targets = distinct(summary.lines.iter().map(|line| line.target.as_str()));
    let others = targets.into_iter().filter(|target| *target != baseline);
    let said: Vec<String> = others.filter_map(|target| of_target(summary, baseline, metric, target)).collect();
    if said.is_empty() { None } else { Some(format!("{} here, {baseline} = 1. {}", metric.name(), said.join(" "))) }
}

fn of_target(summary: &Summary, baseline: &str, metric: Metric, target: &str) -> Option<String> {
    let of = |workload: &str| {
        let most = |name: &str| metric.most(summary.of_workload(workload).filter(|line| line.target == name));
        Some(format!("{workload} {:.2}", most(target)? / most(baseline)?))
    };
    let each: Vec<String> = summary.workloads().into_iter().filter_map(of).collect();
    if each.is_empty() { None } else { Some(format!("{target}: {}.", each.join(", "))) }
}
