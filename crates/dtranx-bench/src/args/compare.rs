//! Options of the command `compare`, and the check that they go together. The measurement is in
//! `crate::compare`.

use std::path::PathBuf;

use clap::Args;

use super::{MOST_IN_FLIGHT, MOST_KEYS, pace::Pace};
use crate::{
    error::BenchError,
    settings::{Medium, Settings},
    store::Kind,
    workload::{Distribution, Shape},
};

/// One workload on several stores, in turns.
#[derive(Args, Debug, Clone)]
pub(crate) struct CompareArgs {
    /// Stores to run on
    #[arg(long, value_enum, value_delimiter = ',', default_value = "dtranx,etcd")]
    pub(crate) stores: Vec<Kind>,
    /// Number of servers of each store
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=7))]
    pub(crate) servers: u16,
    /// Let DTranx's servers be the members of a group: 3, 5 or 7, which keep everything each
    #[arg(long)]
    pub(crate) group: bool,
    /// Shape of the transactions
    #[arg(long, value_enum, default_value_t = Shape::Paper)]
    pub(crate) shape: Shape,
    /// Parts of a hundred of the transactions that only read, one run each [default: 100,95,50]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) reads: Vec<u8>,
    /// How keys are chosen, one run each
    #[arg(long, value_enum, value_delimiter = ',', default_value = "uniform")]
    pub(crate) distribution: Vec<Distribution>,
    /// Number of keys in the store
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(2..=MOST_KEYS))]
    pub(crate) keys: u64,
    /// Bytes of each value
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(8..=65_536))]
    pub(crate) value_bytes: u32,
    /// Transactions that are under way at the same time, one run each
    #[arg(long, value_delimiter = ',', default_value = "64", value_parser = clap::value_parser!(u32).range(1..=MOST_IN_FLIGHT))]
    pub(crate) in_flight: Vec<u32>,
    #[command(flatten)]
    pub(crate) pace: Pace,
    /// Medium of DTranx's logs
    #[arg(long, value_enum, default_value_t = Medium::Disk)]
    pub(crate) medium: Medium,
    /// Folder of DTranx's logs, instead of the one of its data
    #[arg(long)]
    pub(crate) log_folder: Option<PathBuf>,
    /// Bind DTranx's threads to cores
    #[arg(long)]
    pub(crate) pinned: bool,
}

impl CompareArgs {
    /// Refuses what makes no sense before anything is started.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        if self.servers > 1 && self.stores.contains(&Kind::Redis) {
            let why = "redis has no transactions over several servers: leave it out of --stores, or take --servers 1";
            return Err(BenchError::Refused(why.to_owned()));
        }
        if self.group && !(self.servers > 1 && self.servers % 2 == 1) {
            let why = format!("--group has 3, 5 or 7 members: --servers is {}", self.servers);
            return Err(BenchError::Refused(why));
        }
        if self.shape != Shape::Paper && !self.reads.is_empty() {
            let why = format!("--reads has no meaning with --shape {}: each one reads and writes", self.shape.name());
            return Err(BenchError::Refused(why));
        }
        Ok(())
    }

    /// The parts that only read, one run each.
    pub(crate) fn reads(&self) -> &[u8] {
        match self.shape {
            Shape::Transfer | Shape::Modify => &[0],
            Shape::Paper if self.reads.is_empty() => &[100, 95, 50],
            Shape::Paper => &self.reads,
        }
    }

    /// Settings with which stores are started.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            medium: self.medium,
            log_folder: self.log_folder.clone(),
            is_pinned: self.pinned,
            is_group: self.group,
            ..Settings::default()
        }
    }
}
