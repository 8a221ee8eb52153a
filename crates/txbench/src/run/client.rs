//! One client: chooses, tries, tries again after a conflict, and counts.
//!
//! Closed loop: the next transaction begins when the last one has ended, and its latency counts
//! from its first attempt. Open loop: transactions are due at fixed times, whatever the target
//! does, and the latency counts from the time when it was due: what waits because the target is
//! slow is not left out (no coordinated omission).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mongotx::Backoff;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::clock::Clock;
use crate::{
    error::{BenchError, OpError},
    measure::{Counts, Second},
    targets::Session,
    workload::{Chosen, Client, Done},
};

const FIRST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Time for which a transaction is still tried again after the run was stopped.
const GRACE: Duration = Duration::from_secs(10);

/// Times at which one client's transactions are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    next: Instant,
    every: Duration,
}

impl Pace {
    /// Pace of the client with this index, when all `of` of them begin `rate` transactions a
    /// second, evenly spread.
    pub(crate) fn new(start: Instant, index: u32, of: u32, rate: f64) -> Self {
        let between = Duration::from_secs_f64(1.0 / rate);
        Self { next: start + between * index, every: between * of }
    }

    fn next(&mut self) -> Instant {
        let due = self.next;
        self.next += self.every;
        due
    }
}

/// A client with all it needs.
pub(crate) struct Worker {
    pub(crate) session: Box<dyn Session>,
    pub(crate) client: Box<dyn Client>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) pace: Option<Pace>,
    pub(crate) attempts: u32,
    pub(crate) seed: u64,
}

/// End of a transaction.
enum Ended {
    Committed,
    RolledBack,
    GivenUp,
    /// The outcome is not known.
    Unknown,
    /// The client has nothing more to do.
    Finished,
}

impl Worker {
    /// Works until the run is stopped or nothing is left to do.
    pub(crate) async fn work(mut self) -> Result<Counts, BenchError> {
        let mut counts = Counts::default();
        // Not the workload's: a pause must not change what is drawn.
        let mut random = StdRng::seed_from_u64(self.seed ^ 0x70_61_75_73_65);
        while !self.clock.is_stopped() {
            let due = self.pace.as_mut().map(Pace::next);
            if let Some(due) = due
                && self.clock.sleep_until(due).await
            {
                break;
            }
            let chosen = self.client.choose();
            if !chosen.wait.is_zero() && self.clock.sleep_until(Instant::now() + chosen.wait).await {
                break;
            }
            let start = due.unwrap_or_else(Instant::now);
            match self.transaction(&chosen, &mut counts, &mut random).await? {
                Ended::Finished => break,
                ended => self.count(&chosen, &ended, start.elapsed(), &mut counts),
            }
        }
        self.client.finish(&mut *self.session).await.map_err(|error| BenchError::Failed(error.to_string()))?;
        counts.violations_in_all = self.client.violations();
        counts.effects_in_all = self.client.effects().into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
        Ok(counts)
    }

    /// Tries a transaction until it has ended.
    async fn transaction(
        &mut self,
        chosen: &Chosen,
        counts: &mut Counts,
        random: &mut StdRng,
    ) -> Result<Ended, BenchError> {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        for _ in 0..self.attempts {
            let reason = match self.client.attempt(&mut *self.session).await {
                Ok(Done::Committed) => return Ok(Ended::Committed),
                Ok(Done::RolledBack) => return Ok(Ended::RolledBack),
                Ok(Done::Finished) => return Ok(Ended::Finished),
                Err(OpError::Conflict(reason)) => reason,
                Err(OpError::Duplicate) => "duplicate key",
                Err(OpError::Unknown(_)) => return Ok(Ended::Unknown),
                Err(OpError::Fatal(error)) => return Err(error),
            };
            // Whatever the attempt left open; a rival's conflict has ended it already.
            let _ = self.session.rollback().await;
            self.count_conflict(chosen, reason, counts);
            if self.clock.is_stopped() && self.clock.stopped_for() > GRACE {
                break;
            }
            tokio::time::sleep(backoff.next_pause().mul_f64(random.random_range(0.5..1.0))).await;
        }
        Ok(Ended::GivenUp)
    }

    fn count_conflict(&self, chosen: &Chosen, reason: &str, counts: &mut Counts) {
        self.clock.note_conflict();
        if let Some(second) = self.clock.second() {
            *counts.kind(chosen.kind).conflicts.entry(reason.to_owned()).or_default() += 1;
            counts.second(second).conflicts += 1;
        }
    }

    fn count(&self, chosen: &Chosen, ended: &Ended, latency: Duration, counts: &mut Counts) {
        match ended {
            Ended::Committed => {
                counts.committed_in_all += 1;
                self.clock.note_committed();
            }
            Ended::Unknown => counts.unknown_in_all += 1,
            Ended::RolledBack | Ended::GivenUp | Ended::Finished => {}
        }
        let Some(second) = self.clock.second() else { return };
        match ended {
            Ended::Committed => {
                counts.kind(chosen.kind).latencies.note(latency);
                counts.second(second).committed += 1;
                counts.operations += u64::from(chosen.operations);
            }
            Ended::RolledBack => counts.kind(chosen.kind).rolled_back += 1,
            Ended::GivenUp => counts.kind(chosen.kind).given_up += 1,
            Ended::Unknown | Ended::Finished => {}
        }
    }
}

impl Counts {
    fn kind(&mut self, kind: &str) -> &mut crate::measure::KindCounts {
        self.kinds.entry(kind.to_owned()).or_default()
    }

    fn second(&mut self, second: usize) -> &mut Second {
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Second::default());
        }
        &mut self.seconds[second]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_of_all_clients_are_due_at_the_rate_asked() {
        let start = Instant::now();
        let mut due: Vec<Duration> = Vec::new();
        for index in 0..4 {
            let mut pace = Pace::new(start, index, 4, 100.0);
            due.extend((0..25).map(|_| pace.next() - start));
        }
        due.sort();
        for (at, due) in due.iter().enumerate() {
            assert!((due.as_secs_f64() - at as f64 / 100.0).abs() < 1e-6, "{at}: {due:?}");
        }
    }
}
