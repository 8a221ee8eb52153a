//! The options that every measurement has.

use std::path::PathBuf;

use clap::Args;

/// How long and how often is measured.
#[derive(Args, Debug, Clone)]
pub(crate) struct Pace {
    /// Seconds that are measured, after the warm-up
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,
    /// Seconds of warm-up before the measurement
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=600))]
    pub(crate) warm_up: u64,
    /// How often each run is made, those that are compared in turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Two runs with the same seed do the same work
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Writes the figures to this file, too
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
}
