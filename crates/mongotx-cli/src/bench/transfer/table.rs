//! The table: medians over the rounds.

use super::{
    super::report::{Section, median},
    TransferArgs,
    measure::Run,
    target::Kind,
};

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

/// The table of these lines.
pub(crate) fn section(rows: &[Row]) -> Section {
    let rows = rows.iter().map(|row| row.cells().to_vec()).collect();
    Section { head: HEAD.to_vec(), text_columns: 1, rows, notes: NOTES }
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
        self.counts.latencies.count() as f64
    }

    fn rate(&self) -> f64 {
        self.committed() / self.seconds
    }

    fn per_transfer(&self, n: f64) -> f64 {
        n / self.committed().max(1.0)
    }

    fn latency_ms(&self, quantile: f64) -> f64 {
        self.counts.latencies.quantile_ms(quantile)
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
