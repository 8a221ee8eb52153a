//! Latency by percentile, up to the last percentile for which there are enough transactions.

use super::{by_setting, by_target, setting, short};
use crate::{
    measure::Latencies,
    report::{
        html::chart::{Axis, Figure, Plot, Point, Scale, Series, View},
        summary::Line,
    },
};

const PERCENTILES: [f64; 21] = [
    0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 85.0, 90.0, 95.0, 97.0, 98.0, 99.0, 99.5, 99.7, 99.9, 99.95,
    99.97, 99.99,
];

/// The figure of these lines, of one workload.
pub fn figure(lines: &[&Line]) -> Figure {
    let view = |(setting_of, lines): (_, Vec<&Line>)| View { label: setting(setting_of), plot: plot(&lines) };
    Figure {
        title: "Latency by percentile".to_owned(),
        about: "So many percent of the transactions took no longer than this; all rounds together.".to_owned(),
        views: by_setting(lines).into_iter().rev().map(view).collect(),
    }
}

fn plot(lines: &[&Line]) -> Plot {
    let series = |line: &&Line| {
        let mut series = by_target(&[line], |_| Some(Point::default())).pop()?;
        series.points = curve(&line.figures()?.latencies);
        Some(series)
    };
    let series: Vec<Series> = lines.iter().filter_map(series).filter(|series| !series.points.is_empty()).collect();
    let x = Axis::new("percent of transactions", Scale::Percentile);
    Plot::Lines { x, y: Axis::new("latency of a transaction, ms", Scale::Log), series }
}

fn curve(latencies: &Latencies) -> Vec<Point> {
    // One transaction at least lies beyond the percentile.
    let is_measured = |percent: &f64| latencies.count() as f64 * (100.0 - percent) >= 100.0 * (1.0 - 1e-9);
    let point =
        |percent: f64| Point { x: percent, y: short(latencies.quantile_ms(percent / 100.0)), ..Point::default() };
    PERCENTILES.into_iter().filter(is_measured).map(point).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn curve_ends_where_no_transaction_lies_beyond() {
        let mut latencies = Latencies::new();
        (1..=100).for_each(|ms| latencies.note(Duration::from_millis(ms)));
        let last = curve(&latencies).pop().expect("a curve");
        assert!((last.x, (last.y - 99.0).abs() < 0.1) == (99.0, true), "{last:?}");
        assert!(curve(&Latencies::new()).is_empty());
    }
}
