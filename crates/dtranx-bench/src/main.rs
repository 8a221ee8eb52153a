//! DTranx and its rivals under one load generator.
//!
//! [`workload`] draws transactions, [`store`] is what they run on (a file each), [`rival`] starts
//! the servers, [`measure`] keeps transactions under way, [`turns`] lets stores take turns, and
//! [`figures`] and [`report`] hold and show the result. A workload never knows its store. How
//! clients work and are counted, and what a result is, are those of the workbench: `benchkit`.
//!
//! `compare` runs one workload on several stores; `tables` makes every table of DTranx's page of
//! results (a file each); for one of them [`restart`] kills a server, for one [`failover`] kills
//! members of a group, and [`elements`] has a queue alone.

mod args;
mod compare;
mod elements;
mod error;
mod failover;
mod figures;
mod measure;
mod report;
mod restart;
mod rival;
mod settings;
mod store;
mod tables;
mod turns;
mod workload;

use clap::Parser;

use crate::{
    args::{Cli, Command},
    error::BenchError,
};

/// The same as in DTranx's own servers: events are made by one thread and dropped by another, which
/// the system's allocator pays for with searches and merges.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    match command(Cli::parse().command).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dtranx-bench: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

async fn command(command: Command) -> Result<(), BenchError> {
    match command {
        Command::Compare(args) => compare::run_compare(&args).await,
        Command::Tables(args) => tables::run_tables(&args).await,
        Command::ServeDtranx { config } => tokio::task::block_in_place(|| rival::serve(&config)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_and_option_is_on_its_page() {
        clicheck::assert_described(Cli::command(), &["docs/dtranx-bench-commands.md"]);
    }
}
