//! Tables for people, JSON for programs.

use std::{fmt::Write, path::Path};

use serde::Serialize;

use crate::{
    error::BenchError,
    figures::{Row, median},
};

/// A table with a line for each row.
pub(crate) fn rows(rows: &[Row]) -> String {
    let mut text = String::from(
        "| | servers | work | keys | in flight | tx/s | [min-max] | p50 ms | p95 ms | p99 ms | success |\n\
         | --- | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for row in rows {
        let (least, most) = row.range();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {:.0} | [{least:.0}-{most:.0}] | {:.2} | {:.2} | {:.2} | {:.2} % |",
            row.name,
            row.servers,
            row.work(),
            row.distribution,
            row.in_flight,
            row.median(|round| round.per_second),
            row.median(|round| round.p50_ms),
            row.median(|round| round.p95_ms),
            row.median(|round| round.p99_ms),
            100.0 * row.median(|round| round.success)
        );
    }
    text
}

/// A table with a line for each second: transactions in it and bytes of the logs at its end, for each row.
pub(crate) fn over_time(rows: &[Row]) -> String {
    let mut text = String::from("| second |");
    for row in rows {
        let _ = write!(text, " {0}: tx/s | {0}: log MiB |", row.name);
    }
    text.push_str("\n| ---: |");
    rows.iter().for_each(|_| text.push_str(" ---: | ---: |"));
    text.push('\n');
    let seconds = rows.iter().flat_map(|row| &row.rounds).map(|round| round.samples.len()).min().unwrap_or(0);
    for second in 0..seconds {
        let _ = write!(text, "| {} |", second + 1);
        for row in rows {
            let all = || row.rounds.iter().filter_map(|round| round.samples.get(second));
            let committed = median(all().map(|sample| sample.committed as f64).collect());
            let log_bytes = median(all().map(|sample| sample.log_bytes as f64).collect());
            let _ = write!(text, " {committed:.0} | {:.0} |", log_bytes / f64::from(1 << 20));
        }
        text.push('\n');
    }
    text
}

/// All figures, round by round.
pub(crate) fn write_json(file: &Path, figures: &impl Serialize) -> Result<(), BenchError> {
    let failed = |source| BenchError::Write { path: file.to_path_buf(), source };
    let text = serde_json::to_string_pretty(figures).map_err(|error| failed(error.into()))?;
    std::fs::write(file, text).map_err(failed)
}
