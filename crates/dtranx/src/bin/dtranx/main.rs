//! The `dtranx` command. One file per kind of subcommand; this one only chooses.
//!
//! Exit status: 0 all is well, 1 the answer is no (a key is absent, a transaction is refused, a
//! simulation failed), 2 the request could not be carried out, 3 a member was removed from its
//! group.

mod backup;
mod cluster;
mod connect;
mod data;
mod failure;
mod member;
mod new_file;
mod ranges;
mod resolve;
mod salvage;
mod say;
mod serve;
mod simulate;
mod status;
mod txn;
mod verify;
mod which;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Events are made by one thread and dropped by another, which the system's allocator pays for with
/// searches and merges.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// DTranx: a distributed, transactional key-value store.
#[derive(Parser)]
#[command(name = "dtranx", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs one server of a cluster
    Serve(serve::ServeOptions),
    /// Runs a whole cluster on this machine, and ends it when this command ends
    Cluster(cluster::ClusterOptions),
    /// Prints the value of a key
    Get(data::Get),
    /// Writes a key and its value
    Put(data::Put),
    /// Deletes a key and its value
    Delete(data::Delete),
    /// Lists keys and values in order, all of one moment
    Scan(data::Scan),
    /// Writes all keys and values of one moment to a file, while clients go on writing
    Backup(backup::Backup),
    /// Writes the keys and values of a backup into a cluster
    Restore(backup::Restore),
    /// Carries out several operations in one transaction
    Txn(txn::TxnOptions),
    /// Shows which server holds which range of keys
    Map(ranges::Map),
    /// Moves a range of keys to another server, while clients go on working
    Move(ranges::Move),
    /// Adds a member to a group, or removes one, while the group serves
    #[command(subcommand)]
    Member(member::Member),
    /// Shows the state of the servers: stages, queues, log
    Status(status::StatusOptions),
    /// Reads all data of a server that does not run, and checks it
    Verify(verify::VerifyOptions),
    Salvage(salvage::SalvageOptions),
    Resolve(resolve::ResolveOptions),
    /// Simulates whole clusters under crashes and a bad network, and checks what they do
    Simulate(simulate::SimulateOptions),
}

fn main() -> ExitCode {
    dtranx::remark::end_process_on_panic();
    let done = match Cli::parse().command {
        Command::Serve(options) => serve::serve(&options),
        Command::Cluster(options) => cluster::run_cluster(&options),
        Command::Get(options) => data::get(&options),
        Command::Put(options) => data::put(&options),
        Command::Delete(options) => data::delete(&options),
        Command::Scan(options) => data::scan(&options),
        Command::Backup(options) => backup::backup(&options),
        Command::Restore(options) => backup::restore(&options),
        Command::Txn(options) => txn::run_transaction(&options),
        Command::Map(options) => ranges::show(&options),
        Command::Move(options) => ranges::move_range(&options),
        Command::Member(options) => member::change(&options),
        Command::Status(options) => status::show_status(&options),
        Command::Verify(options) => verify::verify_server(&options),
        Command::Salvage(options) => salvage::run_salvage(&options),
        Command::Resolve(options) => resolve::resolve(&options),
        Command::Simulate(options) => simulate::run_simulation(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_and_option_is_on_its_page() {
        clicheck::assert_described(Cli::command(), &["docs/dtranx-commands.md"]);
    }
}
