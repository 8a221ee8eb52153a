//! Makes the measurements of a section: each by a process of its own, as if its command were
//! typed, within a time limit.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use benchkit::report;
use child_processes::{Process, Start};
use txbench::acid::AcidReport;

use super::{
    super::BenchError,
    acid, figures,
    markdown::{self, ReportContent},
    measurement::{Kind, Measurement, Section},
    pace::Pace,
    stored::MeasuredCommand,
};
use crate::say;

/// Time between two looks whether a process has ended.
const LOOK: Duration = Duration::from_millis(200);
/// Multiple of the foreseen time after which, with some more added, a process is ended.
const PATIENCE: u64 = 4;
const SPARE: Duration = Duration::from_secs(300);
/// Beginning of the lines that `dtranx-bench` writes to show its progress.
const PROGRESS: &str = "dtranx-bench: ";

/// Paths of the programs that measure.
pub(super) struct Programs {
    pub(super) mongotx_bench: PathBuf,
    pub(super) dtranx_bench: PathBuf,
}

/// Makes all measurements of a section. Those that cannot be made say why.
pub(super) async fn section(section: &Section, pace: Pace, end: Instant, programs: &Programs) -> Vec<MeasuredCommand> {
    let mut all = Vec::new();
    for measurement in section.measurements {
        let command = measurement.command_line(pace);
        say::warn(&format!("mongotx-bench: {}: {command}", section.id));
        let found = match Instant::now() < end {
            true => one(measurement, pace, programs).await.map_err(|error| error.to_string()),
            false => Err("no time was left (--minutes)".to_owned()),
        };
        let found = found.unwrap_or_else(|reason| ReportContent { missing: vec![reason], ..ReportContent::default() });
        for what in &found.missing {
            say::warn(&format!("mongotx-bench: {}: not measured: {what}", section.id));
        }
        let ReportContent { facts, tables, missing } = found;
        let rounds = if measurement.has_rounds() { measurement.rounds(pace) } else { 0 };
        all.push(MeasuredCommand { command, rounds, seconds: pace.seconds, facts, tables, missing });
    }
    all
}

async fn one(measurement: &Measurement, pace: Pace, programs: &Programs) -> Result<ReportContent, BenchError> {
    let failed = |error: std::io::Error| BenchError::Failed(format!("a folder for the result: {error}"));
    let folder = tempfile::tempdir().map_err(failed)?;
    let file = folder.path().join("result");
    let mut words: Vec<OsString> = measurement.words(pace).into_iter().map(OsString::from).collect();
    let (program, option) = match measurement.kind {
        Kind::Workload | Kind::WorkloadApart | Kind::Acid => (&programs.mongotx_bench, Some("--json")),
        Kind::Tables { .. } => (&programs.mongotx_bench, Some("--markdown-file")),
        Kind::Dtranx { .. } => (&programs.dtranx_bench, None),
    };
    if let Some(option) = option {
        words.extend([OsString::from(option), file.clone().into()]);
    }
    let limit = Duration::from_secs(measurement.seconds(pace) * PATIENCE) + SPARE;
    let said = finished(program, &words, folder.path(), limit).await?;
    read(measurement.kind, &file, &said)
}

/// Reads the file or the output of a command.
fn read(kind: Kind, file: &Path, said: &str) -> Result<ReportContent, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Failed(format!("its result: {error}"));
    match kind {
        Kind::Workload | Kind::WorkloadApart => {
            let result = report::read(file)?;
            let tables = figures::tables(&result, kind == Kind::WorkloadApart);
            Ok(ReportContent { facts: result.facts, tables, missing: Vec::new() })
        }
        Kind::Acid => {
            let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
            let report: AcidReport = serde_json::from_str(&text).map_err(|error| failed(&error))?;
            Ok(ReportContent { tables: vec![acid::table(&report)], ..ReportContent::default() })
        }
        Kind::Tables { .. } => Ok(markdown::read(&std::fs::read_to_string(file).map_err(|error| failed(&error))?)),
        Kind::Dtranx { .. } => {
            let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with(PROGRESS)).collect();
            Ok(markdown::read(&lines.join("\n")))
        }
    }
}

/// Runs a program to its end, and returns its output. A run whose data broke ends with 1, and has a
/// result.
async fn finished(program: &Path, args: &[OsString], folder: &Path, limit: Duration) -> Result<String, BenchError> {
    let failed = |what: &dyn std::fmt::Display| BenchError::Failed(format!("{}: {what}", program.display()));
    if !program.is_file() {
        return Err(failed(&"there is no such program; it is built by `cargo build --release -p dtranx-bench`"));
    }
    let console = folder.join("console");
    let start = Start { program, args, console: &console, folder };
    let mut process = Process::start(&start).map_err(|error| failed(&error))?;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = process.exit_status().map_err(|error| failed(&error))? {
            let said = std::fs::read_to_string(&console).unwrap_or_default();
            let has_result = folder.join("result").is_file();
            let is_done = status.success() || (status.code() == Some(1) && has_result);
            return if is_done {
                Ok(said)
            } else {
                Err(BenchError::Failed(format!("{} ({status})", last_line(&said))))
            };
        }
        if Instant::now() >= deadline {
            return Err(failed(&format!("it took longer than {limit:?}, and was ended")));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The last line of the output: the reason why a command has failed.
fn last_line(said: &str) -> String {
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("it failed and said nothing").trim().to_owned()
}
