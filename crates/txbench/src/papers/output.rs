//! The written results: the page, the same in Markdown, and every result.

use std::{fs, path::Path};

use benchkit::report::{
    html::page::{Page, Section},
    result::BenchResult,
    summary::distinct,
    table::Report,
};

use super::{PapersArgs, figures::PaperFigure, measure::Measured, section};
use crate::error::BenchError;

/// A difference from the papers that all measurements share.
const DURABILITY: &str = "In the papers an answer did not wait for the disk. Here all targets wait for {w: 1, j: true}: MongoTx \
                          decides nothing that is not on disk, and the others must not be faster for promising less.";
const TITLE: &str = "The papers' figures, measured here";

/// The files that were written, and whether all went well.
#[derive(Debug)]
pub struct Written {
    /// A few lines about each figure, and the names of the files.
    pub said: String,
    /// True if all measurements that are possible were made.
    pub complete: bool,
    /// True if any run of a target with transactions was broken.
    pub broken: bool,
}

/// Makes the directory.
///
/// # Errors
/// [`BenchError::Refused`].
pub(super) fn make_directory(directory: &Path) -> Result<(), BenchError> {
    let refused = |error| BenchError::Refused(format!("--out {}: {error}", directory.display()));
    fs::create_dir_all(directory).map_err(refused)
}

/// Writes everything.
///
/// # Errors
/// [`BenchError::Failed`] for a file that cannot be written.
pub(super) fn write(
    figures: &[PaperFigure],
    measured: &[Measured],
    args: &PapersArgs,
    command: &str,
) -> Result<Written, BenchError> {
    let page = page(figures, measured, command);
    put(args, "papers.html", &page.to_html())?;
    put(args, "papers.md", &markdown(&page))?;
    for Measured { measurement, outcome, .. } in measured {
        let Ok(result) = outcome else { continue };
        let text = serde_json::to_string(result).map_err(|error| BenchError::Failed(error.to_string()))?;
        put(args, &format!("{}.json", measurement.work.name.replace(' ', "-")), &text)?;
    }
    let runs = measured.iter().filter_map(|measured| measured.outcome.as_ref().ok()).flat_map(|result| &result.runs);
    let is_transactional = |name: &str| name != "plain";
    Ok(Written {
        said: said(&page, &args.out),
        complete: measured.iter().all(|measured| measured.outcome.is_ok()),
        broken: runs.into_iter().any(|run| run.broken.is_some() && is_transactional(&run.target)),
    })
}

fn put(args: &PapersArgs, name: &str, text: &str) -> Result<(), BenchError> {
    let file = args.out.join(name);
    fs::write(&file, text).map_err(|error| BenchError::Failed(format!("--out: {}: {error}", file.display())))
}

/// The page of all figures.
pub(super) fn page(figures: &[PaperFigure], measured: &[Measured], command: &str) -> Page {
    let results: Vec<&BenchResult> = measured.iter().filter_map(|measured| measured.outcome.as_ref().ok()).collect();
    let mut facts = common_facts(&results);
    facts.push(DURABILITY.to_owned());
    let targets = results.iter().flat_map(|result| &result.runs).map(|run| run.target.clone());
    Page {
        title: TITLE.to_owned(),
        command: command.to_owned(),
        targets: distinct(targets),
        sections: figures.iter().map(|figure| section::of(figure, measured, &facts)).collect(),
        facts,
    }
}

/// Facts that hold for all measurements.
fn common_facts(results: &[&BenchResult]) -> Vec<String> {
    let Some((first, others)) = results.split_first() else { return Vec::new() };
    let is_common = |fact: &&String| others.iter().all(|result| result.facts.contains(fact));
    first.facts.iter().filter(is_common).cloned().collect()
}

fn markdown(page: &Page) -> String {
    let facts = page.facts.iter().map(|fact| format!("- {fact}\n")).collect::<String>();
    let sections = page.sections.iter().map(|section| {
        let Section { heading, prose, notes, broken, tables, .. } = section;
        let prose = prose.iter().map(|text| format!("{text}\n\n")).collect::<String>();
        let broken = broken.iter().map(|text| format!("- BROKEN: {text}\n")).collect::<String>();
        let notes = notes.iter().map(|note| format!("- {note}\n")).collect::<String>();
        let tables = Report { facts: Vec::new(), tables: tables.clone() }.to_markdown();
        format!("\n## {heading}\n\n{prose}{broken}{notes}{tables}")
    });
    format!("# {}\n\n`{}`\n\n{facts}{}", page.title, page.command, sections.collect::<String>())
}

fn said(page: &Page, out: &Path) -> String {
    let mut lines = Vec::new();
    for section in &page.sections {
        lines.push(section.heading.clone());
        lines.extend(section.prose.iter().map(|text| format!("  {text}")));
        lines.extend(section.broken.iter().map(|text| format!("  BROKEN: {text}")));
        lines.push(String::new());
    }
    lines.push(format!("Charts and tables: {}", out.join("papers.html").display()));
    lines.join("\n")
}
