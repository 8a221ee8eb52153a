//! A result as one page with interactive charts, readable without a network.
//!
//! [`charts`] and [`mod@page`] decide what is shown; the script in `page/` only draws what it is
//! given ([`chart`]).

pub mod chart;
pub mod charts;
mod colours;
pub mod page;
#[cfg(test)]
mod tests;

use self::page::{Page, Section};
use super::{result::BenchResult, summary::Summary, tables};

/// The page of a result.
pub fn page(result: &BenchResult) -> String {
    let summary = Summary::of(result);
    let section = |workload: &str| Section {
        heading: workload.to_owned(),
        broken: broken(&summary, workload),
        figures: charts::of_workload(&summary, &result.runs, workload),
        tables: tables::of_workload(&summary, workload),
        ..Section::default()
    };
    Page {
        title: format!("Benchmark: {}", result.title),
        command: result.command.clone(),
        facts: result.facts.clone(),
        targets: summary.targets().into_iter().map(str::to_owned).collect(),
        sections: summary.workloads().into_iter().map(section).collect(),
    }
    .to_html()
}

/// The lines of a workload that have no figures, in words.
pub fn broken(summary: &Summary, workload: &str) -> Vec<String> {
    let here = summary.broken().filter(|(line, _)| line.setting.workload == workload);
    here.map(|(line, reason)| format!("{}, {} client(s): {reason}", line.target, line.setting.clients)).collect()
}
