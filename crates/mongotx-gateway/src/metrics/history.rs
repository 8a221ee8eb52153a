//! The last minutes, second by second: how many commands, how they ended, and how long they took.
//! For pictures; what is counted for ever is in `metrics/mod.rs`.
//!
//! A command costs one atomic addition here; once a second all counters are read and what has
//! changed is kept.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Number of seconds that are kept.
pub(crate) const SECONDS: usize = 300;
/// Steps of a latency in each doubling.
const STEPS: usize = 4;
/// Number of buckets: from 1 µs to 2^26 µs, which is over a minute.
const BUCKETS: usize = STEPS * 26;

/// Kinds of commands whose latencies are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandKind {
    Read,
    Write,
    Commit,
    Other,
}

impl CommandKind {
    pub(crate) const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Commit, Self::Other];

    /// The kind of a command, by the name that the table has for it.
    fn of(command: &str) -> Self {
        match command {
            "find" | "getMore" | "aggregate" | "count" | "distinct" => Self::Read,
            "insert" | "update" | "delete" | "findAndModify" | "findandmodify" => Self::Write,
            "commitTransaction" => Self::Commit,
            _ => Self::Other,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Commit => "commits",
            Self::Other => "others",
        }
    }
}

/// Counts, and what they have become second by second.
pub(super) struct History {
    errors: AtomicU64,
    buckets: [[AtomicU64; BUCKETS]; CommandKind::ALL.len()],
    kept: Mutex<HistoryState>,
}

/// The counts at the last sample, and the seconds that are kept.
#[derive(Default)]
struct HistoryState {
    errors: u64,
    buckets: Vec<u64>,
    totals: Totals,
    seconds: VecDeque<SecondFigures>,
}

/// Counters kept elsewhere, and gauges, at the end of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) committed: u64,
    pub(crate) conflicts: u64,
    pub(crate) aborted: u64,
    pub(crate) open: i64,
    pub(crate) connections: i64,
}

/// Figures of one second, as the page for operators draws them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SecondFigures {
    /// End of the second, in milliseconds since 1970.
    pub(crate) at: u64,
    /// Commands and latencies, in the order of [`CommandKind::ALL`].
    pub(crate) sorts: [Latencies; CommandKind::ALL.len()],
    pub(crate) errors: u64,
    pub(crate) committed: u64,
    /// Transactions that were rolled back because of a rival.
    pub(crate) conflicts: u64,
    /// Transactions that were rolled back for other reasons.
    pub(crate) aborted: u64,
    pub(crate) open: i64,
    pub(crate) connections: i64,
}

/// Commands of one kind in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Latencies {
    pub(crate) count: u64,
    /// Median latency of the second, in microseconds.
    pub(crate) median: u64,
    /// 99th percentile of the latency of the second, in microseconds.
    pub(crate) p99: u64,
}

impl Default for History {
    fn default() -> Self {
        let buckets = std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0)));
        Self { errors: AtomicU64::new(0), buckets, kept: Mutex::default() }
    }
}

impl History {
    /// Counts a command that was answered.
    pub(super) fn command(&self, name: &str, is_ok: bool, took: Duration) {
        self.buckets[CommandKind::of(name) as usize][bucket(took)].fetch_add(1, Relaxed);
        if !is_ok {
            self.errors.fetch_add(1, Relaxed);
        }
    }

    /// Notes the end of a second.
    pub(super) fn tick(&self, totals: Totals) {
        let now: Vec<u64> = self.buckets.iter().flatten().map(|count| count.load(Relaxed)).collect();
        let errors = self.errors.load(Relaxed);
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut kept = self.kept();
        let before = std::mem::replace(&mut kept.buckets, now.clone());
        let since = |at: usize| now[at] - before.get(at).copied().unwrap_or(0);
        let sorts = std::array::from_fn(|sort| {
            let counts: [u64; BUCKETS] = std::array::from_fn(|bucket| since(sort * BUCKETS + bucket));
            Latencies::of(&counts)
        });
        let second = SecondFigures {
            at: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            sorts,
            errors: errors - kept.errors,
            committed: totals.committed.saturating_sub(kept.totals.committed),
            conflicts: totals.conflicts.saturating_sub(kept.totals.conflicts),
            aborted: totals.aborted.saturating_sub(kept.totals.aborted),
            open: totals.open,
            connections: totals.connections,
        };
        (kept.errors, kept.totals) = (errors, totals);
        if kept.seconds.len() >= SECONDS {
            kept.seconds.pop_front();
        }
        kept.seconds.push_back(second);
    }

