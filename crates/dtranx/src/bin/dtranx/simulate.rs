//! Simulated clusters, one seed after another.

use std::time::{Duration, Instant};

use clap::Args;
use dtranx::remark;
use dtranx::sim::{self, Report};

use crate::failure::Failure;
use crate::say::say;

#[derive(Args)]
pub(crate) struct SimulateOptions {
    /// Number of seeds
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed; a seed that fails once fails each time
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of servers [default: the seed decides]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=5))]
    servers: Option<u16>,
    /// Number of crashes of servers [default: the seed decides]
    #[arg(long)]
    crashes: Option<usize>,
    /// Show every event of the runs
    #[arg(long)]
    trace: bool,
}

pub(crate) fn run_simulation(options: &SimulateOptions) -> Result<(), Failure> {
    let mut all = Report::default();
    let mut reported_at = Instant::now();
    for seed in options.seed..options.seed.saturating_add(options.seeds) {
        let mut wild = sim::SimOptions::varied(seed);
        wild.servers = options.servers.unwrap_or(wild.servers);
        wild.crashes = options.crashes.unwrap_or(wild.crashes);
        let done = if options.trace {
            sim::simulate_traced(seed, &wild, &mut |line| say!("{line}"))
        } else {
            sim::simulate(seed, &wild)
        };
        let report = done.map_err(|failure| Failure::No(failure.to_string()))?;
        all.committed += report.committed;
        all.refused += report.refused;
        all.unknown_committed += report.unknown_committed;
        all.unknown_aborted += report.unknown_aborted;
        all.crashes += report.crashes;
        all.events += report.events;
        if reported_at.elapsed() > Duration::from_secs(5) {
            remark::say(format_args!("{} seeds", seed - options.seed + 1));
            reported_at = Instant::now();
        }
    }
    say!(
        "{} seeds: {} committed, {} refused, {} unknown; {} crashes, {} events; nothing wrong",
        options.seeds,
        all.committed,
        all.refused,
        all.unknown_committed + all.unknown_aborted,
        all.crashes,
        all.events
    );
    Ok(())
}
