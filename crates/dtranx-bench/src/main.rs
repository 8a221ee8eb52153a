//! DTranx and its rivals under one load generator.
//!
//! [`workload`] draws transactions, [`store`] is what they run on (a file each), [`rival`] starts the servers of others,
//! [`measure`] brings them together and [`table`] tells the result. A workload never knows its store.

mod args;
mod error;
mod measure;
mod rival;
mod run;
mod store;
mod table;
mod workload;

use clap::Parser;

use crate::{args::BenchArgs, error::BenchError};

#[tokio::main]
async fn main() -> std::process::ExitCode {
    match command(&BenchArgs::parse()).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dtranx-bench: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

async fn command(args: &BenchArgs) -> Result<(), BenchError> {
    if let Some(file) = &args.serve_dtranx {
        return tokio::task::block_in_place(|| rival::serve(file));
    }
    let rows = run::all(args).await?;
    print!("{}", table::markdown(&rows));
    match &args.json {
        Some(file) => table::write_json(file, &rows),
        None => Ok(()),
    }
}
