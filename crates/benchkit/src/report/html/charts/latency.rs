//! Latency of transactions, a bar for each target (paper 000, figure 9).

use super::{LATENCIES, Latency, by_setting, heading, short};
use crate::report::{
    html::chart::{Bar, Figure, Part, Plot, View},
    summary::{Figures, Line},
};

/// The figure of these lines, of one workload or several.
pub fn figure(lines: &[&Line]) -> Figure {
    let view = |latency: &Latency<Figures>| View { label: latency.name.to_owned(), plot: plot(lines, latency) };
    Figure {
        title: "Latency".to_owned(),
        about: "Of a transaction, from the first attempt to the acknowledged commit.".to_owned(),
        views: LATENCIES.iter().map(view).collect(),
    }
}

fn plot(lines: &[&Line], latency: &Latency<Figures>) -> Plot {
    let heading = heading(lines);
    let bar = |line: &&Line| Bar {
        target: line.target.clone(),
        group: heading(line),
        values: vec![line.figures().map_or(0.0, |figures| short((latency.of)(figures)))],
        note: line
            .figures()
            .map_or_else(String::new, |figures| format!("conflicts: {:.2} %", figures.conflicts_percent)),
        broken: line.outcome.as_ref().err().cloned(),
    };
    let bars = by_setting(lines).iter().flat_map(|(_, lines)| lines.iter().map(bar).collect::<Vec<_>>()).collect();
    let label = format!("{} latency of a transaction, ms", latency.name);
    Plot::Bars { parts: vec![Part { name: label.clone(), colour: None }], label, bars }
}
