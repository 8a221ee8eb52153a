//! The command `generate`, which no help shows: shell completions and manual pages, for makers of
//! packages. Both are made from the same description of the flags as `--help`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::Shell;

use crate::failure::{Context, Failure, Status, WELL};

/// Options of the command `generate`.
#[derive(Args)]
pub struct GenerateOptions {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Writes the completions of a shell to standard output
    Completions {
        /// The shell to complete for
        shell: Shell,
    },
    /// Writes a manual page for each command into a folder
    Man {
        /// The folder; it is created if there is none
        folder: PathBuf,
    },
}

/// Writes completions or manual pages for this command line.
///
/// # Errors
/// Where the folder or a page cannot be written.
pub fn run_generate(options: GenerateOptions, cli: clap::Command) -> Result<Status, Failure> {
    match options.what {
        What::Completions { shell } => write_completions(shell, cli),
        What::Man { folder } => {
            std::fs::create_dir_all(&folder).context("the folder cannot be created")?;
            clap_mangen::generate_to(cli, &folder).context("the pages cannot be written")?;
        }
    }
    Ok(WELL)
}

fn write_completions(shell: Shell, mut cli: clap::Command) {
    let (name, mut script) = (cli.get_name().to_owned(), Vec::new());
    clap_complete::generate(shell, &mut cli, name, &mut script);
    crate::say::line(String::from_utf8_lossy(&script).trim_end());
}
