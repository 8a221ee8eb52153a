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

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::clock::Clock;
use crate::{Error, measure::Counts};

/// Time for which a transaction is still tried again after the run was stopped.
const GRACE: Duration = Duration::from_secs(10);

/// Work of one client: transactions, one after the other.
pub trait Client: Send + 'static {
    /// Error after which a run cannot go on.
    type Error: From<Error> + Send + 'static;

    /// Chooses the next transaction, and how long the client waits before it.
    fn choose(&mut self) -> Chosen;

    /// Tries the chosen transaction once. Called again, with the same choice, after a conflict, of
    /// which nothing is left then.
    ///
    /// # Errors
    /// Those after which the run cannot go on. A conflict is no error.
    fn attempt(&mut self) -> impl Future<Output = Result<Attempt, Self::Error>> + Send;

    /// Called once, after the last transaction and outside what is measured: what the client alone
    /// knows is added to its counts here.
    ///
    /// # Errors
    /// Those after which the run cannot go on.
    fn finish(&mut self, counts: &mut Counts) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = counts;
        async { Ok(()) }
    }
}

/// The transaction that a client has chosen to run next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The kind of transaction, for the table: "new-order", "read", …
    pub kind: &'static str,
    /// Number of operations that it counts for, where operations are counted.
    pub operations: u32,
    /// Time that the client waits before it begins (keying and think time).
    pub wait: Duration,
}

/// Outcome of one attempt of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The transaction was committed, and the commit acknowledged.
    Committed,
    /// Rolled back because the workload wants it so.
    RolledBack,
    /// A rival was in the way. The reason is a short constant text, for counting.
    Conflict(&'static str),
    /// A rival was in the way, and rivals are kept out of the way for the next attempt, which has
    /// to come at once.
    Kept(&'static str),
    /// The commit was sent and its answer did not come: the transaction may have happened.
    Unknown,
    /// Nothing more to do: the client ends.
    Finished,
}

/// Limit of the attempts of a transaction, and the pauses between them.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    /// Attempts after which a transaction is given up.
    pub attempts: u32,
    /// Number of conflicts after which the next attempt follows without a pause.
    pub at_once: u32,
    /// Length of the first pause; each later one is twice as long. Chance makes a pause shorter by
    /// up to a half, so that rivals that met do not meet again.
    pub first_pause: Duration,
    /// Greatest length of a pause.
    pub longest_pause: Duration,
}

impl Retries {
    /// The longest that a transaction pauses after so many conflicts.
    fn pause(&self, conflicts: u32) -> Duration {
        match conflicts.checked_sub(self.at_once + 1) {
            None => Duration::ZERO,
            Some(doublings) => self.first_pause.saturating_mul(2_u32.saturating_pow(doublings)).min(self.longest_pause),
        }
    }
}

/// Times at which one client's transactions are due.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    next: Instant,
    every: Duration,
}

impl Pace {
    /// Pace of the client with this index, when all `of` of them begin `rate` transactions a
    /// second, evenly spread.
    pub fn new(start: Instant, index: u32, of: u32, rate: f64) -> Self {
        let between = Duration::from_secs_f64(1.0 / rate);
        Self { next: start + between * index, every: between * of }
    }

    fn next(&mut self) -> Instant {
        let due = self.next;
        self.next += self.every;
        due
    }
}

/// A client at work.
pub(super) struct Worker<C> {
    pub(super) client: C,
    pub(super) clock: Arc<Clock>,
    pub(super) pace: Option<Pace>,
    pub(super) retries: Retries,
    /// Decides the pauses. Not what the client draws: a pause must not change that.
    pub(super) random: StdRng,
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

impl<C: Client> Worker<C> {
    pub(super) fn new(client: C, clock: Arc<Clock>, pace: Option<Pace>, retries: Retries, seed: u64) -> Self {
        Self { client, clock, pace, retries, random: StdRng::seed_from_u64(seed ^ 0x70_61_75_73_65) }
    }

    /// Works until the run is stopped or nothing is left to do.
    pub(super) async fn work(mut self) -> Result<Counts, C::Error> {
        let mut counts = Counts::default();
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
            match self.transaction(&chosen, &mut counts).await? {
                Ended::Finished => break,
                ended => self.count(&chosen, &ended, start.elapsed(), &mut counts),
            }
        }
        self.client.finish(&mut counts).await?;
        Ok(counts)
    }

    /// Tries a transaction until it has ended.
    async fn transaction(&mut self, chosen: &Chosen, counts: &mut Counts) -> Result<Ended, C::Error> {
        for conflicts in 1..=self.retries.attempts {
            let (reason, pause) = match self.client.attempt().await? {
                Attempt::Committed => return Ok(Ended::Committed),
                Attempt::RolledBack => return Ok(Ended::RolledBack),
                Attempt::Unknown => return Ok(Ended::Unknown),
                Attempt::Finished => return Ok(Ended::Finished),
                Attempt::Conflict(reason) => (reason, self.retries.pause(conflicts)),
                Attempt::Kept(reason) => (reason, Duration::ZERO),
            };
            self.count_conflict(chosen, reason, counts);
            if self.clock.is_stopped() && self.clock.stopped_for() > GRACE {
                break;
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause.mul_f64(self.random.random_range(0.5..1.0))).await;
            }
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

    #[test]
    fn pauses_double_up_to_the_longest_after_those_conflicts_that_have_none() {
        let (first_pause, longest_pause) = (Duration::from_millis(1), Duration::from_millis(5));
        let retries = Retries { attempts: u32::MAX, at_once: 2, first_pause, longest_pause };
        let pauses: Vec<u128> = [1, 2, 3, 4, 5, 6, 100].map(|conflicts| retries.pause(conflicts).as_millis()).into();
        assert_eq!(pauses, [0, 0, 1, 2, 4, 5, 5]);
    }
}
