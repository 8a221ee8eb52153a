//! The tally of all reports of the workers so far: acknowledged transfers, sums that readers saw,
//! and what must not happen. The data is compared with it at the end, in `check`.

use std::{collections::BTreeMap, time::Duration};

use super::{
    crew::{WorkerMessage, WorkerName},
    wire::{Stats, Transfer, WorkerLine},
};

/// Violations kept in words; the others are only counted.
const KEPT: usize = 20;

/// The tally of a run: see the module's header.
#[derive(Default)]
pub(super) struct Tally {
    /// The sum that every reader must see.
    pub(super) expected: i64,
    /// Acknowledged transfers by their id.
    pub(super) done: BTreeMap<String, Transfer>,
    pub(super) declined: u64,
    pub(super) gave_up: u64,
    pub(super) kills: u64,
    pub(super) sums: u64,
    pub(super) wrong_sums: u64,
    pub(super) sum_conflicts: u64,
    stats: BTreeMap<WorkerName, Stats>,
    /// Failures other than wrong sums.
    pub(super) failures: Vec<String>,
    pub(super) failure_count: u64,
}

impl Tally {
    /// A tally without any report yet.
    pub(super) fn new(expected: i64) -> Self {
        Self { expected, ..Self::default() }
    }

    /// Notes a worker's report. The caller judges its silence.
    pub(super) fn note(&mut self, name: WorkerName, heard: WorkerMessage) {
        let number = name.number;
        let line = match heard {
            WorkerMessage::Line(line) => line,
            WorkerMessage::Nonsense(text) => return self.fail(format!("worker {number} said {text:?}")),
            WorkerMessage::Silence => return,
        };
        match line {
            WorkerLine::Done(transfer) => {
                if let Some(before) = self.done.insert(transfer.id.clone(), transfer) {
                    self.fail(format!("transfer {} was acknowledged twice", before.id));
                }
            }
            WorkerLine::Declined => self.declined += 1,
            WorkerLine::Sum(total) => {
                self.sums += 1;
                if total != self.expected {
                    self.wrong_sums += 1;
                    self.keep(format!("worker {number} read a total of {total} instead of {}", self.expected));
                }
            }
            WorkerLine::SumConflict => self.sum_conflicts += 1,
            WorkerLine::Stats(stats) => drop(self.stats.insert(name, stats)),
            WorkerLine::GaveUp(_) => self.gave_up += 1,
            WorkerLine::Failed(why) => self.fail(format!("worker {number}: {why}")),
        }
    }

    /// Notes something that must not happen.
    pub(super) fn fail(&mut self, what: String) {
        self.failure_count += 1;
        self.keep(what);
    }

    fn keep(&mut self, what: String) {
        if self.failures.len() < KEPT {
            self.failures.push(what);
        }
    }

    /// Acknowledged transfers a second, on average.
    pub(super) fn per_second(&self, elapsed: Duration) -> f64 {
        self.done.len() as f64 / elapsed.as_secs_f64().max(0.001)
    }

    /// The counters of all workers together.
    pub(super) fn stats(&self) -> Stats {
        self.stats.values().fold(Stats::default(), |all, one| all.and(*one))
    }
}
