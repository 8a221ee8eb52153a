//! The second table of a workload: latencies and conflicts by kind of transaction, where it has
//! several.

use super::cells::{Head, ms, plain};
use crate::report::{
    summary::{Figures, KindFigures, Line, Summary},
    table::{Column, Row, Table},
};

const NOTES: &str = "\
share: of the transactions that committed. rolled back: because the workload wants it so; given up: after as many attempts as are
allowed; both in all rounds, as are the attempts that a rival ended, by reason.";

/// The table of one workload; `None` where it would say nothing that the main table does not say:
/// one kind, no conflict.
pub(super) fn table(summary: &Summary, workload: &str) -> Option<Table> {
    let figures = summary.of_workload(workload).filter_map(Line::figures);
    let says_more = |kind: &KindFigures| !kind.conflicts.is_empty() || kind.rolled_back > 0;
    if !figures.clone().any(|figures| figures.kinds.len() > 1 || figures.kinds.iter().any(says_more)) {
        return None;
    }
    let head = Head::of(summary, workload);
    let mut columns = head.columns();
    columns.push(Column::text("kind"));
    let numbers = ["tx/s", "share", "mean", "p50", "p95", "p99", "max", "rolled back", "given up", "conflicts"];
    columns.extend(numbers.map(Column::number));
    columns.push(Column::text("reasons"));
    let rows = |line: &Line| match &line.outcome {
        Ok(figures) => rows(&head, line, figures),
        Err(reason) => vec![head.broken(line, reason)],
    };
    let rows = summary.of_workload(workload).flat_map(rows).collect();
    Some(Table { title: format!("{workload}, by kind of transaction"), columns, rows, notes: NOTES.to_owned() })
}

fn rows(head: &Head, line: &Line, figures: &Figures) -> Vec<Row> {
    let row = |kind: &KindFigures| {
        let mut cells = head.cells(line);
        cells.push(kind.kind.clone());
        cells.extend([plain(kind.rate.median), format!("{:.1} %", kind.share_percent)]);
        cells.extend([kind.mean_ms, kind.p50_ms, kind.p95_ms, kind.p99_ms, kind.max_ms].map(ms));
        cells.extend([kind.rolled_back.to_string(), kind.given_up.to_string()]);
        cells.push(format!("{:.2} %", kind.conflicts_percent));
        cells.push(reasons(kind));
        Row::from(cells)
    };
    figures.kinds.iter().map(row).collect()
}

fn reasons(kind: &KindFigures) -> String {
    let each = kind.conflicts.iter().map(|(reason, count)| format!("{reason} {count}"));
    each.collect::<Vec<_>>().join(", ")
}
