//! The command's options, and which of them go together.

use std::path::PathBuf;

use clap::Parser;

use crate::{
    error::BenchError,
    store::Kind,
    workload::{Distribution, Shape},
};

/// Items that one transaction may have.
const MOST_KEYS: u64 = 100_000_000;

/// Runs one workload on DTranx and its rivals, in turn, and prints a table.
#[derive(Parser, Debug, Clone)]
#[command(name = "dtranx-bench", version)]
pub(crate) struct Args {
    /// What to run on
    #[arg(long, value_enum, value_delimiter = ',', default_value = "etcd,redis")]
    pub(crate) stores: Vec<Kind>,
    /// Servers of each store
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=7))]
    pub(crate) servers: u16,
    /// What a transaction does
    #[arg(long, value_enum, default_value_t = Shape::Paper)]
    pub(crate) shape: Shape,
    /// Parts of a hundred of the transactions that only read, one run each
    #[arg(long, value_delimiter = ',', default_value = "100,95,50", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) reads: Vec<u8>,
    /// How keys are chosen, one run each
    #[arg(long, value_enum, value_delimiter = ',', default_value = "uniform")]
    pub(crate) distribution: Vec<Distribution>,
    /// Keys in the store
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(2..=MOST_KEYS))]
    pub(crate) keys: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(8..=65_536))]
    pub(crate) value_bytes: u32,
    /// Transactions that are under way at the same time, one run each
    #[arg(long, value_delimiter = ',', default_value = "64", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) in_flight: Vec<u32>,
    /// Seconds that are measured, after the warm-up
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,
    /// Seconds before the measurement
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=600))]
    pub(crate) warm_up: u64,
    /// How often each run is made, stores in turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Two runs with the same seed do the same work
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Writes the figures to this file
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
}

impl Args {
    /// Refuses what makes no sense before anything is started.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        if self.servers > 1 && self.stores.contains(&Kind::Redis) {
            let why = "redis has no transactions over several servers: leave it out of --stores, or take --servers 1";
            return Err(BenchError::Refused(why.to_owned()));
        }
        if self.shape == Shape::Transfer && self.reads != Self::parse_from(["dtranx-bench"]).reads {
            return Err(BenchError::Refused(
                "--reads has no meaning with --shape transfer: each one reads and writes".into(),
            ));
        }
        Ok(())
    }
}
