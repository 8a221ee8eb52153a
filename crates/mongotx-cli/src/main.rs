//! The `mongotx` command, for operators. One file per subcommand; this one only chooses. The demo
//! and the benchmarks are a command of their own, `mongotx-bench`.
//!
//! Exit status: 0 all is well, 1 something is wrong with what was looked at, 2 the request could
//! not be carried out, 128 + n ended by signal n. The library (`mongotx`) decides about
//! transactions, not this program.

mod abort;
mod activity;
mod checkpoint;
mod damage;
mod doctor;
mod leftovers;
mod ls;
mod mongod_path;
mod serve;
mod show;
mod user;

use std::num::NonZeroUsize;

use clap::{CommandFactory, Parser, Subcommand};
use clikit::{connect, failure, generate, interrupt, open_files, program, say, survey, table};

use self::failure::{Failure, Status};

/// A gateway allocates for every command, from many threads, and gives large messages back: the
/// system's allocator costs a tenth of its time and keeps what the largest burst needed.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// ACID transactions on MongoDB servers that have none.
#[derive(Parser)]
#[command(name = "mongotx", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the clients and the transactions that hold documents now
    Ls(ls::LsOptions),
    /// Shows the outcome of a transaction, or the state of a client
    Show(show::ShowOptions),
    /// Rolls back an undecided transaction
    Abort(abort::AbortOptions),
    /// Looks for stuck and damaged documents in all databases, and repairs them
    Doctor(doctor::DoctorOptions),
    /// Finishes everything decided, and holds transactions while a command copies the databases
    Checkpoint(checkpoint::CheckpointOptions),
    /// Serves drivers of every language: standard transactions on a server that has none
    Serve(Box<serve::ServeOptions>),
    /// Prints the path of the mongod that --start-server runs, and fetches one if there is none
    MongodPath,
    /// Adds, changes, removes and lists the users of a gateway
    User(user::UserOptions),
    /// Writes shell completions and manual pages
    #[command(hide = true)]
    Generate(generate::GenerateOptions),
}

impl Command {
    async fn run(self) -> Result<Status, Failure> {
        match self {
            Self::Ls(options) => ls::run_ls(options).await,
            Self::Show(options) => show::run_show(options).await,
            Self::Abort(options) => abort::run_abort(options).await,
            Self::Doctor(options) => doctor::run_doctor(options).await,
            Self::Checkpoint(options) => checkpoint::run_checkpoint(options).await,
            Self::Serve(options) => serve::run_serve(*options).await,
            Self::MongodPath => mongod_path::run_mongod_path(),
            Self::User(options) => user::run_user(options).await,
            Self::Generate(options) => generate::run_generate(options, Cli::command()),
        }
    }

    /// Threads of the command's runtime. `None`: one for each core.
    fn threads(&self) -> Option<NonZeroUsize> {
        match self {
            Self::Serve(options) => Some(options.threads()),
            _ => None,
        }
    }
}

fn main() {
    let args = serve::config::with_file(&Cli::command(), std::env::args_os().collect());
    let command = match args {
        Ok(args) => Cli::parse_from(args).command,
        Err(failure) => std::process::exit(failure.report().into()),
    };
    program::end_with(command.threads(), command.run());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_has_half_of_the_cores_or_the_threads_that_it_is_given() {
        let threads = |args: &[&str]| Cli::parse_from([&["mongotx"], args].concat()).command.threads();
        assert_eq!(threads(&["serve"]), Some(program::half_of_the_cores()));
        assert_eq!(threads(&["serve", "--threads", "3"]), NonZeroUsize::new(3));
        assert_eq!(threads(&["ls"]), None, "one for each core");
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        assert_eq!(program::half_of_the_cores().get(), (cores / 2).max(1));
    }

    #[test]
    fn every_command_and_option_is_on_its_page() {
        clicheck::assert_described(Cli::command(), &["docs/commands.md", "docs/configuration.md"]);
    }
}
