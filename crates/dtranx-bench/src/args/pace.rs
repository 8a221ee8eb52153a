//! The options that every measurement has: seconds, warm-up, rounds, seed, and the file of its
//! figures.

use std::path::PathBuf;

use benchkit::{
    measure::Machine,
    report::{self, OutputArgs},
};
use clap::Args;
use serde::Serialize;

use crate::error::BenchError;

/// Lengths and number of the measurements.
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

impl Pace {
    /// Refuses a file that cannot be written, before anything is measured.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        Ok(report::check(&OutputArgs { json: self.json.clone(), ..OutputArgs::default() })?)
    }

    /// Writes figures to the file that was asked for.
    pub(crate) fn write_json(&self, figures: &impl Serialize) -> Result<(), BenchError> {
        if let Some(file) = &self.json {
            report::write_json(figures, "--json", file)?;
        }
        Ok(())
    }

    /// Under what conditions is measured, a line each.
    pub(crate) fn facts(&self, machine: &Machine) -> Vec<String> {
        let Self { rounds, seconds, warm_up, .. } = self;
        vec![
            format!("Machine: {machine}. Clients and servers share it."),
            format!("Medians of {rounds} rounds of {seconds} s, after {warm_up} s of warm-up."),
        ]
    }
}
