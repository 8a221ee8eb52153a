//! Clocks that give change events their times (`clusterTime`). Leases, locks and time limits do not
//! use them: they go by the server's clock and by the runtime's.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
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

    /// The next moment, for a change that is not committed yet. It is released when that is over.
    /// Between the two, a clock that says up to when all changes are known stays before it.
    ///
    /// ```
    /// use mongotx::{Clock, LogicalClock};
    ///
    /// let clock = LogicalClock::default();
    /// let change = clock.hold();
    /// assert!(clock.now() > change && clock.settled() < change);
    /// clock.release(change);
    /// assert!(clock.settled() > change);
    /// ```
    fn hold(&self) -> Timestamp {
        self.now()
    }

    /// The change of this moment, by [`Clock::hold`], is committed, or will not be.
    ///
    /// ```
    /// use mongotx::{Clock, LogicalClock};
    ///
    /// let clock = LogicalClock::default();
    /// clock.release(clock.hold());
    /// ```
    fn release(&self, _change: Timestamp) {}
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
    /// Moments of changes that are not committed yet.
    held: Mutex<BTreeSet<u64>>,
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

    /// A moment before which no change is still to be committed: the next one, or an earlier one
    /// while there are such changes.
    ///
    /// ```
    /// use mongotx::{Clock, LogicalClock};
    ///
    /// let clock = LogicalClock::default();
    /// let before = clock.now();
    /// assert!(clock.settled() > before);
    /// ```
    pub fn settled(&self) -> Timestamp {
        let held = self.held();
        let now = self.now();
        held.first().map_or(now, |first| now.min(timestamp(first - 1)))
    }

    fn beyond(&self, least: u64) -> Timestamp {
        let last = self.last.fetch_update(SeqCst, SeqCst, |last| Some(least.max(last + 1))).unwrap_or_default();
        timestamp(least.max(last + 1))
    }

    /// No code panics while it holds this lock.
    fn held(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn timestamp(moment: u64) -> Timestamp {
    Timestamp { time: (moment >> 32) as u32, increment: moment as u32 }
}

fn moment(time: Timestamp) -> u64 {
    u64::from(time.time) << 32 | u64::from(time.increment)
}

impl Clock for LogicalClock {
    fn now(&self) -> Timestamp {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.tick(u32::try_from(now.as_secs()).unwrap_or(u32::MAX))
    }

    fn after(&self, time: Timestamp) -> Timestamp {
        self.beyond(moment(time).saturating_add(1))
    }

    fn hold(&self) -> Timestamp {
        let mut held = self.held();
        let change = self.now();
        held.insert(moment(change));
        change
    }

    fn release(&self, change: Timestamp) {
        self.held().remove(&moment(change));
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

    #[test]
    fn what_is_settled_stays_before_the_first_change_that_is_under_way() {
        let clock = LogicalClock::default();
        let (first, second) = (clock.hold(), clock.hold());
        assert!(clock.settled() < first && clock.now() > second);
        clock.release(second);
        assert!(clock.settled() < first);
        clock.release(first);
        assert!(clock.settled() > second);
    }
}
