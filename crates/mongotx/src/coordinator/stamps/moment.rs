//! Moments by two clocks: by one of them an age is never too small, by the other never too large.

use std::time::{Duration, Instant, SystemTime};

/// A moment by two clocks: one that does not go back, and one that goes on while the machine is
/// suspended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    steady: Instant,
    wall: SystemTime,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { steady: Instant::now(), wall: SystemTime::now() }
    }

    /// Time since then, by the clock that has gone further.
    pub(crate) fn elapsed(self) -> Duration {
        self.until(Self::now())
    }

    /// From this moment to a later one, by the clock that has gone further in between.
    pub(crate) fn until(self, later: Self) -> Duration {
        let wall = later.wall.duration_since(self.wall).unwrap_or_default();
        later.steady.saturating_duration_since(self.steady).max(wall)
    }

    /// Time since then, by the clock that is never set, and that may stop while the machine is
    /// suspended: for what must not be taken for older than it is.
    pub(crate) fn steadily_elapsed(self) -> Duration {
        self.steady.elapsed()
    }

    /// Returns true if this moment is later, by the clock that does not go back.
    pub(crate) fn is_after(self, other: Self) -> bool {
        self.steady > other.steady
    }

    /// The moment at which both clocks will have gone further by these times.
    #[cfg(test)]
    pub(crate) fn later(self, steady: Duration, wall: Duration) -> Self {
        Self { steady: self.steady + steady, wall: self.wall + wall }
    }

    /// The moment at which the clocks were so far behind.
    #[cfg(test)]
    pub(crate) fn earlier(self, steady: Duration, wall: Duration) -> Self {
        Self { steady: self.steady.checked_sub(steady).unwrap(), wall: self.wall.checked_sub(wall).unwrap() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_that_has_gone_further_counts() {
        let (now, long) = (Moment::now(), Duration::from_secs(60));
        for earlier in [now.earlier(long, Duration::ZERO), now.earlier(Duration::ZERO, long)] {
            assert_eq!(earlier.until(now), long);
            assert_eq!(now.until(earlier), Duration::ZERO, "none goes back");
        }
        assert!(now.earlier(Duration::ZERO, long).steadily_elapsed() < long, "the wall clock was set");
        assert!(now.earlier(long, Duration::ZERO).steadily_elapsed() >= long);
    }
}
