//! Counters of clients: attempts by their end, latencies, seconds; of each kind of transaction, and
//! of all together. They can be added. Medians and rates are made of them in `report::summary`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Latencies;

/// Counts of clients during the time measured, and over all the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Counts by kind of transaction.
    pub kinds: BTreeMap<String, KindCounts>,
    /// Counts of each second of the time measured, from its beginning.
    pub seconds: Vec<Second>,
    /// Operations of the committed transactions, as the workload counts them.
    pub operations: u64,
    /// Transactions committed since the run began, warm-up and the time after the measurement
    /// included.
    pub committed_in_all: u64,
    /// Commits whose outcome was not known, likewise.
    pub unknown_in_all: u64,
    /// Violations that clients saw, over all the run.
    pub violations_in_all: u64,
    /// Effects of clients on the data, in numbers of the workload's own, over all the run.
    #[serde(default)]
    pub effects_in_all: BTreeMap<String, u64>,
}

/// Counts of one kind of transaction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct KindCounts {
    /// Latencies of the transactions that committed: from the first attempt (open loop: from the
    /// time it was due) to the acknowledged commit.
    pub latencies: Latencies,
    /// Number of transactions rolled back because the workload wants it so.
    pub rolled_back: u64,
    /// Attempts that a rival ended, by reason.
    pub conflicts: BTreeMap<String, u64>,
    /// Transactions given up after as many attempts as are allowed.
    pub given_up: u64,
}

/// Attempts of all kinds of transactions that ended in one second of the time measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Number of transactions that committed.
    pub committed: u64,
    /// Attempts that a rival ended.
    pub conflicts: u64,
}

impl KindCounts {
    fn add(&mut self, other: &Self) {
        self.latencies.add(&other.latencies);
        self.rolled_back += other.rolled_back;
        self.given_up += other.given_up;
        for (reason, count) in &other.conflicts {
            *self.conflicts.entry(reason.clone()).or_default() += count;
        }
    }

    /// Attempts that a rival ended.
    pub fn conflicts(&self) -> u64 {
        self.conflicts.values().sum()
    }
}

impl Counts {
    /// Adds the counts of other clients.
    pub fn add(&mut self, other: &Self) {
        for (kind, counts) in &other.kinds {
            self.kinds.entry(kind.clone()).or_default().add(counts);
        }
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), Second::default());
        }
        for (all, one) in self.seconds.iter_mut().zip(&other.seconds) {
            all.committed += one.committed;
            all.conflicts += one.conflicts;
        }
        self.operations += other.operations;
        self.committed_in_all += other.committed_in_all;
        self.unknown_in_all += other.unknown_in_all;
        self.violations_in_all += other.violations_in_all;
        for (name, number) in &other.effects_in_all {
            *self.effects_in_all.entry(name.clone()).or_default() += number;
        }
    }

    /// The counts of one kind of transaction.
    pub(crate) fn kind(&mut self, kind: &str) -> &mut KindCounts {
        self.kinds.entry(kind.to_owned()).or_default()
    }

    /// The counts of a second of the time measured, from 0.
    pub(crate) fn second(&mut self, second: usize) -> &mut Second {
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Second::default());
        }
        &mut self.seconds[second]
    }

    /// Transactions that committed while it was measured.
    pub fn committed(&self) -> u64 {
        self.kinds.values().map(|kind| kind.latencies.count()).sum()
    }

    /// Attempts that a rival ended.
    pub fn conflicts(&self) -> u64 {
        self.kinds.values().map(KindCounts::conflicts).sum()
    }

    /// The latencies of all kinds together.
    pub fn latencies(&self) -> Latencies {
        let mut all = Latencies::new();
        self.kinds.values().for_each(|kind| all.add(&kind.latencies));
        all
    }
}
