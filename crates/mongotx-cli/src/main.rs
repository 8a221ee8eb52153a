//! The `mongotx` command.

mod bench;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// ACID transactions on MongoDB-compatible servers that have none.
#[derive(Debug, Parser)]
#[command(name = "mongotx", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure transactions against the alternatives, on this machine.
    Bench(bench::BenchArgs),
}

fn main() -> ExitCode {
    let Cli { command: Command::Bench(args) } = Cli::parse();
    match bench::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mongotx: {error}");
            ExitCode::FAILURE
        }
    }
}
