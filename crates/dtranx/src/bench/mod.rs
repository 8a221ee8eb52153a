//! The paper's workload (section 5.1), in a closed loop: transactions of 1 to 3 items with values of 100 bytes; an update
//! transaction writes one of its items and reads the others. Many transactions are under way at once from one thread.
//!
//! `workload` says what the transactions are, `drive` keeps them going, `terminal` is one of them.

mod drive;
mod terminal;
mod workload;

use hdrhistogram::Histogram;

use crate::client::Client;

pub use drive::{load, run};
pub use workload::{Distribution, Load};

/// How long to measure, and how hard.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the transactions are.
    pub load: Load,
    /// Transactions under way at once.
    pub in_flight: usize,
    /// How long to run before measuring.
    pub warm_up_ms: u64,
    /// How long to measure.
    pub measure_ms: u64,
    /// Where chance begins.
    pub seed: u64,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Transactions that were committed while it was measured.
    pub committed: u64,
    /// Transactions that were refused; each was followed by another one.
    pub refused: u64,
    /// Requests that failed otherwise.
    pub failed: u64,
    /// How long it took.
    pub elapsed_ms: u64,
    /// From the first read to the answer of the commit, of committed transactions, in microseconds.
    pub latency_us: Histogram<u64>,
}

impl Measured {
    /// Committed transactions per second.
    pub fn per_second(&self) -> f64 {
        self.committed as f64 * 1000.0 / self.elapsed_ms.max(1) as f64
    }

    /// The share of transactions that were committed, in percent.
    pub fn success_percent(&self) -> f64 {
        100.0 * self.committed as f64 / (self.committed + self.refused + self.failed).max(1) as f64
    }
}

/// Anything that keeps a benchmark from running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// An option is out of its range.
    #[error("{option}: {what}")]
    Option {
        /// Which.
        option: &'static str,
        /// What is wrong.
        what: String,
    },
    /// The store could not be filled.
    #[error(transparent)]
    Client(#[from] crate::client::Error),
    /// Nothing came back for too long.
    #[error("no transaction was answered for {seconds} s")]
    Stalled {
        /// How long.
        seconds: u64,
    },
}

/// A client's links, for those who do not wait.
fn links(client: &Client) -> &crate::client::Inner {
    client.shared()
}
