//! What the runs came to: a table for people, JSON for programs. Figures are medians of the rounds.

use std::{fmt::Write, path::Path};

use serde::Serialize;

use crate::{
    error::BenchError,
    measure::{Figures, Plan},
    workload::Shape,
};

/// One line of the table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    store: &'static str,
    servers: u16,
    shape: &'static str,
    distribution: &'static str,
    reads_percent: Option<u8>,
    in_flight: u32,
    rounds: Vec<Round>,
}

#[derive(Clone, Debug, Serialize)]
struct Round {
    per_second: f64,
    success: f64,
    p50_ms: f64,
    p99_ms: f64,
}

impl Row {
    /// No round yet.
    pub(crate) fn new(store: &'static str, servers: u16, plan: Plan) -> Self {
        use crate::workload::Distribution;
        let (shape, reads_percent) = match plan.mix.shape {
            Shape::Paper => ("paper", Some(plan.mix.reads)),
            Shape::Transfer => ("transfer", None),
        };
        let distribution = match plan.mix.distribution {
            Distribution::Uniform => "uniform",
            Distribution::Zipfian => "zipfian",
        };
        Self { store, servers, shape, distribution, reads_percent, in_flight: plan.in_flight, rounds: Vec::new() }
    }

    /// What it is about, without the store.
    pub(crate) fn title(&self) -> String {
        let reads = self.reads_percent.map_or_else(String::new, |reads| format!(", {reads} % reads"));
        format!("{}{reads}, {}, {} in flight", self.shape, self.distribution, self.in_flight)
    }

    /// One more round.
    pub(crate) fn add(&mut self, figures: Figures) {
        let ms = |quantile: f64| figures.latency_ns.value_at_quantile(quantile) as f64 / 1_000_000.0;
        let (per_second, success) = (figures.per_second, figures.success);
        self.rounds.push(Round { per_second, success, p50_ms: ms(0.5), p99_ms: ms(0.99) });
    }

    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        let mut all: Vec<f64> = self.rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        match all.len() {
            0 => 0.0,
            many if many % 2 == 1 => all[many / 2],
            many => f64::midpoint(all[many / 2 - 1], all[many / 2]),
        }
    }

    fn range(&self) -> (f64, f64) {
        let all = self.rounds.iter().map(|round| round.per_second);
        (all.clone().fold(f64::INFINITY, f64::min), all.fold(0.0, f64::max))
    }
}

/// The table.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = String::from("| store | servers | work | tx/s | [min-max] | p50 ms | p99 ms | success |\n");
    text.push_str("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |\n");
    for row in rows {
        let (least, most) = row.range();
        let per_second = row.median(|round| round.per_second);
        let (p50, p99) = (row.median(|round| round.p50_ms), row.median(|round| round.p99_ms));
        let success = 100.0 * row.median(|round| round.success);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {per_second:.0} | [{least:.0}-{most:.0}] | {p50:.2} | {p99:.2} | {success:.2} % |",
            row.store,
            row.servers,
            row.title()
        );
    }
    text
}

/// All figures, round by round.
pub(crate) fn write_json(file: &Path, rows: &[Row]) -> Result<(), BenchError> {
    let failed = |source| BenchError::Write { path: file.to_path_buf(), source };
    let text = serde_json::to_string_pretty(rows).map_err(|error| failed(error.into()))?;
    std::fs::write(file, text).map_err(failed)
}
