//! Clocks that give change events their times (`clusterTime`). Leases, locks and time limits do not
//! use them: they go by the server's clock and by the runtime's.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::{SystemTime, UNIX_EPOCH},
};

use bson::Timestamp;

/// A clock that never stands still and never goes back. A program gives one to its client where
/// change events are to have the times of another system.
///
/// ```
/// use std::sync::Arc;
///
/// use bson::Timestamp;
/// use mongotx::{ClientOptions, Clock, LogicalClock};
///
/// let clock = Arc::new(LogicalClock::default());
/// let other_system = Timestamp { time: u32::MAX - 1, increment: 4 };
/// assert_eq!(clock.after(other_system), Timestamp { time: u32::MAX - 1, increment: 5 });
/// assert!(clock.now() > other_system); // it does not go back
/// let options = ClientOptions { clock: Some(clock), ..ClientOptions::default() };
/// ```
pub trait Clock: Send + Sync + fmt::Debug {
    /// The next moment, later than every one before.
    ///
    /// ```
    /// use mongotx::{Clock, LogicalClock};
    ///
    /// let clock = LogicalClock::default();
    /// let first = clock.now();
    /// assert!(clock.now() > first); // also within the same second
    /// ```
    fn now(&self) -> Timestamp;

    /// The next moment, later than this one, too.
    ///
    /// ```
    /// use bson::Timestamp;
    /// use mongotx::{Clock, LogicalClock};
    ///
    /// let clock = LogicalClock::default();
    /// let received = Timestamp { time: u32::MAX, increment: 1 }; // a time of another system
    /// assert_eq!(clock.after(received), Timestamp { time: u32::MAX, increment: 2 });
    /// ```
    fn after(&self, time: Timestamp) -> Timestamp;
}

/// The machine's clock in seconds, and a counter within the second.
///
/// ```
/// use mongotx::LogicalClock;
///
/// let clock = LogicalClock::default();
/// let times = [7, 7, 5, 9].map(|seconds| clock.tick(seconds)).map(|time| (time.time, time.increment));
/// assert_eq!(times, [(7, 1), (7, 2), (7, 3), (9, 1)]);
/// ```
#[derive(Debug, Default)]
pub struct LogicalClock {
    /// Seconds in the upper half, the counter in the lower.
    last: AtomicU64,
}

impl LogicalClock {
    /// The next moment. `seconds`: what a wall clock shows.
    ///
    /// ```
    /// use mongotx::LogicalClock;
    ///
    /// let clock = LogicalClock::default();
    /// let (first, second) = (clock.tick(1_700_000_000), clock.tick(1_700_000_000));
    /// assert_eq!((first.time, first.increment), (1_700_000_000, 1));
    /// assert_eq!((second.time, second.increment), (1_700_000_000, 2));
    /// ```
    pub fn tick(&self, seconds: u32) -> Timestamp {
        self.beyond(u64::from(seconds) << 32 | 1)
    }

    fn beyond(&self, least: u64) -> Timestamp {
        let last = self.last.fetch_update(SeqCst, SeqCst, |last| Some(least.max(last + 1))).unwrap_or_default();
        let now = least.max(last + 1);
        Timestamp { time: (now >> 32) as u32, increment: now as u32 }
    }
}

impl Clock for LogicalClock {
    fn now(&self) -> Timestamp {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.tick(u32::try_from(now.as_secs()).unwrap_or(u32::MAX))
    }

    fn after(&self, time: Timestamp) -> Timestamp {
        self.beyond((u64::from(time.time) << 32 | u64::from(time.increment)).saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_when_the_wall_clock_stands_still_or_goes_back() {
        let clock = LogicalClock::default();
        let times = [7, 7, 5, 9].map(|seconds| clock.tick(seconds)).map(|time| (time.time, time.increment));
        assert_eq!(times, [(7, 1), (7, 2), (7, 3), (9, 1)]);
        let ahead = Timestamp { time: 20, increment: 4 };
        let times = [clock.after(ahead), clock.tick(10)].map(|time| (time.time, time.increment));
        assert_eq!(times, [(20, 5), (20, 6)]);
    }
}
