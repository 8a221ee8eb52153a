//! The `mongotx-bench` command: the demo, and measurements of MongoTx and of its rivals. The
//! commands that serve, show and repair are in `mongotx`, which needs none of this.
//!
//! Exit status: 0 all is well, 1 something is wrong with what was looked at, 2 the request could
//! not be carried out, 128 + n ended by signal n.

mod bench;
mod demo;

use std::num::NonZeroUsize;

use clap::{CommandFactory, Parser, Subcommand};
use clikit::{connect, failure, generate, interrupt, open_files, program, say, survey, table};

use self::failure::{Failure, Status};

/// As in the command `mongotx`: gateways are measured with the allocator that they are served with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Shows and measures MongoTx: transactions on MongoDB servers that have none.
#[derive(Parser)]
#[command(name = "mongotx-bench", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows what MongoTx does: a bank under SIGKILL, on a server without transactions
    Demo(demo::DemoOptions),
    #[command(flatten)]
    Bench(bench::BenchCommand),
    #[command(hide = true)]
    DemoWorker(demo::worker::WorkerOptions),
    /// Forwards messages to a server and does nothing else: what a gateway is measured against.
    #[command(hide = true)]
    BenchProxy(bench::ProxyOptions),
    /// The gateway that is measured.
    #[command(hide = true)]
    BenchGateway(bench::MeasuredGatewayOptions),
    /// Writes shell completions and manual pages
    #[command(hide = true)]
    Generate(generate::GenerateOptions),
    /// Runs a part of a benchmark's clients, which the benchmark's first process names.
    #[command(hide = true, name = txbench::run::child::SUBCOMMAND)]
    BenchClients,
}

impl Command {
    async fn run(self) -> Result<Status, Failure> {
        match self {
            Self::Demo(options) => demo::run_demo(options).await,
            Self::Bench(command) => bench::run_bench(command).await,
            Self::DemoWorker(options) => demo::worker::run_worker(options).await,
            Self::BenchProxy(options) => bench::run_proxy(options).await,
            Self::BenchGateway(options) => bench::run_measured_gateway(options).await,
            Self::Generate(options) => generate::run_generate(options, Cli::command()),
            Self::BenchClients => {
                txbench::run::child::run_part().await.map_err(|error| Failure::new(error.to_string()))?;
                Ok(failure::WELL)
            }
        }
    }

    /// Threads of the command's runtime; `None`: one for each core. The gateway that is measured
    /// has as many as `mongotx serve`, and so has the proxy beside it.
    fn threads(&self) -> Option<NonZeroUsize> {
        match self {
            Self::BenchProxy(_) | Self::BenchGateway(_) => Some(program::half_of_the_cores()),
            _ => None,
        }
    }
}

fn main() {
    let command = Cli::parse().command;
    program::end_with(command.threads(), command.run());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_option_is_on_its_page() {
        clicheck::assert_described(Cli::command(), &["docs/bench-commands.md"]);
    }
}
