//! The chart of latency by kind of transaction (paper 000, figure 13), where a workload has
//! several.

use super::{Latency, by_setting, setting, short};
use crate::report::{
    html::chart::{Bar, Figure, Part, Plot, View},
    summary::{KindFigures, Line, distinct},
};

/// Latencies of transactions of one kind.
const LATENCIES: [Latency<KindFigures>; 3] = [
    Latency { name: "mean", of: |kind| kind.mean_ms },
    Latency { name: "p95", of: |kind| kind.p95_ms },
    Latency { name: "p99", of: |kind| kind.p99_ms },
];

/// The figure of these lines, of one workload; without views where there is one kind.
pub fn figure(lines: &[&Line]) -> Figure {
    let names = distinct(lines.iter().filter_map(|line| line.figures()).flat_map(|f| f.kinds.iter().map(|k| &k.kind)));
    let mut views = Vec::new();
    if names.len() > 1 {
        for (setting_of, lines) in by_setting(lines) {
            for latency in &LATENCIES {
                let label = format!("{}, {}", setting(setting_of), latency.name);
                views.push(View { label, plot: plot(&lines, &names, latency) });
            }
        }
    }
    Figure {
        title: "Latency by kind of transaction".to_owned(),
        about: "From the first attempt to the acknowledged commit.".to_owned(),
        views,
    }
}

fn plot(lines: &[&Line], names: &[&String], latency: &Latency<KindFigures>) -> Plot {
    let label = format!("{} latency, ms", latency.name);
    let bar = |line: &Line, name: &str| {
        let found = line.figures().and_then(|figures| figures.kinds.iter().find(|kind| kind.kind == name));
        let broken = line.outcome.as_ref().err().cloned();
        if found.is_none() && broken.is_none() {
            return None;
        }
        let note = found.map_or_else(String::new, |kind| {
            format!("conflicts: {:.2} %, given up: {}", kind.conflicts_percent, kind.given_up)
        });
        let values = vec![found.map_or(0.0, |kind| short((latency.of)(kind)))];
        Some(Bar { target: line.target.clone(), group: name.to_owned(), values, note, broken })
    };
    let bars = names.iter().flat_map(|name| lines.iter().filter_map(|line| bar(line, name)).collect::<Vec<_>>());
    let part = Part { name: label.clone(), colour: None };
    Plot::Bars { label, bars: bars.collect(), parts: vec![part] }
}
