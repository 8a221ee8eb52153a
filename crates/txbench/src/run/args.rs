//! Options that the runs of all workloads share: targets, clients, times, durability, servers. Each
//! workload has its own in its folder.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroU64},
};

use benchkit::report::OutputArgs;
use clap::Args;

use crate::targets::{Acknowledged, Durability, Isolation, registry::TargetName};

/// The arguments of every run.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Measuring")]
pub struct RunArgs {
    /// Targets to measure, in this order
    #[arg(long, value_delimiter = ',', default_value = "plain,native,mongotx")]
    pub targets: Vec<TargetName>,
    /// Numbers of clients that work at the same time; one measurement for each
    #[arg(long, value_delimiter = ',', default_value = "1,8,32", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub clients: Vec<u32>,
    /// Client processes that share the clients
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub processes: u32,
    /// Length of one measurement, in seconds
    #[arg(long, default_value = "5")]
    pub seconds: NonZeroU64,
    /// Time before a measurement that is not measured, in seconds [default: a quarter of --seconds,
    /// at most 3]
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=3_600))]
    pub warm_up: Option<u64>,
    /// Measurements of each kind, taken in turns; tables show medians
    #[arg(long, default_value = "3")]
    pub rounds: NonZeroU32,
    /// Transactions per second that are begun, whether or not the target keeps up (open loop)
    /// [default: as many as the clients can make]
    #[arg(long, value_parser = positive)]
    pub rate: Option<f64>,
    /// Number of attempts of one transaction before it is given up
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub attempts: u32,
    /// Isolation of transactions; refused for targets that do not have this level. Several: each
    /// target is measured at those of them that it has, in turns, and named with its level
    #[arg(long, value_enum, value_delimiter = ',', default_value = "read-committed")]
    pub isolation: Vec<Isolation>,
    /// Time that a write waits for a rival's lock before it is a conflict, in milliseconds, with
    /// targets that wait [default: 100]
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub lock_wait_ms: Option<u64>,
    /// Number of nodes that must have a write before it is answered, or "majority"
    #[arg(long, default_value = "majority", value_parser = acknowledged)]
    pub write_concern: Acknowledged,
    /// Whether a write is answered only when it is in the journals, on disk, of the nodes of
    /// --write-concern
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub journal: bool,
    /// A running server for targets that need no replica set; one is started if none is named
    #[arg(long)]
    pub uri: Option<String>,
    /// A running replica set, for targets that need one; one is started if none is named
    #[arg(long)]
    pub replica_uri: Option<String>,
    /// Nodes of the replica set that is started
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=7))]
    pub replica_nodes: u8,
    /// Address of a running server of DTranx, for the target `dtranx`; several for a cluster. It is
    /// started if none is named
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub dtranx: Vec<SocketAddr>,
    /// Servers of the cluster of DTranx that is started
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub dtranx_servers: u16,
    /// Run all targets on the replica set, also those that do not need one; not `dtranx`
    #[arg(long)]
    pub all_on_replica_set: bool,
    /// Seed of the work: two runs with the same seed do the same
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Files that the result is written to, besides the printed tables.
    #[command(flatten)]
    pub output: OutputArgs,
}

impl RunArgs {
    /// Durability that a commit waits for, with every target.
    pub fn durability(&self) -> Durability {
        Durability { nodes: self.write_concern, journaled: self.journal }
    }

    /// Time that a write waits for a rival's lock in milliseconds, with targets that wait.
    pub fn lock_wait_ms(&self) -> u64 {
        self.lock_wait_ms.unwrap_or(100)
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1_000_000.0 => Ok(rate),
        _ => Err("more than 0 and at most 1000000 is expected".to_owned()),
    }
}

fn acknowledged(text: &str) -> Result<Acknowledged, String> {
    match text {
        "majority" => Ok(Acknowledged::Majority),
        number => match number.parse() {
            Ok(nodes @ 1..=7) => Ok(Acknowledged::Nodes(nodes)),
            _ => Err("a number from 1 to 7, or \"majority\", is expected".to_owned()),
        },
    }
}
