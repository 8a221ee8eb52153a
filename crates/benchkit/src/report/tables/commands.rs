//! The third table: the commands that a transaction and an operation cost, by kind of command.

use super::cells::{Head, known};
use crate::report::{
    summary::{Figures, Line, Summary},
    table::{Column, Row, Table},
};

/// Number of kinds of commands with a column of their own; the rarest are added up.
const MOST_COLUMNS: usize = 8;
const NOTES: &str = "\
Everything that was sent while it was measured, attempts that failed and work after the answer included, divided by committed
transactions; \"/op\": all of it divided by the operations of these.";

/// The table of one workload; `None` where nothing was sent, or no line has figures.
pub(super) fn table(summary: &Summary, workload: &str) -> Option<Table> {
    let names = by_frequency(summary, workload);
    if names.is_empty() {
        return None;
    }
    let (own, others) = names.split_at(names.len().min(MOST_COLUMNS));
    let head = Head::of(summary, workload);
    let mut columns = head.columns();
    columns.extend(["/tx", "/op"].map(Column::number));
    columns.extend(own.iter().map(Column::number));
    columns.extend((!others.is_empty()).then(|| Column::number("others")));
    let row = |line: &Line| match &line.outcome {
        Err(reason) => head.broken(line, reason),
        Ok(figures) => {
            let mut cells = head.cells(line);
            cells.extend(cells_of(figures, own, others));
            Row::from(cells)
        }
    };
    let rows = summary.of_workload(workload).map(row).collect();
    Some(Table { title: format!("{workload}, commands"), columns, rows, notes: NOTES.to_owned() })
}

fn cells_of(figures: &Figures, own: &[String], others: &[String]) -> Vec<String> {
    let sent = |name: &String| figures.commands_per_tx.get(name).copied();
    let in_all = figures.commands_in_all_per_tx();
    let mut cells = vec![two(in_all), known(figures.per_operation(in_all), two)];
    cells.extend(own.iter().map(|name| sent(name).map_or_else(String::new, two)));
    cells.extend((!others.is_empty()).then(|| two(others.iter().filter_map(sent).fold(0.0, |all, one| all + one))));
    cells
}

fn two(n: f64) -> String {
    format!("{n:.2}")
}

/// The names of all commands, those first that are sent most.
pub(crate) fn by_frequency(summary: &Summary, workload: &str) -> Vec<String> {
    let mut total = std::collections::BTreeMap::<&String, f64>::new();
    for (name, count) in
        summary.of_workload(workload).filter_map(Line::figures).flat_map(|figures| &figures.commands_per_tx)
    {
        *total.entry(name).or_default() += count;
    }
    let mut names: Vec<(&String, f64)> = total.into_iter().collect();
    names.sort_by(|one, other| other.1.total_cmp(&one.1));
    names.into_iter().map(|(name, _)| name.clone()).collect()
}
