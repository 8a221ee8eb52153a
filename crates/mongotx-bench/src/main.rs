//! The `mongotx-bench` command: the demo, and measurements of MongoTx and of its rivals. What
//! serves, shows and mends is the command `mongotx`, which needs none of this.
//!
//! Exit status: 0 all is well, 1 something is wrong with what was looked at, 2 the request could
//! not be carried out, 128 + n ended by signal n.

mod bench;
mod demo;

use clap::{Parser, Subcommand};
use clikit::{connect, failure, interrupt, open_files, say, survey, table};

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
    /// Some of a benchmark's clients, as its first process tells them.
    #[command(hide = true, name = txbench::run::child::SUBCOMMAND)]
    BenchClients,
}

impl Command {
    async fn run(self) -> Result<Status, Failure> {
        match self {
            Self::Demo(options) => demo::run(options).await,
            Self::Bench(command) => bench::run(command).await,
            Self::DemoWorker(options) => demo::worker::run(options).await,
            Self::BenchProxy(options) => bench::run_proxy(options).await,
            Self::BenchGateway(options) => bench::run_gateway(options).await,
            Self::BenchClients => {
                txbench::run::child::run_part().await.map_err(|error| Failure::new(error.to_string()))?;
                Ok(failure::WELL)
            }
        }
    }
}

fn main() {
    let command = Cli::parse().command;
    let status = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let status = runtime.block_on(command.run()).unwrap_or_else(|failure| failure.report());
            // Ends at once: a thread that blocks must not keep the process, and the driver panics
            // when it says goodbye to the server in a runtime that shuts down.
            std::process::exit(status.into());
        }
        Err(error) => Failure::new(format!("cannot start: {error}")).report(),
    };
    std::process::exit(status.into());
}
