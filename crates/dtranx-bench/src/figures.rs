//! Figures of one store's runs. They are medians of the rounds.

use serde::Serialize;

use crate::{
    measure::{Counted, Figures, Plan, Sample},
    workload::{Distribution, Shape},
};

/// Figures of one store under one plan.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) servers: u16,
    pub(crate) shape: &'static str,
    pub(crate) distribution: &'static str,
    pub(crate) reads_percent: Option<u8>,
    pub(crate) in_flight: u32,
    pub(crate) rounds: Vec<Round>,
}

/// Figures of one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Round {
    pub(crate) per_second: f64,
    pub(crate) success: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) p99_ms: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) samples: Vec<Sample>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) counted: Option<Counted>,
}

/// Figures of one server that was killed after so much was written.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Restart {
    pub(crate) name: &'static str,
    /// Size of the values written, in MiB.
    pub(crate) written_mib: u32,
    /// The log's segments before it was killed first.
    pub(crate) log_bytes: u64,
    /// Time from the start to the first answer in milliseconds, round by round.
    pub(crate) rounds_ms: Vec<f64>,
}

/// Measured passages of one kind of event.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Passed {
    pub(crate) name: &'static str,
    /// Events that passed one queue in a second, round by round.
    pub(crate) rounds_per_second: Vec<f64>,
}

impl Row {
    /// A row without any round yet.
    pub(crate) fn new(name: &'static str, servers: u16, plan: Plan) -> Self {
        let shape = plan.mix.shape.name();
        let reads_percent = (plan.mix.shape == Shape::Paper).then_some(plan.mix.reads);
        let distribution = match plan.mix.distribution {
            Distribution::Uniform => "uniform",
            Distribution::Zipfian => "zipfian",
        };
        Self { name, servers, shape, distribution, reads_percent, in_flight: plan.in_flight, rounds: Vec::new() }
    }

    /// Work of a transaction, in words.
    pub(crate) fn work(&self) -> String {
        self.reads_percent.map_or_else(|| self.shape.to_owned(), |reads| format!("{reads} % reads"))
    }

    /// Title of the row, in words.
    pub(crate) fn title(&self) -> String {
        let servers = if self.servers == 1 { "1 server".to_owned() } else { format!("{} servers", self.servers) };
        format!("{}, {servers}, {}, {}, {} in flight", self.name, self.work(), self.distribution, self.in_flight)
    }

    /// Adds one more round.
    pub(crate) fn add(&mut self, figures: Figures) {
        let ms = |quantile: f64| figures.latency_ns.value_at_quantile(quantile) as f64 / 1_000_000.0;
        self.rounds.push(Round {
            per_second: figures.per_second,
            success: figures.success,
            p50_ms: ms(0.5),
            p95_ms: ms(0.95),
            p99_ms: ms(0.99),
            samples: figures.samples,
            counted: figures.counted,
        });
    }

    /// The median over the rounds.
    pub(crate) fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }

    /// The least and the most transactions per second.
    pub(crate) fn range(&self) -> (f64, f64) {
        let all = self.rounds.iter().map(|round| round.per_second);
        (all.clone().fold(f64::INFINITY, f64::min), all.fold(0.0, f64::max))
    }
}

/// The median; 0 of nothing.
pub(crate) fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    match all.len() {
        0 => 0.0,
        many if many % 2 == 1 => all[many / 2],
        many => f64::midpoint(all[many / 2 - 1], all[many / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_one_in_the_middle_or_between_the_two() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
