//! `mongotx-bench results`: every measurement of the page of results, one after the other, and the
//! page itself.
//!
//! 1. [`plan`] has the measurements; [`pace`] has their lengths, such that all fit into the time.
//! 2. [`measure`] makes a section's measurements, and [`stored`] keeps the results: tables of
//!    medians ([`figures`], [`acid`], [`markdown`]), in a file for each section, with the commit of
//!    the code ([`checkout`]).
//! 3. [`page`] makes the page of these files and of its template; `docs/draw` draws the charts that
//!    are marked in it ([`chart`]).

mod acid;
mod chart;
mod checkout;
mod figures;
mod markdown;
mod measure;
mod measurement;
mod pace;
mod page;
mod plan;
mod stored;
mod summary;

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use clap::Args;

use self::{
    measure::Programs,
    measurement::Section,
    page::{Page, TEMPLATE},
    plan::SECTIONS,
    stored::StoredSection,
};
use super::BenchError;
use crate::{
    failure::{Status, WELL, WRONG},
    say,
};

/// The longest that drawing the charts may take.
const DRAW_LIMIT: Duration = Duration::from_secs(60);

/// The arguments of `mongotx-bench results`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResultsArgs {
    /// Time for all measurements together, in minutes, as far as it can be foreseen; their lengths
    /// and rounds follow from it
    #[arg(long, default_value_t = 30.0, value_parser = minutes)]
    minutes: f64,
    /// Sections to measure; the others stay as they were measured before [default: all]
    #[arg(long, value_delimiter = ',', value_name = "SECTION")]
    only: Vec<String>,
    /// Measure nothing; write the page from what was measured before
    #[arg(long, conflicts_with = "only")]
    page_only: bool,
    /// Folder of the page; the sections' files are in its folder results
    #[arg(long, default_value = "docs")]
    out: PathBuf,
    /// The program dtranx-bench [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    dtranx_bench: Option<PathBuf>,
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.1..=1_440.0).contains(&minutes) => Ok(minutes),
        _ => Err("a number from 0.1 to 1440 is expected".to_owned()),
    }
}

impl ResultsArgs {
    /// The sections that are measured.
    fn sections(&self) -> Result<Vec<&'static Section>, BenchError> {
        if let Some(unknown) = self.only.iter().find(|id| SECTIONS.iter().all(|section| section.id != **id)) {
            let known: Vec<&str> = SECTIONS.iter().map(|section| section.id).collect();
            let known = known.join(", ");
            return Err(BenchError::Refused(format!("--only: there is no section {unknown:?}; there are {known}")));
        }
        let is_wanted = |section: &&Section| self.only.is_empty() || self.only.iter().any(|id| id == section.id);
        Ok(if self.page_only { Vec::new() } else { SECTIONS.iter().filter(is_wanted).collect() })
    }

    fn programs(&self) -> Result<Programs, BenchError> {
        let failed = |error: std::io::Error| BenchError::Failed(format!("this program cannot be found: {error}"));
        let mongotx_bench = std::env::current_exe().map_err(failed)?;
        let beside = || mongotx_bench.with_file_name("dtranx-bench");
        let dtranx_bench = self.dtranx_bench.clone().unwrap_or_else(beside);
        Ok(Programs { mongotx_bench, dtranx_bench })
    }
}

/// Measures, and writes the page. The exit status shows whether anything is missing on it.
pub(crate) async fn run_results(args: &ResultsArgs) -> Result<Status, BenchError> {
    let (sections, programs) = (args.sections()?, args.programs()?);
    let folder = args.out.join("results");
    let failed = |error: std::io::Error| BenchError::Failed(format!("--out: {}: {error}", folder.display()));
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let needed = |pace| sections.iter().map(|section| section.seconds(pace)).sum::<u64>();
    let pace = pace::fitting(args.minutes, needed);
    if !sections.is_empty() {
        let (about, length) = (needed(pace).div_ceil(60), pace.seconds);
        say::warn(&format!("mongotx-bench: about {about} minutes, {length} s for each stretch"));
    }
    let patient = Duration::from_secs_f64(args.minutes * 60.0).max(Duration::from_secs(needed(pace))) * 3 / 2;
    let end = Instant::now() + patient;
    for section in &sections {
        if Instant::now() >= end {
            // The measurements of the time before are kept.
            say::warn(&format!("mongotx-bench: {}: not measured: no time was left (--minutes)", section.id));
            continue;
        }
        let measured = measure::section(section, pace, end, &programs).await;
        StoredSection::today(measured).write(&folder, section.id)?;
    }
    write_page(&args.out, &folder)
}

fn write_page(out: &Path, folder: &Path) -> Result<Status, BenchError> {
    let read = |section: &'static Section| Ok((section, StoredSection::read(folder, section.id)?));
    let page = Page { sections: SECTIONS.iter().map(read).collect::<Result<_, BenchError>>()? };
    let file = out.join("results.md");
    let failed = |error: std::io::Error| BenchError::Failed(format!("{}: {error}", file.display()));
    std::fs::write(&file, page.fill(TEMPLATE)).map_err(failed)?;
    draw(out);
    say::line(&format!("{}", file.display()));
    Ok(if page.is_complete() { WELL } else { WRONG })
}

/// Has the charts drawn, where the program for that is beside the page.
fn draw(out: &Path) {
    let program = out.join("draw");
    if !program.is_file() {
        return;
    }
    let Ok(program) = program.canonicalize() else { return };
    match child_processes::run_limited(Command::new(program), DRAW_LIMIT) {
        Ok(done) if done.status.success() => {}
        Ok(done) => say::warn(&format!("mongotx-bench: the charts are not drawn: {}", done.said.trim())),
        Err(error) => say::warn(&format!("mongotx-bench: the charts are not drawn: {error}")),
    }
}