    /// The last seconds, the oldest first: those that ended after `since`, in milliseconds since
    /// 1970.
    pub(super) fn seconds(&self, since: u64) -> Vec<SecondFigures> {
        self.kept().seconds.iter().filter(|second| second.at > since).cloned().collect()
    }

    /// No code panics while it holds this lock.
    fn kept(&self) -> MutexGuard<'_, HistoryState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Latencies {
    fn of(counts: &[u64]) -> Self {
        let count: u64 = counts.iter().sum();
        let at = |part: f64| {
            let rank = ((count as f64 * part).ceil() as u64).max(1);
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            found.map_or(0, upper_micros)
        };
        if count == 0 { Self::default() } else { Self { count, median: at(0.5), p99: at(0.99) } }
    }
}

/// The bucket of a latency.
fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
    let doubling = micros.ilog2() as usize;
    // The two bits below the highest one.
    let step = if doubling >= 2 { (micros >> (doubling - 2)) & 3 } else { (micros << (2 - doubling)) & 3 };
    (doubling * STEPS + step as usize).min(BUCKETS - 1)
}

/// The longest latency in a bucket, in microseconds.
fn upper_micros(bucket: usize) -> u64 {
    let (doubling, step) = (bucket / STEPS, (bucket % STEPS) as u64);
    ((STEPS as u64 + step + 1) << doubling).div_ceil(STEPS as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_in_a_bucket_no_more_than_a_quarter_too_wide() {
        for micros in (0..200).chain((2..26).map(|n| (1 << n) - 1)).chain([5_000, 99_999, 1_234_567]) {
            let upper = upper_micros(bucket(Duration::from_micros(micros)));
            assert!(upper >= micros && upper as f64 <= micros.max(1) as f64 * 1.25 + 1.0, "{micros}: {upper}");
        }
        assert!(
            (1..200).all(|micros| bucket(Duration::from_micros(micros)) <= bucket(Duration::from_micros(micros + 1)))
        );
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_second_has_what_came_since_the_last_one() {
        let history = History::default();
        for micros in 1..=100 {
            history.command("find", true, Duration::from_micros(micros * 100));
        }
        history.command("commitTransaction", false, Duration::from_millis(3));
        history.tick(Totals { committed: 7, conflicts: 1, aborted: 2, open: 4, connections: 5 });
        history.command("update", true, Duration::from_micros(10));
        history.tick(Totals { committed: 9, conflicts: 1, aborted: 2, open: 0, connections: 5 });
        let seconds = history.seconds(0);
        let [first, second] = &seconds[..] else { panic!("{seconds:?}") };
        let [reads, _, commits, _] = first.sorts;
        assert_eq!((reads.count, commits.count, first.errors, first.committed), (100, 1, 1, 7));
        assert!((5_000..=6_250).contains(&reads.median) && (9_900..=12_375).contains(&reads.p99), "{reads:?}");
        assert_eq!((second.sorts[0].count, second.sorts[1].count, second.committed), (0, 1, 2));
        assert_eq!((second.errors, second.conflicts, second.open), (0, 0, 0));
        assert!(history.seconds(second.at).is_empty());
    }

    #[test]
    fn no_more_than_some_minutes_are_kept() {
        let history = History::default();
        for _ in 0..SECONDS + 5 {
            history.tick(Totals::default());
        }
        assert_eq!(history.seconds(0).len(), SECONDS);
    }
}
