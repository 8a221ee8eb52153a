//! The job of one client process, and the lines in which the parent and it speak to each other.
//! Without `--processes` the same job is done in the parent.

use std::collections::BTreeMap;

use benchkit::measure::{Counts, Second};
use serde::{Deserialize, Serialize};

use crate::{
    targets::{Connection, registry::TargetName},
    workload::registry::WorkloadSpec,
};

/// A part of a run's clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Workload that the clients of this part run.
    pub workload: WorkloadSpec,
    /// Target that the clients of this part use.
    pub target: TargetName,
    /// Server and database that the target connects to.
    pub connection: Connection,
    /// The index of the first client of this part.
    pub first: u32,
    /// Number of clients of this part.
    pub count: u32,
    /// Number of clients of all parts.
    pub of: u32,
    /// Seed of the part; it differs between runs, not between targets.
    pub seed: u64,
    /// Transactions a second that all parts together begin; `None`: as many as they can.
    pub rate: Option<f64>,
    /// Attempts of one transaction before it is given up.
    pub attempts: u32,
}

/// Counts, commands and processor time of the clients of one part of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct JobResult {
    /// Counts of the part's clients.
    pub counts: Counts,
    /// Commands sent in the time measured, by name.
    pub commands: BTreeMap<String, u64>,
    /// Processor time of the process in that time, in microseconds.
    pub cpu_us: Option<i64>,
}

impl JobResult {
    /// Adds the result of another part.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        for (name, count) in &other.commands {
            *self.commands.entry(name.clone()).or_default() += count;
        }
        self.cpu_us = self.cpu_us.zip(other.cpu_us).map(|(one, more)| one + more);
    }
}

/// A line from the parent process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The time measured begins now.
    Measure,
    /// The time measured ends: each client ends its transaction, and then the process.
    Stop,
}

/// A line from a worker process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// All clients are connected, and work has begun.
    Ready,
    /// The progress of the part.
    Progress {
        /// Counts since the run began.
        so_far: Second,
        /// True if no client has anything more to do.
        finished: bool,
    },
    /// The result of the part, at its end.
    Done(Box<JobResult>),
    /// The part failed, for this reason.
    Failed(String),
}
