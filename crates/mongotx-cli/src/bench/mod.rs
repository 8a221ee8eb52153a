//! `mongotx bench`: measurements on this machine. A folder for each workload; beside them what they share.
//!
//! Interrupted: servers started here end with this process; on a server that was named, databases whose names begin with
//! `mongotx_bench_` may be left.

mod counting;
mod error;
mod latency;
mod machine;
mod progress;
mod queries;
mod report;
mod server;
mod transfer;

use clap::{Args, Subcommand};

pub(crate) use self::error::BenchError;
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
    Transfer(transfer::TransferArgs),
    /// Latency of queries through MongoTx and through the plain driver, with documents pending and without.
    Queries(queries::QueriesArgs),
}

/// Runs a benchmark and prints the result.
pub(crate) async fn run(args: &BenchArgs) -> Result<Status, Failure> {
    let done = match &args.workload {
        Workload::Transfer(args) => transfer::run(args).await,
        Workload::Queries(args) => queries::run(args).await,
    };
    done.map_err(|error| Failure::new(error.to_string()))?;
    Ok(WELL)
}
