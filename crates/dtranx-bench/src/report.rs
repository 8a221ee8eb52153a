//! Tables for people, JSON for programs.

use std::{fmt::Write, path::Path};

use serde::Serialize;

use crate::{
    error::BenchError,
    figures::{Passed, Restart, Round, Row, median},
};

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

    fn of(self, round: &Round) -> f64 {
        round.counted.map_or(0.0, |counted| match self {
            Self::Reads => counted.reads,
            Self::Messages => counted.messages,
        })
    }
}

/// A table with a line for each row, and a column more for what servers counted.
pub(crate) fn rows(rows: &[Row], count: Option<Count>) -> String {
    let heads = "| | servers | work | keys | in flight | tx/s | [min-max] | p50 ms | p95 ms | p99 ms | success |";
    let rule = "| --- | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";
    let mut text = count
        .map_or_else(|| format!("{heads}\n{rule}\n"), |count| format!("{heads} {} |\n{rule} ---: |\n", count.title()));
    for row in rows {
        let (least, most) = row.range();
        // Writing to a string cannot fail.
        let _ = write!(
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
        if let Some(count) = count {
            let _ = write!(text, " {:.2} |", row.median(|round| count.of(round)));
        }
        text.push('\n');
    }
    text
}

/// A table with a line for each server that was killed after so much was written.
pub(crate) fn restarts(rows: &[Restart]) -> String {
    let mut text = String::from(
        "| | written MiB | log MiB | ms to the first answer | [min-max] |\n| --- | ---: | ---: | ---: | ---: |\n",
    );
    for Restart { name, written_mib, log_bytes, rounds_ms } in rows {
        let least = rounds_ms.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rounds_ms.iter().copied().fold(0.0, f64::max);
        let (log_mib, middle) = (log_bytes >> 20, median(rounds_ms.clone()));
        let _ = writeln!(text, "| {name} | {written_mib} | {log_mib} | {middle:.0} | [{least:.0}-{most:.0}] |");
    }
    text
}

/// A table with a line for each second: transactions in it and bytes of the logs at its end, for
/// each row.
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

/// A table with a line for each kind of events.
pub(crate) fn passed(rows: &[Passed]) -> String {
    let mut text = String::from("| | million events/s | [min-max] | ns/event |\n| --- | ---: | ---: | ---: |\n");
    for Passed { name, rounds_per_second } in rows {
        let all = rounds_per_second.iter().map(|events| events / 1e6);
        let (least, most) = (all.clone().fold(f64::INFINITY, f64::min), all.clone().fold(0.0, f64::max));
        let middle = median(all.collect());
        let _ = writeln!(text, "| {name} | {middle:.2} | [{least:.2}-{most:.2}] | {:.0} |", 1000.0 / middle);
    }
    text
}

/// All figures, round by round.
pub(crate) fn write_json(file: &Path, figures: &impl Serialize) -> Result<(), BenchError> {
    let failed = |source| BenchError::Write { path: file.to_path_buf(), source };
    let text = serde_json::to_string_pretty(figures).map_err(|error| failed(error.into()))?;
    std::fs::write(file, text).map_err(failed)
}
