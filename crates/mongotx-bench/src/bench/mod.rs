//! Measurements on this machine. The crate `txbench` has the workloads and the targets, `benchkit`
//! measures and reports; here are the arguments and the output of the commands, and the comparisons
//! of single queries, of single statements and of a gateway.
//!
//! Interrupted: servers started here end with this process; on a server that was named, databases
//! whose names begin with `mongotx_bench_` may be left.

mod overhead;
mod progress;
mod queries;
mod results;
mod statements;

use std::path::PathBuf;

use benchkit::report::{self, OutputArgs, result::BenchResult};
use clap::{Args, Subcommand};
pub(crate) use txbench::BenchError;
use txbench::{
    acid::{self, AcidArgs},
    papers::{self, PapersArgs, bank::TableArgs},
    run::{RunArgs, plan},
    workload::{
        bank::files::{self, FilesArgs},
        registry::WorkloadCommand,
    },
};

pub(crate) use self::overhead::{MeasuredGatewayOptions, ProxyOptions, run_measured_gateway, run_proxy};
use crate::{
    failure::{Failure, Status, WELL, WRONG},
    say,
};

/// A benchmark, or what is made of results.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    #[command(flatten)]
    Workload(WorkloadCommand<RunArgs>),
    /// Writes the operations of a bank as JSON files, for `bank --files`
    BankFiles(FilesArgs),
    /// The bank for several write concerns on a replica set: a row for each, for one document and
    /// for two
    BankTable(Box<TableArgs>),
    /// Latency of queries through MongoTx and through the plain driver, with documents pending and
    /// without
    Queries(queries::QueriesArgs),
    /// Time of statements on many documents in a transaction: through MongoTx, through MongoDB's
    /// own transactions, and through the plain driver without one
    Statements(statements::StatementsArgs),
    /// Cost of a gateway: the same commands with it and without it, and its memory
    Overhead(overhead::OverheadArgs),
    /// TPC-C's ACID tests: which promises of a transaction each target keeps, and which it does not
    Acid(AcidArgs),
    /// Shows again what `--json` has written; several files are shown as one result
    Report(ReportArgs),
    /// The figures of the papers that one machine can show, measured here, beside what the papers
    /// found
    Papers(PapersArgs),
    /// Every measurement of the page of results, one after the other, and the page itself
    Results(results::ResultsArgs),
}

/// The arguments of `mongotx-bench report`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportArgs {
    /// Files that `--json` has written
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs a benchmark and prints the result.
pub(crate) async fn run_bench(command: BenchCommand) -> Result<Status, Failure> {
    match command {
        BenchCommand::Workload(command) => workload(command).await,
        BenchCommand::BankFiles(args) => files::write_files(&args).map(|()| WELL),
        BenchCommand::BankTable(args) => bank_table(&args).await,
        BenchCommand::Queries(args) => queries::run_queries(&args).await.map(|()| WELL),
        BenchCommand::Statements(args) => statements::run_statements(&args).await.map(|()| WELL),
        BenchCommand::Overhead(args) => overhead::run_overhead(&args).await.map(|()| WELL),
        BenchCommand::Acid(args) => acid_tests(&args).await.map(|()| WELL),
        BenchCommand::Report(args) => show_again(&args).map(|()| WELL),
        BenchCommand::Papers(args) => papers(&args).await,
        BenchCommand::Results(args) => results::run_results(&args).await,
    }
    .map_err(|error| Failure::new(error.to_string()))
}

/// Runs a workload. Broken data does not fail the command: the result and the exit status show it.
async fn workload(command: WorkloadCommand<RunArgs>) -> Result<Status, BenchError> {
    let (spec, args) = command.split();
    report::check(&args.output)?;
    let result = plan::run_workload(&spec, &args, &command_line()).await?;
    tell(&result, &args.output)
}

/// Runs the bank for several write concerns.
async fn bank_table(args: &TableArgs) -> Result<Status, BenchError> {
    report::check(&args.run.output)?;
    let result = papers::bank::run_bank_table(args, &command_line()).await?;
    tell(&result, &args.run.output)
}

fn tell(result: &BenchResult, output: &OutputArgs) -> Result<Status, BenchError> {
    say::line(&report::write(result, output)?);
    let broken = result.runs.iter().any(|run| run.broken.is_some());
    Ok(if broken { WRONG } else { WELL })
}

/// Runs the ACID tests. Tests that a target fails are a result, and no failure of the command.
async fn acid_tests(args: &AcidArgs) -> Result<(), BenchError> {
    report::check(&OutputArgs { json: args.json.clone(), ..OutputArgs::default() })?;
    let found = acid::run_acid(args).await?;
    say::line(found.to_string().trim_end());
    if let Some(file) = &args.json {
        report::write_json(&found, "--json", file)?;
    }
    Ok(())
}

/// Reads results and shows them.
fn show_again(args: &ReportArgs) -> Result<(), BenchError> {
    report::check(&args.output)?;
    let results = args.files.iter().map(|file| report::read(file)).collect::<Result<Vec<_>, _>>()?;
    say::line(&report::write(&report::merge(results), &args.output)?);
    Ok(())
}

/// Measures the papers' figures. The exit status shows whether something could not be measured, or
/// broke.
async fn papers(args: &PapersArgs) -> Result<Status, BenchError> {
    let written = papers::run_papers(papers::FIGURES, args, &command_line(), &|what| say::warn(what)).await?;
    say::line(&written.said);
    Ok(if written.complete && !written.broken { WELL } else { WRONG })
}

/// The command line that repeats this run.
fn command_line() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    format!("mongotx-bench {}", arguments.join(" "))
}
