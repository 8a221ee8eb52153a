//! Demand for a read lease, which decides whether it is worth its price: where many queries are
//! probed within a short time, unless the last lease was lost a moment ago.

use std::time::{Duration, Instant};

/// Number of probed queries within [`WINDOW`] that are worth a lease: four times as many as it
/// sends to be renewed.
pub(super) const WORTH: u32 = 50;
const WINDOW: Duration = Duration::from_secs(5);
/// Pauses before another attempt, twice as long each time that a lease was not held for longer than
/// the last one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Probed queries, and when they are worth a lease.
#[derive(Default)]
pub(super) struct Demand {
    since: Option<Instant>,
    queries: u32,
    /// A task takes or keeps a lease.
    is_kept: bool,
    /// Time before which no attempt is made.
    not_before: Option<Instant>,
    /// Length of the last pause.
    pause: Duration,
}

impl Demand {
    /// Counts a probed query. Returns true if a task is to be started that takes a lease.
    pub(super) fn is_enough(&mut self, now: Instant) -> bool {
        if self.is_kept || self.not_before.is_some_and(|at| now < at) {
            return false;
        }
        if self.since.is_none_or(|since| now >= since + WINDOW) {
            self.since = Some(now);
            self.queries = 0;
        }
        self.queries += 1;
        self.is_kept = self.queries >= WORTH;
        self.is_kept
    }

    /// Returns true while a task takes or keeps a lease.
    pub(super) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Notes the end of a task that has held leases for this time.
    pub(super) fn ended(&mut self, held: Duration, now: Instant) {
        let pause = match held > self.pause {
            true => FIRST_PAUSE,
            false => (2 * self.pause).clamp(FIRST_PAUSE, LONGEST_PAUSE),
        };
        *self = Self { not_before: Some(now + pause), pause, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_attempts_in_vain_grow() {
        let (mut demand, now) = (Demand::default(), Instant::now());
        let mut pauses = Vec::new();
        for held in [0, 0, 2, 3, 0, 0] {
            demand.ended(Duration::from_secs(held), now);
            pauses.push((demand.not_before.unwrap() - now).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
        demand.ended(Duration::from_secs(11), now);
        assert_eq!(demand.not_before.unwrap() - now, FIRST_PAUSE, "it was worth it");
    }
}
