//! The command line: subcommands, and a file of options for each. Each checks its options before a
//! server is started.

mod compare;
mod pace;
mod tables;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use self::{
    compare::CompareArgs,
    tables::{TablesArgs, Which},
};

/// Greatest number of keys: more do not fit into the memory of a small machine.
const MOST_KEYS: u64 = 100_000_000;
/// Transactions under way at once, at most: each is a connection to the stores whose connections
/// carry one.
const MOST_IN_FLIGHT: i64 = 4096;

/// DTranx and its rivals under one load generator; it starts the servers itself, each a process of
/// its own.
#[derive(Parser, Debug)]
#[command(name = "dtranx-bench", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands of the program.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Runs one workload on several stores, in turns
    Compare(CompareArgs),
    /// Makes every table of DTranx's page of results in one run, and says on which machine
    Tables(TablesArgs),
    /// Is one of DTranx's servers, until it is killed
    #[command(hide = true)]
    ServeDtranx {
        /// File with its configuration
        config: PathBuf,
    },
}
