//! The figures of papers 000 and 001 that one machine can show, measured here and set beside what
//! the papers found.
//!
//! 1. [`figures`] says what each figure needs; measurements that several figures need are made once
//!    ([`plan`]).
//! 2. [`measure`] makes them one after the other and keeps all within the time ([`budget`]).
//! 3. `section` makes a section of a page of each figure; `compare` puts the result into a
//!    sentence.
//!
//! Beside them [`bank`], the table of paper 003: the bank for several write concerns.
//!
//! Paper 000 is Horii and Onodera, *Adding Transaction Query Processing for Non-Transactional
//! NoSQL*; paper 001 is theirs on the same library beside multi-version concurrency control.

pub mod args;
pub mod bank;
pub mod budget;
mod compare;
pub mod figures;
pub mod measure;
mod output;
pub mod plan;
mod section;
#[cfg(test)]
mod tests;

pub use self::{args::PapersArgs, figures::FIGURES, output::Written};
use crate::error::BenchError;

/// Measures these figures and writes the page, the Markdown and the results into the directory that
/// the options name. `command` repeats it; `tell` gets a line for each step.
///
/// # Errors
/// [`BenchError::Refused`] for arguments that cannot be, [`BenchError::Failed`] for a file that
/// cannot be written, [`BenchError::Server`]. A measurement that fails is no error: its figures say
/// so, and [`Written::complete`] is false.
pub async fn run_papers(
    figures: &[figures::PaperFigure],
    args: &PapersArgs,
    command: &str,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<Written, BenchError> {
    let figures = args.chosen(figures)?;
    output::make_directory(&args.out)?;
    let plan = plan::of(&figures, args)?;
    let measured = measure::all(&plan, args, tell).await?;
    output::write(&figures, &measured, args, command)
}
