//! `mongotx bench transfer`: the same transfers on every target, in turn, on the same machine.
//!
//! 1. Start the servers that the targets need (or use those that were named).
//! 2. For each round, number of clients and target: load the documents, run the clients, check the sum ([`mod@run`]).
//! 3. Print the medians over the rounds ([`report`]).
//!
//! [`target`] is what a target has to do; each has a file of its own. Interrupted: servers started here end with this
//! process; on a server that was named, databases whose names begin with `mongotx_bench_` may be left.

mod error;
mod ledger;
mod machine;
mod mongotx;
mod native;
mod plain;
mod report;
mod run;
mod server;
mod target;

use std::{
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
};

use clap::{Args, Subcommand};

pub(crate) use self::error::BenchError;
use self::target::Kind;
use crate::failure::{Failure, Status, WELL};

/// The arguments of `mongotx bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// Two-document transfers: MongoTx (both layouts), no transaction, native transactions.
    Transfer(TransferArgs),
}

/// The arguments of `mongotx bench transfer`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TransferArgs {
    /// Numbers of clients that run at the same time; one measurement for each.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) clients: Vec<u32>,
    /// Length of one measurement.
    #[arg(long, default_value = "5")]
    pub(crate) seconds: NonZeroU64,
    /// Measurements of each kind, taken in turns; the table shows medians.
    #[arg(long, default_value = "3")]
    pub(crate) rounds: NonZeroU32,
    /// Documents to choose from.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..=10_000_000))]
    pub(crate) documents: u32,
    /// Size of one document.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    pub(crate) document_bytes: u32,
    /// What to measure, in this order.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "mongotx,published,plain,native")]
    pub(crate) targets: Vec<Kind>,
    /// A running server for all targets but `native`; one is started if none is named.
    #[arg(long)]
    pub(crate) uri: Option<String>,
    /// A running replica set for `native`; a set of one node is started if none is named.
    #[arg(long)]
    pub(crate) replica_uri: Option<String>,
    /// Which transfers are made.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print the table as Markdown.
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Write the table, as Markdown, into this file too.
    #[arg(long)]
    pub(crate) markdown_file: Option<PathBuf>,
}

/// Runs a benchmark and prints the result.
pub(crate) async fn run(args: &BenchArgs) -> Result<Status, Failure> {
    let Workload::Transfer(args) = &args.workload;
    transfer(args).await.map_err(|error| Failure::new(error.to_string()))?;
    Ok(WELL)
}

async fn transfer(args: &TransferArgs) -> Result<(), BenchError> {
    let servers = server::Servers::start(args).await?;
    let runs = run::measure_all(args, &servers).await?;
    let report = report::Report { facts: servers.facts(args).await?, rows: report::summarize(args, &runs) };
    println!("{}", if args.markdown { report.to_markdown() } else { report.to_text() });
    if let Some(file) = &args.markdown_file {
        let unwritten = |error| BenchError::Failed(format!("--markdown-file {}: {error}", file.display()));
        std::fs::write(file, report.to_markdown()).map_err(unwritten)?;
    }
    Ok(())
}
