//! Runs of workloads, given by command lines.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(unreachable_pub, reason = "test code")]

use benchkit::report::result::BenchResult;
use clap::Parser;
use txbench::{
    BenchError,
    run::{RunArgs, plan},
    workload::registry::{WorkloadCommand, WorkloadSpec},
};

/// `mongotx-bench`, the workloads alone.
#[derive(Parser)]
#[command(no_binary_name = true)]
pub struct Bench {
    #[command(subcommand)]
    workload: WorkloadCommand<RunArgs>,
}

/// Workload and run of `mongotx-bench LINE`, or the fault of the line.
pub fn try_parse(line: &str) -> Result<(WorkloadSpec, RunArgs), clap::Error> {
    Ok(Bench::try_parse_from(line.split_whitespace())?.workload.split())
}

/// Workload and run of `mongotx-bench LINE`.
pub fn parse(line: &str) -> (WorkloadSpec, RunArgs) {
    try_parse(line).unwrap()
}

/// Runs the workload of this command line.
pub async fn bench(line: &str) -> Result<BenchResult, BenchError> {
    let (spec, args) = parse(line);
    plan::run_workload(&spec, &args, line).await
}
