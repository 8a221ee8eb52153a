//! The result of a benchmark as it is written to JSON. Everything that is shown is computed from
//! this.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::Counts;

/// The version of the form below. Raised when a reader of older files would misread newer ones.
pub const FORMAT: u32 = 1;

/// Result of a whole benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BenchResult {
    /// Version of the format: [`FORMAT`].
    pub format: u32,
    /// Name of the benchmark ("ycsb a").
    pub title: String,
    /// The command line that repeats it.
    pub command: String,
    /// Conditions of the measurement, a line each: machine, servers, data, durability.
    pub facts: Vec<String>,
    /// Every run, in the order they were made: targets take turns within a round.
    pub runs: Vec<RunResult>,
}

/// Result of one run: one target, one number of clients, one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// Name of the target that was measured, as in `--targets`.
    pub target: String,
    /// Title of the workload that ran, as in "ycsb a".
    pub workload: String,
    /// Clients at the same time.
    pub clients: u32,
    /// Number of client processes that shared the clients.
    pub processes: u32,
    /// Number of the round, from 1.
    pub round: u32,
    /// Transactions a second that the option demands; `None` in a closed loop, where each client
    /// begins when it is ready.
    pub rate: Option<f64>,
    /// Seconds of the time measured.
    pub seconds: f64,
    /// Counts of all clients in the time measured: commits, conflicts, latencies.
    pub counts: Counts,
    /// Commands sent in the time measured, by name.
    pub commands: BTreeMap<String, u64>,
    /// Resources that the server and the clients used in this time.
    pub used: Used,
    /// Faults in the data; `None` when the check found none. A run that is broken has no figures.
    pub broken: Option<String>,
}

/// Resources used in the time measured. `None` where it is not known.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Used {
    /// Processor time of the servers, in microseconds.
    pub server_cpu_us: Option<i64>,
    /// Processor time of the client processes, in microseconds.
    pub client_cpu_us: Option<i64>,
    /// Bytes that the servers have written: journal and data files.
    pub server_written_bytes: Option<i64>,
}

impl RunResult {
    /// Number of committed transactions in a second.
    pub fn rate(&self) -> f64 {
        self.counts.committed() as f64 / self.seconds
    }

    /// Operations of committed transactions a second, as the workload counts them.
    pub fn operations_rate(&self) -> f64 {
        self.counts.operations as f64 / self.seconds
    }

    /// This number divided by the committed transactions.
    pub fn per_transaction(&self, n: f64) -> f64 {
        n / (self.counts.committed() as f64).max(1.0)
    }

    /// Attempts that a rival ended, in percent of all attempts.
    pub fn conflicts_percent(&self) -> f64 {
        let (conflicts, committed) = (self.counts.conflicts() as f64, self.counts.committed() as f64);
        100.0 * conflicts / (conflicts + committed).max(1.0)
    }
}
