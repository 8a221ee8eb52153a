//! The tables as Markdown, of medians of the rounds. The figures come from `figures`; the layout of
//! a table is `benchkit`'s.

use benchkit::report::{
    spread::{Spread, median},
    table::{self, Column, Table},
};

use crate::{
    figures::{Passed, Pause, Restart, Round, Row},
    store::Served,
};

const MIB: f64 = (1 << 20) as f64;

/// A count of the servers, as a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Requests to read for each transaction.
    Reads,
    /// Number of messages for each transaction.
    Messages,
}

impl Count {
    fn title(self) -> &'static str {
        match self {
            Self::Reads => "reads/tx",
            Self::Messages => "messages/tx",
        }
    }

    /// For each committed transaction, refused attempts among them.
    fn of(self, round: &Round) -> f64 {
        let of = |served: Served| match self {
            Self::Reads => served.reads,
            Self::Messages => served.messages,
        };
        round.run.per_transaction(round.served.map_or(0, of) as f64)
    }
}

/// A table with a line for each row, and a column more for what servers counted.
pub(crate) fn rows(rows: &[Row], count: Option<Count>) -> String {
    let mut columns = vec![Column::text(""), Column::number("servers"), Column::text("work"), Column::text("keys")];
    let numbers = ["in flight", "tx/s", "[min-max]", "p50 ms", "p95 ms", "p99 ms", "success"];
    columns.extend(numbers.into_iter().chain(count.map(Count::title)).map(Column::number));
    let line = |row: &Row| {
        let mut cells = vec![row.name.to_owned(), row.servers.to_string(), row.work(), row.distribution.to_owned()];
        cells.push(row.in_flight.to_string());
        if let Some(figures) = row.figures() {
            cells.push(format!("{:.0}", figures.rate.median));
            cells.push(range(figures.rate, 0));
            cells.extend([figures.p50_ms, figures.p95_ms, figures.p99_ms].map(|ms| format!("{ms:.2}")));
            cells.push(format!("{:.2} %", 100.0 - figures.conflicts_percent));
        }
        let counted = |count: Count| middle(row.rounds.iter().map(|round| count.of(round)));
        cells.extend(count.map(|count| format!("{:.2}", counted(count))));
        table::Row::from(cells)
    };
    markdown(columns, rows.iter().map(line).collect())
}

/// A table with a line for each server that was killed after so much was written.
pub(crate) fn restarts(rows: &[Restart]) -> String {
    let numbers = ["written MiB", "log MiB", "ms to the first answer", "[min-max]"];
    let line = |Restart { name, written_mib, log_bytes, rounds_ms }: &Restart| {
        let mut cells = vec![(*name).to_owned(), written_mib.to_string(), (log_bytes >> 20).to_string()];
        cells.extend(spread(rounds_ms.iter().copied(), 0));
        table::Row::from(cells)
    };
    named(&numbers, rows.iter().map(line).collect())
}

/// A table with a line for each kind of member that was killed.
pub(crate) fn pauses(rows: &[Pause]) -> String {
    let line = |Pause { name, pauses_ms }: &Pause| {
        let mut cells = vec![(*name).to_owned(), pauses_ms.len().to_string()];
        cells.extend(spread(pauses_ms.iter().copied(), 0));
        table::Row::from(cells)
    };
    named(&["kills", "ms to the next commit", "[min-max]"], rows.iter().map(line).collect())
}

/// A table with a line for each second: transactions in it and bytes of the logs at its end, for
/// each row.
pub(crate) fn over_time(rows: &[Row]) -> String {
    let of_row = |row: &Row| ["tx/s", "log MiB"].map(|what| Column::number(format!("{}: {what}", row.name)));
    let columns = [Column::number("second")].into_iter().chain(rows.iter().flat_map(of_row)).collect();
    let seconds = rows.iter().flat_map(|row| &row.rounds).map(|round| round.log_bytes.len()).min().unwrap_or(0);
    let line = |second: usize| {
        let committed = |round: &Round| round.run.counts.seconds.get(second).map_or(0, |second| second.committed);
        let mut cells = vec![(second + 1).to_string()];
        for Row { rounds, .. } in rows {
            cells.push(format!("{:.0}", middle(rounds.iter().map(|round| committed(round) as f64))));
            cells.push(format!("{:.0}", middle(rounds.iter().map(|round| round.log_bytes[second] as f64)) / MIB));
        }
        table::Row::from(cells)
    };
    markdown(columns, (0..seconds).map(line).collect())
}

/// A table with a line for each kind of events.
pub(crate) fn passed(rows: &[Passed]) -> String {
    let line = |Passed { name, rounds_per_second }: &Passed| {
        let millions = || rounds_per_second.iter().map(|events| events / 1e6);
        let mut cells = vec![(*name).to_owned()];
        cells.extend(spread(millions(), 2));
        cells.push(format!("{:.0}", 1000.0 / middle(millions())));
        table::Row::from(cells)
    };
    named(&["million events/s", "[min-max]", "ns/event"], rows.iter().map(line).collect())
}

/// A table of numbers whose lines begin with a name.
fn named(numbers: &[&str], rows: Vec<table::Row>) -> String {
    markdown([Column::text("")].into_iter().chain(numbers.iter().map(|head| Column::number(*head))).collect(), rows)
}

fn markdown(columns: Vec<Column>, rows: Vec<table::Row>) -> String {
    Table { columns, rows, ..Table::default() }.to_markdown().join("\n") + "\n"
}

/// The median, and the range, with so many digits behind the point.
fn spread(rounds: impl Iterator<Item = f64>, digits: usize) -> Vec<String> {
    Spread::of(rounds)
        .map_or_else(Vec::new, |spread| vec![format!("{:.digits$}", spread.median), range(spread, digits)])
}

fn range(Spread { least, most, .. }: Spread, digits: usize) -> String {
    format!("[{least:.digits$}-{most:.digits$}]")
}

/// The median; 0 of nothing.
fn middle(rounds: impl Iterator<Item = f64>) -> f64 {
    median(rounds).unwrap_or(0.0)
}
