//! Options of the command `tables`: which tables are made, and the sizes that they measure with.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{MOST_IN_FLIGHT, MOST_KEYS, pace::Pace};

/// The tables that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Which {
    /// The paper's workload on one and three servers
    A,
    /// The log on persistent memory (emulated) and on disk
    B,
    /// With and without the collection of garbage, over four times as many seconds
    C,
    /// Beside etcd and Redis, equally durable
    D,
    /// Stages bound to cores and not
    E,
    /// The caches of clients and servers, and without
    F,
    /// Restarts of a killed server, by what was written before
    G,
    /// Acknowledgements sent at once, and gathered for a while
    H,
    /// Events in the slots of their queue, allocated, and pooled
    I,
    /// The pause of a group when a member is killed
    J,
}

impl Which {
    pub(crate) const ALL: [Self; 10] =
        [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F, Self::G, Self::H, Self::I, Self::J];
}

/// Every table in one run. Whatever stands in one table took turns within this run.
#[derive(Args, Debug, Clone)]
pub(crate) struct TablesArgs {
    /// Only these tables [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Which>,
    #[command(flatten)]
    pub(crate) pace: Pace,
    /// A folder on a tmpfs, which emulates persistent memory
    #[arg(long, default_value = "/dev/shm")]
    pub(crate) log_folder: PathBuf,
    /// Keys in the store; table d takes a tenth of them, so does h, and f takes tenths and
    /// thousandths
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..=MOST_KEYS))]
    pub(crate) keys: u64,
    /// Transactions that are under way at the same time in tables a, c, e and f, and the most in b,
    /// d and h
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=MOST_IN_FLIGHT))]
    pub(crate) in_flight: u32,
    /// MiB that are written before the server of table g is killed, one line each
    #[arg(long, value_delimiter = ',', default_value = "0,64,256,512", value_parser = clap::value_parser!(u32).range(0..=MOST_LOG_MIB))]
    pub(crate) log_mib: Vec<u32>,
}

/// With the logs' other segments it fits into the room that the command demands.
const MOST_LOG_MIB: i64 = 2048;

impl TablesArgs {
    /// The tables to make, in order, each once.
    pub(crate) fn which(&self) -> Vec<Which> {
        let mut which = if self.only.is_empty() { Which::ALL.to_vec() } else { self.only.clone() };
        which.sort_unstable();
        which.dedup();
        which
    }

    /// Sizes written before the kills of table g, in MiB, growing.
    pub(crate) fn log_sizes(&self) -> Vec<u32> {
        let mut sizes = self.log_mib.clone();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Numbers of transactions under way: few, some, and as many as the options say.
    pub(crate) fn in_flights(&self) -> Vec<u32> {
        let mut many: Vec<u32> = [1, 16, 64].into_iter().filter(|few| *few < self.in_flight).collect();
        many.push(self.in_flight);
        many
    }
}
