//! Throughput over time, second by second, with the conflicts: a view for each setting and round.

use std::cmp::Reverse;

use super::{setting, short};
use crate::{
    measure::Second,
    report::{
        html::chart::{Axis, Figure, Plot, Point, Scale, Series, View},
        result::RunResult,
        summary::{Setting, distinct},
    },
};

/// Greatest number of views to choose from; later rounds are left out first.
const MOST_VIEWS: usize = 30;

/// The figure of these runs, of one workload.
pub(super) fn figure(runs: &[&RunResult]) -> Figure {
    let mut keys = distinct(runs.iter().map(|run| (run.round, Setting::of(run))));
    keys.sort_by_key(|(round, setting)| (*round, Reverse(setting.clients)));
    keys.truncate(MOST_VIEWS);
    let view = |(round, key): (u32, Setting)| {
        let here = runs.iter().copied().filter(|run| run.round == round && Setting::of(run) == key);
        View { label: format!("{}, round {round}", setting(&key)), plot: plot(&here.collect::<Vec<_>>()) }
    };
    Figure {
        title: "Throughput over time".to_owned(),
        about: "Transactions committed in each second; dashed: attempts that a rival ended.".to_owned(),
        views: keys.into_iter().map(view).collect(),
    }
}

fn plot(runs: &[&RunResult]) -> Plot {
    let sound = runs.iter().filter(|run| run.broken.is_none());
    let series = sound.flat_map(|run| {
        let name = format!("{}, conflicts", run.target);
        let committed = series(run, run.target.clone(), |second| second.committed);
        let conflicts = Series { dashed: true, ..series(run, name, |second| second.conflicts) };
        [Some(committed), Some(conflicts).filter(|line| line.points.iter().any(|point| point.y > 0.0))]
    });
    Plot::Lines {
        x: Axis::new("second of the measurement", Scale::Linear),
        y: Axis::new("per second", Scale::Linear),
        series: series.flatten().filter(|line| !line.points.is_empty()).collect(),
    }
}

fn series(run: &RunResult, name: String, of: fn(&Second) -> u64) -> Series {
    // A second that is not over yet would look like a drop.
    let full = (run.seconds + 0.02).floor().max(1.0) as usize;
    let seconds = run.counts.seconds.iter().take(full);
    let points = seconds.enumerate().map(|(at, second)| Point {
        x: (at + 1) as f64,
        y: short(of(second) as f64),
        ..Point::default()
    });
    Series { target: run.target.clone(), name, dashed: false, points: points.collect() }
}
