//! The phases of a run, as its clients see them, and the counts so far, for progress reports.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::sync::watch;

use crate::measure::Second;

/// Shared by all clients of a process. A run begins with the warm-up; then [`Clock::measure`] and
/// [`Clock::stop`] are called, once each.
pub(super) struct Clock {
    measured_since: OnceLock<Instant>,
    stopped_at: OnceLock<Instant>,
    /// Wakes those that sleep when the run is stopped.
    is_stopped: watch::Sender<bool>,
    committed: AtomicU64,
    conflicts: AtomicU64,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            measured_since: OnceLock::new(),
            stopped_at: OnceLock::new(),
            is_stopped: watch::Sender::new(false),
            committed: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
        }
    }
}

impl Clock {
    /// Begins the time that is measured.
    pub(super) fn measure(&self) {
        self.measured_since.get_or_init(Instant::now);
    }

    /// Ends the time that is measured; no transaction is begun from now on.
    pub(super) fn stop(&self) {
        self.stopped_at.get_or_init(Instant::now);
        self.is_stopped.send_replace(true);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped_at.get().is_some()
    }

    /// Time since the clock was stopped; zero before.
    pub(super) fn stopped_for(&self) -> Duration {
        self.stopped_at.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// The second of the time measured that it is now, if it is being measured.
    pub(super) fn second(&self) -> Option<usize> {
        let since = self.measured_since.get().filter(|_| !self.is_stopped())?;
        usize::try_from(since.elapsed().as_secs()).ok()
    }

    /// Sleeps until then, or until the run is stopped; returns whether it was stopped.
    pub(super) async fn sleep_until(&self, then: Instant) -> bool {
        let mut is_stopped = self.is_stopped.subscribe();
        let stopped = async { is_stopped.wait_for(|is_stopped| *is_stopped).await.is_ok() };
        tokio::select! {
            stopped = stopped => stopped,
            () = tokio::time::sleep_until(then.into()) => self.is_stopped(),
        }
    }

    pub(super) fn note_committed(&self) {
        self.committed.fetch_add(1, Relaxed);
    }

    pub(super) fn note_conflict(&self) {
        self.conflicts.fetch_add(1, Relaxed);
    }

    /// Counts so far, warm-up included.
    pub(super) fn so_far(&self) -> Second {
        Second { committed: self.committed.load(Relaxed), conflicts: self.conflicts.load(Relaxed) }
    }
}
