//! What one client process is told to do, and what it answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    measure::{Counts, Second},
    target::{Connection, registry::TargetName},
    workload::registry::WorkloadSpec,
};

/// A part of a run's clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// What they do.
    pub workload: WorkloadSpec,
    /// On what.
    pub target: TargetName,
    /// How it is connected.
    pub connection: Connection,
    /// The index of the first client of this part.
    pub first: u32,
    /// How many clients this part has.
    pub count: u32,
    /// How many all parts have.
    pub of: u32,
    /// Differs between runs, not between targets.
    pub seed: u64,
    /// Transactions a second that all parts together begin; `None`: as many as they can.
    pub rate: Option<f64>,
    /// Attempts of one transaction before it is given up.
    pub attempts: u32,
}

/// What a part did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct JobResult {
    /// What its clients counted.
    pub counts: Counts,
    /// Commands sent in the time measured, by name.
    pub commands: BTreeMap<String, u64>,
    /// Processor time of the process in that time, in microseconds.
    pub cpu_us: Option<i64>,
}

impl JobResult {
    /// That of another part besides.
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
    /// The time measured begins.
    Measure,
    /// It ends: each client ends its transaction, and then the process.
    Stop,
}

/// A line from a worker process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// All clients are connected and work.
    Ready,
    /// How far it is.
    Progress {
        /// What was done since the run began.
        so_far: Second,
        /// No client has anything more to do.
        finished: bool,
    },
    /// The end.
    Done(Box<JobResult>),
    /// It failed, and why.
    Failed(String),
}
