//! Throughput over the number of clients, with the spread of the rounds.

use super::{Unit, by_target, setting, short};
use crate::report::{
    html::chart::{Axis, Figure, Plot, Point, Scale, View},
    summary::{Line, distinct},
};

/// The figure of these lines, of one workload; without views where there is one number of clients.
pub fn figure(lines: &[&Line]) -> Figure {
    let mut clients = distinct(lines.iter().map(|line| line.setting.clients));
    clients.sort_unstable();
    let view = |unit: Unit| View { label: unit.label().to_owned(), plot: plot(lines, unit, &clients) };
    let views = if clients.len() > 1 { Unit::all(lines).into_iter().map(view).collect() } else { Vec::new() };
    Figure {
        title: "Scaling over clients".to_owned(),
        about: "Medians; the upright lines reach from the least to the most of the rounds.".to_owned(),
        views,
    }
}

fn plot(lines: &[&Line], unit: Unit, clients: &[u32]) -> Plot {
    let point = |line: &Line| {
        let x = f64::from(line.setting.clients);
        Some(match &line.outcome {
            Err(reason) => Point { x, broken: Some(reason.clone()), ..Point::default() },
            Ok(figures) => {
                let spread = unit.of(figures);
                let several = line.rounds > 1;
                Point {
                    x,
                    y: short(spread.median),
                    least: several.then_some(short(spread.least)),
                    most: several.then_some(short(spread.most)),
                    note: setting(&line.setting),
                    broken: None,
                }
            }
        })
    };
    let ticks = clients.iter().map(|clients| f64::from(*clients)).collect();
    let x = Axis { label: "clients".to_owned(), scale: Scale::Log, ticks };
    Plot::Lines { x, y: Axis::new(unit.label(), Scale::Linear), series: by_target(lines, point) }
}
