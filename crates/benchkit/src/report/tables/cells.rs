//! Parts that all tables share: the columns that describe the run, and the format of numbers.

use crate::report::{
    spread::Spread,
    summary::{Line, Summary},
    table::{Column, Row},
};

/// The columns that identify a line of one workload.
pub(super) struct Head {
    /// True if any line had more than one client process.
    processes: bool,
    /// True if any line has a demanded rate.
    rate: bool,
}

impl Head {
    pub(super) fn of(summary: &Summary, workload: &str) -> Self {
        let lines = summary.of_workload(workload);
        Self {
            processes: lines.clone().any(|line| line.setting.processes > 1),
            rate: lines.clone().any(|line| line.setting.asked_rate.is_some()),
        }
    }

    pub(super) fn columns(&self) -> Vec<Column> {
        let mut columns = vec![Column::text("target"), Column::number("clients")];
        columns.extend(self.processes.then(|| Column::number("processes")));
        columns.extend(self.rate.then(|| Column::number("asked tx/s")));
        columns
    }

    pub(super) fn cells(&self, line: &Line) -> Vec<String> {
        let setting = &line.setting;
        let mut cells = vec![line.target.clone(), setting.clients.to_string()];
        cells.extend(self.processes.then(|| setting.processes.to_string()));
        cells.extend(self.rate.then(|| setting.asked_rate.map_or_else(|| "as many".to_owned(), plain)));
        cells
    }

    /// The row of a line that has no figures.
    pub(super) fn broken(&self, line: &Line, reason: &str) -> Row {
        Row { cells: self.cells(line), remark: Some(format!("BROKEN: {reason}")) }
    }
}

/// A number with about three digits that count.
pub(super) fn plain(n: f64) -> String {
    let digits = match n.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{n:.digits$}")
}

/// A number of milliseconds.
pub(super) fn ms(n: f64) -> String {
    let digits = if n.abs() >= 1_000.0 { 0 } else { 2 };
    format!("{n:.digits$}")
}

/// The range of a figure; nothing where there was one round.
pub(super) fn range(spread: &Spread, rounds: usize) -> String {
    if rounds < 2 { String::new() } else { format!("[{}-{}]", plain(spread.least), plain(spread.most)) }
}

/// The number, or "-" where it is not known.
pub(super) fn known(n: Option<f64>, how: fn(f64) -> String) -> String {
    n.map_or_else(|| "-".to_owned(), how)
}
