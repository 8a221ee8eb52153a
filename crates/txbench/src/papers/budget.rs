//! Lengths of single runs, such that all fit into the time. Pure.

use std::time::Duration;

/// The warm-up of every run.
pub const WARM_UP: Duration = Duration::from_secs(1);
/// A run shorter than this is only made where there is no time for more.
const GOOD: Duration = Duration::from_secs(3);
/// The shortest time of a run.
const SHORTEST: Duration = Duration::from_secs(1);
/// Greatest number of rounds: as many as the papers made.
const MOST_ROUNDS: u32 = 5;
/// A longer run says nothing more.
const LONGEST: Duration = Duration::from_secs(60);

/// Number of rounds of each run, and the length of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Number of rounds, from 1 to 5.
    pub rounds: u32,
    /// Seconds of a run, at least 1.
    pub seconds: u64,
}

/// The budget that is left, and the time that one run takes besides what is measured: loading,
/// starting clients, checking.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// Time that is left until the end of the budget.
    pub time: Duration,
    /// Runs of one round that are still to be made.
    pub runs: usize,
    /// Number of those runs that come next.
    pub next: usize,
    /// Time that one run takes besides what is measured.
    pub overhead: Duration,
}

impl Left {
    /// Length of the next runs: the most rounds that are still long enough. Where not all that is
    /// left fits, the next runs are as short as can be, and the last ones are not made. `None`
    /// where not even the next ones fit.
    pub fn length(&self) -> Option<Length> {
        let each = self.share(self.runs);
        let of = |rounds: u32| (each / rounds).saturating_sub(self.overhead + WARM_UP).min(LONGEST);
        let rounds = (1..=MOST_ROUNDS).rev().find(|rounds| of(*rounds) >= GOOD).unwrap_or(1);
        let seconds = of(rounds).as_secs().max(SHORTEST.as_secs());
        let fits = self.share(self.next) >= self.overhead + WARM_UP + SHORTEST;
        fits.then_some(Length { rounds, seconds })
    }

    /// The time of each of so many runs.
    fn share(&self, runs: usize) -> Duration {
        self.time / u32::try_from(runs.max(1)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(seconds: u64, runs: usize, next: usize, overhead: u64) -> Option<Length> {
        Left { time: Duration::from_secs(seconds), runs, next, overhead: Duration::from_secs(overhead) }.length()
    }

    fn length(seconds: u64, runs: usize, overhead: u64) -> Option<Length> {
        left(seconds, runs, runs, overhead)
    }

    #[test]
    fn all_rounds_fit_into_the_time() {
        for (seconds, runs, overhead) in [(1_800, 100, 2), (300, 7, 1), (40_000, 130, 3), (130, 10, 5), (10, 1, 0)] {
            let Length { rounds, seconds: each } = length(seconds, runs, overhead).expect("there is time");
            let all = u64::from(rounds) * runs as u64 * (each + overhead + WARM_UP.as_secs());
            assert!(all <= seconds, "{all} of {seconds}");
        }
    }

    #[test]
    fn rounds_are_added_while_they_are_long_enough() {
        assert_eq!(length(100, 10, 2), Some(Length { rounds: 1, seconds: 7 }));
        assert_eq!(length(120, 10, 2), Some(Length { rounds: 2, seconds: 3 }));
        assert_eq!(length(100_000, 10, 2), Some(Length { rounds: 5, seconds: 60 }));
    }

    #[test]
    fn where_not_all_fits_the_next_runs_are_short_as_long_as_they_fit() {
        let shortest = Some(Length { rounds: 1, seconds: 1 });
        assert_eq!(length(40, 10, 2), shortest);
        assert_eq!(left(30, 10, 5, 2), shortest, "the last ones will not be made");
        assert_eq!(length(30, 10, 2), None);
        assert_eq!(length(0, 10, 0), None);
    }
}
