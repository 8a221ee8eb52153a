//! The table: medians over the rounds, as text and as Markdown.

use super::{TransferArgs, run::Run, target::Kind};

const HEAD: [&str; 12] = [
    "target",
    "clients",
    "tx/s",
    "[min-max]",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "commands/tx",
    "conflicts",
    "server CPU ms/tx",
    "client CPU ms/tx",
    "x native",
];
const NOTES: &str = "Medians of the rounds; latency from the first attempt to the acknowledged commit. commands/tx: everything the driver \
sent while measured, attempts that failed and work after the answer included, divided by committed transfers. \
CPU: processor time of the whole server and of the whole client process. x native: tx/s divided by that of native \
transactions with as many clients.";

/// A benchmark's result, ready to be printed.
pub(crate) struct Report {
    /// Under what conditions was measured.
    pub(crate) facts: Vec<String>,
    /// A line for each target and number of clients.
    pub(crate) rows: Vec<Row>,
}

/// One line.
pub(crate) struct Row {
    kind: Kind,
    clients: u32,
    rate: f64,
    slowest: f64,
    fastest: f64,
    /// p50, p95, p99.
    latencies_ms: [f64; 3],
    commands: f64,
    conflicts_percent: f64,
    server_cpu_ms: Option<f64>,
    client_cpu_ms: Option<f64>,
    to_native: Option<f64>,
}

/// The lines, by number of clients and then in the order of the targets.
pub(crate) fn summarize(args: &TransferArgs, runs: &[Run]) -> Vec<Row> {
    let mut rows = Vec::new();
    for clients in &args.clients {
        let of = |kind: Kind| -> Vec<&Run> {
            runs.iter().filter(|run| (run.kind, run.clients) == (kind, *clients)).collect()
        };
        let native = median(of(Kind::Native).into_iter().map(Run::rate));
        for kind in &args.targets {
            rows.push(Row::of(*kind, *clients, &of(*kind), native));
        }
    }
    rows
}

impl Run {
    fn committed(&self) -> f64 {
        self.counts.latencies.len() as f64
    }

    fn rate(&self) -> f64 {
        self.committed() / self.seconds
    }

    fn per_transfer(&self, n: f64) -> f64 {
        n / self.committed().max(1.0)
    }

    fn latency_ms(&self, quantile: f64) -> f64 {
        self.counts.latencies.value_at_quantile(quantile) as f64 / 1_000.0
    }

    fn conflicts_percent(&self) -> f64 {
        let conflicts = self.counts.conflicts as f64;
        100.0 * conflicts / (conflicts + self.committed()).max(1.0)
    }
}

impl Row {
    fn of(kind: Kind, clients: u32, runs: &[&Run], native: Option<f64>) -> Self {
        let middle = |value: &dyn Fn(&Run) -> f64| median(runs.iter().map(|run| value(run))).unwrap_or(f64::NAN);
        let cpu_ms = |used: &dyn Fn(&Run) -> Option<i64>| {
            median(runs.iter().filter_map(|run| Some(run.per_transfer(used(run)? as f64) / 1_000.0)))
        };
        let rates = || runs.iter().map(|run| run.rate());
        let rate = middle(&Run::rate);
        Self {
            kind,
            clients,
            rate,
            slowest: rates().fold(f64::INFINITY, f64::min),
            fastest: rates().fold(0.0, f64::max),
            latencies_ms: [0.5, 0.95, 0.99].map(|quantile| middle(&|run| run.latency_ms(quantile))),
            commands: middle(&|run| run.per_transfer(run.commands as f64)),
            conflicts_percent: middle(&Run::conflicts_percent),
            server_cpu_ms: cpu_ms(&|run| run.server_cpu_us),
            client_cpu_ms: cpu_ms(&|run| run.client_cpu_us),
            to_native: native.filter(|native| *native > 0.0).map(|native| rate / native),
        }
    }

    fn cells(&self) -> [String; HEAD.len()] {
        let [p50, p95, p99] = self.latencies_ms.map(|ms| format!("{ms:.2}"));
        let optional = |n: Option<f64>| n.map_or("-".to_owned(), |n| format!("{n:.2}"));
        [
            self.kind.title().to_owned(),
            self.clients.to_string(),
            format!("{:.0}", self.rate),
            format!("[{:.0}-{:.0}]", self.slowest, self.fastest),
            p50,
            p95,
            p99,
            format!("{:.2}", self.commands),
            format!("{:.2} %", self.conflicts_percent),
            optional(self.server_cpu_ms),
            optional(self.client_cpu_ms),
            optional(self.to_native),
        ]
    }
}

/// The middle value, or the mean of the two in the middle.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

impl Report {
    /// Aligned columns for a terminal.
    pub(crate) fn to_text(&self) -> String {
        let mut lines = self.facts.clone();
        lines.push(String::new());
        lines.extend(self.table("  ", "  ", ""));
        lines.extend([String::new(), NOTES.to_owned()]);
        lines.join("\n")
    }

    /// A Markdown table with the same columns, conditions before and notes after it.
    pub(crate) fn to_markdown(&self) -> String {
        let mut lines: Vec<String> = self.facts.iter().map(|fact| format!("- {fact}")).collect();
        lines.push(String::new());
        let mut table = self.table("| ", " | ", " |");
        let rule = HEAD.iter().enumerate().map(|(at, _)| if at == 0 { "| --- " } else { "| ---: " });
        table.insert(1, format!("{}|", rule.collect::<String>()));
        lines.extend(table);
        lines.extend([String::new(), NOTES.to_owned()]);
        lines.join("\n") + "\n"
    }

    fn table(&self, before: &str, between: &str, after: &str) -> Vec<String> {
        let mut cells = vec![HEAD.map(str::to_owned)];
        cells.extend(self.rows.iter().map(Row::cells));
        let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
        let line = |row: &[String; HEAD.len()]| {
            let padded = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            format!("{before}{}{after}", padded.collect::<Vec<_>>().join(between))
        };
        cells.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_number_is_the_mean_of_the_middle() {
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median(std::iter::empty()), None);
    }
}
