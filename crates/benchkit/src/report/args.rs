//! Options that name the destinations of a result, besides the terminal. The files are written by
//! `write`.

use std::path::PathBuf;

use clap::Args;

/// Destination of the result, besides the terminal.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Print the tables as Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Write the tables, as Markdown, into this file too
    #[arg(long, value_name = "FILE")]
    pub markdown_file: Option<PathBuf>,
    /// Write every run, with its histograms, into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with interactive charts into this file; it needs no network
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Destination of a result that consists of tables only.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct TableArgs {
    /// Print the tables as Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Write the tables, as Markdown, into this file too
    #[arg(long, value_name = "FILE")]
    pub markdown_file: Option<PathBuf>,
}
