//! Throughput against latency: a line for each target over its numbers of clients (paper 000,
//! figure 10).

use super::{LATENCIES, Latency, Unit, by_target, setting, short};
use crate::report::{
    html::chart::{Axis, Figure, Plot, Point, Scale, View},
    summary::{Figures, Line},
};

/// The figure of these lines, of one workload.
pub fn figure(lines: &[&Line]) -> Figure {
    let units = Unit::all(lines);
    let unit = units[0];
    let view = |latency: &Latency<Figures>| View {
        label: format!("{} latency", latency.name),
        plot: plot(lines, unit, latency),
    };
    Figure {
        title: "Throughput against latency".to_owned(),
        about: "A point for each number of clients, joined in their order. Below and to the right is better."
            .to_owned(),
        views: LATENCIES.iter().map(view).collect(),
    }
}

fn plot(lines: &[&Line], unit: Unit, latency: &Latency<Figures>) -> Plot {
    let point = |line: &Line| {
        let figures = line.figures()?;
        let conflicts = format!("conflicts: {:.2} %", figures.conflicts_percent);
        Some(Point {
            x: short(unit.of(figures).median),
            y: short((latency.of)(figures)),
            note: format!("{}\n{conflicts}", setting(&line.setting)),
            ..Point::default()
        })
    };
    Plot::Lines {
        x: Axis::new(unit.label(), Scale::Linear),
        y: Axis::new(format!("{} latency of a transaction, ms", latency.name), Scale::Log),
        series: by_target(lines, point),
    }
}
