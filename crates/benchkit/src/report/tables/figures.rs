//! The main table: throughput, latency, conflicts, resources, and how targets compare.

use super::cells::{Head, known, ms, plain, range};
use crate::report::{
    summary::{BASELINES, Figures, Line, Summary},
    table::{Column, Row, Table},
};

const NOTES: &str = "\
Medians of the rounds, [least-most]. Latency in milliseconds from the first attempt (open loop: from when it was due) to the
acknowledged commit; max is the longest of all rounds. conflicts: attempts that a rival ended, of all attempts. CPU: processor
time in milliseconds for each committed transaction; KB: what the server wrote for each.";
const TPMC: &str = "tpmC: committed new orders a minute; those that are rolled back on purpose are not counted.";

/// A column between those that identify the run and the end.
struct Part {
    head: String,
    cell: Cell,
}

type Cell = Box<dyn Fn(&Line, &Figures) -> String>;

fn part(head: impl Into<String>, cell: impl Fn(&Line, &Figures) -> String + 'static) -> Part {
    Part { head: head.into(), cell: Box::new(cell) }
}

/// The main table of one workload. Columns that would say nothing are left out.
pub(super) fn table(summary: &Summary, workload: &str) -> Table {
    let (head, parts) = (Head::of(summary, workload), parts(summary, workload));
    let mut columns = head.columns();
    columns.extend(parts.iter().map(|part| Column::number(part.head.clone())));
    let row = |line: &Line| match &line.outcome {
        Err(reason) => head.broken(line, reason),
        Ok(figures) => {
            let mut cells = head.cells(line);
            cells.extend(parts.iter().map(|part| (part.cell)(line, figures)));
            Row::from(cells)
        }
    };
    let has_tpmc = parts.iter().any(|part| part.head == "tpmC");
    let notes = if has_tpmc { format!("{NOTES}\n{TPMC}") } else { NOTES.to_owned() };
    Table { title: workload.to_owned(), columns, rows: summary.of_workload(workload).map(row).collect(), notes }
}

fn parts(summary: &Summary, workload: &str) -> Vec<Part> {
    let figures = summary.of_workload(workload).filter_map(Line::figures);
    let any = |is: fn(&Figures) -> bool| figures.clone().any(is);
    let mut parts = vec![part("tx/s", |_, figures| plain(figures.rate.median))];
    if summary.of_workload(workload).any(|line| line.rounds > 1) {
        parts.push(part("[min-max]", |line, figures| range(&figures.rate, line.rounds)));
    }
    if any(|figures| figures.tpmc.is_some()) {
        parts.push(part("tpmC", |_, figures| known(figures.tpmc.map(|tpmc| tpmc.median), plain)));
    }
    if any(|figures| figures.operations_rate != figures.rate && figures.operations_rate.median > 0.0) {
        parts.push(part("op/s", |_, figures| plain(figures.operations_rate.median)));
    }
    parts.extend([
        part("mean", |_, figures| ms(figures.mean_ms)),
        part("p50", |_, figures| ms(figures.p50_ms)),
        part("p95", |_, figures| ms(figures.p95_ms)),
        part("p99", |_, figures| ms(figures.p99_ms)),
        part("max", |_, figures| ms(figures.max_ms)),
        part("conflicts", |_, figures| format!("{:.2} %", figures.conflicts_percent)),
    ]);
    if any(|figures| figures.given_up > 0) {
        parts.push(part("given up", |_, figures| figures.given_up.to_string()));
    }
    parts.extend([
        part("server CPU", |_, figures| known(figures.server_cpu_ms_per_tx, plain)),
        part("client CPU", |_, figures| known(figures.client_cpu_ms_per_tx, plain)),
        part("KB", |_, figures| known(figures.written_bytes_per_tx.map(|bytes| bytes / 1_000.0), plain)),
    ]);
    for baseline in BASELINES {
        if figures.clone().any(|figures| figures.against.contains_key(baseline)) {
            let cell = move |_: &Line, figures: &Figures| known(figures.against.get(baseline).copied(), plain);
            parts.push(part(format!("x {baseline}"), cell));
        }
    }
    parts
}
