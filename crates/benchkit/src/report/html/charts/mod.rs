//! The charts of a workload, a file for each kind: what their bars, lines and axes are. Their data
//! is in `super::chart`; the page's script draws them.

mod commands;
mod kinds;
mod latency;
mod over_time;
mod percentiles;
mod scaling;
mod throughput_latency;

use super::chart::{Figure, Point, Series};
use crate::report::{
    result::RunResult,
    summary::{Figures, Line, Setting, Summary, distinct},
};

/// The figures of one workload, those left out that would be empty.
pub fn of_workload(summary: &Summary, runs: &[RunResult], workload: &str) -> Vec<Figure> {
    let lines: Vec<&Line> = summary.of_workload(workload).collect();
    let runs: Vec<&RunResult> = runs.iter().filter(|run| run.workload == workload).collect();
    let all = [
        throughput_latency(&lines),
        percentiles(&lines),
        commands(&lines),
        over_time::figure(&runs),
        scaling(&lines),
        kinds(&lines),
    ];
    all.into_iter().filter(Figure::has_figures).collect()
}

pub use self::{
    commands::figure as commands, kinds::figure as kinds, latency::figure as latency,
    percentiles::figure as percentiles, scaling::figure as scaling, throughput_latency::figure as throughput_latency,
};

/// Unit in which throughput is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Operations,
    Transactions,
    NewOrders,
}

/// A latency that charts show of the figures `F`.
struct Latency<F> {
    /// Name of the latency on the page.
    name: &'static str,
    /// The latency in milliseconds.
    of: fn(&F) -> f64,
}

/// Latencies of transactions of every kind.
const LATENCIES: [Latency<Figures>; 4] = [
    Latency { name: "mean", of: |figures| figures.mean_ms },
    Latency { name: "p50", of: |figures| figures.p50_ms },
    Latency { name: "p95", of: |figures| figures.p95_ms },
    Latency { name: "p99", of: |figures| figures.p99_ms },
];

impl Unit {
    /// The units that are meaningful for these lines, the most telling first.
    fn all(lines: &[&Line]) -> Vec<Self> {
        let any = |is: fn(&Figures) -> bool| lines.iter().filter_map(|line| line.figures()).any(is);
        let mut units = Vec::new();
        if any(|figures| figures.tpmc.is_some()) {
            units.push(Self::NewOrders);
        } else if any(|figures| figures.operations_rate != figures.rate && figures.operations_rate.median > 0.0) {
            units.push(Self::Operations);
        }
        units.push(Self::Transactions);
        units
    }

    fn label(self) -> &'static str {
        match self {
            Self::Operations => "operations per second",
            Self::Transactions => "transactions per second",
            Self::NewOrders => "new orders per minute (tpmC)",
        }
    }

    fn of(self, figures: &Figures) -> crate::report::spread::Spread {
        match self {
            Self::Operations => figures.operations_rate,
            Self::Transactions => figures.rate,
            Self::NewOrders => figures.tpmc.unwrap_or(figures.rate),
        }
    }
}

/// A line for each target, its points in the order of clients and rates.
fn by_target(lines: &[&Line], point: impl Fn(&Line) -> Option<Point>) -> Vec<Series> {
    let mut sorted = lines.to_vec();
    sorted.sort_by(|one, other| {
        let rate = |line: &Line| line.setting.asked_rate.unwrap_or(f64::INFINITY);
        one.setting.clients.cmp(&other.setting.clients).then(rate(one).total_cmp(&rate(other)))
    });
    let series = |target: &str| Series {
        target: target.to_owned(),
        name: target.to_owned(),
        dashed: false,
        points: sorted.iter().filter(|line| line.target == target).filter_map(|line| point(line)).collect(),
    };
    let targets = distinct(lines.iter().map(|line| line.target.as_str()));
    targets.into_iter().map(series).filter(|series| !series.points.is_empty()).collect()
}

/// A setting in words: "8 clients in 2 processes, 500 tx/s asked".
fn setting(setting: &Setting) -> String {
    let mut text = match setting.clients {
        1 => "1 client".to_owned(),
        clients => format!("{clients} clients"),
    };
    if setting.processes > 1 {
        text += &format!(" in {} processes", setting.processes);
    }
    if let Some(rate) = setting.asked_rate {
        text += &format!(", {rate} tx/s asked");
    }
    text
}

/// The settings of these lines with the lines of each; the one with the fewest clients first.
fn by_setting<'a>(lines: &[&'a Line]) -> Vec<(&'a Setting, Vec<&'a Line>)> {
    let mut settings = distinct(lines.iter().map(|line| &line.setting));
    settings.sort_by_key(|setting| setting.clients);
    let of = |setting: &Setting| lines.iter().copied().filter(|line| line.setting == *setting).collect();
    settings.into_iter().map(|setting| (setting, of(setting))).collect()
}

/// The differences between these lines besides their targets: the workload where there are several,
/// the setting where there are.
fn heading(lines: &[&Line]) -> impl Fn(&Line) -> String {
    let several_workloads = distinct(lines.iter().map(|line| &line.setting.workload)).len() > 1;
    let several_settings = distinct(lines.iter().map(|line| setting(&line.setting))).len() > 1;
    move |line| match (several_workloads, several_settings) {
        (true, true) => format!("{}, {}", line.setting.workload, setting(&line.setting)),
        (true, false) => line.setting.workload.clone(),
        (false, _) => setting(&line.setting),
    }
}

/// A number as short as a chart needs it.
fn short(n: f64) -> f64 {
    if n == 0.0 || !n.is_finite() {
        return 0.0;
    }
    let factor = 10_f64.powi(5 - n.abs().log10().floor() as i32);
    (n * factor).round() / factor
}
