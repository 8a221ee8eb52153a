//! `mongotx bench transfer`: the same transfers on every target, in turn, on the same machine.
//!
//! 1. Start the servers that the targets need (or use those that were named).
//! 2. For each round, number of clients and target: load the documents, run the clients, check the sum ([`measure`]).
//! 3. Print the medians over the rounds ([`table`]).
//!
//! [`target`] is what a target has to do; each has a file of its own.

mod ledger;
mod measure;
mod mongotx;
mod native;
mod plain;
mod servers;
mod table;
mod target;

use std::num::{NonZeroU32, NonZeroU64};

use clap::Args;

use self::{servers::Servers, target::Kind};
use super::{
    BenchError,
    report::{OutputArgs, Report},
};

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
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Steps 1 to 3.
pub(crate) async fn run(args: &TransferArgs) -> Result<(), BenchError> {
    let servers = Servers::start(args).await?;
    let runs = measure::measure_all(args, &servers).await?;
    let sections = vec![table::section(&table::summarize(args, &runs))];
    args.output.print(&Report { facts: servers.facts(args).await?, sections })
}
