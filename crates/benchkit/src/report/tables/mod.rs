//! The tables of a benchmark: the figures of each workload, those by kind of transaction, the
//! commands sent.

mod cells;
mod commands;
mod figures;
mod kinds;
#[cfg(test)]
mod tests;

use super::{
    result::BenchResult,
    summary::Summary,
    table::{Report, Table},
};

/// The report of a result, in words.
pub fn report(result: &BenchResult) -> Report {
    let mut facts = vec![format!("Command: {}", result.command)];
    facts.extend(result.facts.iter().cloned());
    Report { facts, tables: all(&Summary::of(result)) }
}

/// The tables of every workload, one workload after the other.
pub fn all(summary: &Summary) -> Vec<Table> {
    summary.workloads().into_iter().flat_map(|workload| of_workload(summary, workload)).collect()
}

/// The tables of one workload.
pub fn of_workload(summary: &Summary, workload: &str) -> Vec<Table> {
    let mut tables = vec![figures::table(summary, workload)];
    tables.extend(kinds::table(summary, workload));
    tables.extend(commands::table(summary, workload));
    tables
}
