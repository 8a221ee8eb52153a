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

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measure,
    Stop,
}

/// Shared by all clients of a process.
pub(crate) struct Clock {
    phase: watch::Sender<Phase>,
    measured_since: OnceLock<Instant>,
    stopped_at: OnceLock<Instant>,
    committed: AtomicU64,
    conflicts: AtomicU64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            phase: watch::channel(Phase::WarmUp).0,
            measured_since: OnceLock::new(),
            stopped_at: OnceLock::new(),
            committed: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
        }
    }

    /// Begins the time that is measured.
    pub(crate) fn measure(&self) {
        self.measured_since.get_or_init(Instant::now);
        self.phase.send_replace(Phase::Measure);
    }

    /// Ends the time that is measured; no transaction is begun from now on.
    pub(crate) fn stop(&self) {
        self.stopped_at.get_or_init(Instant::now);
        self.phase.send_replace(Phase::Stop);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.phase.borrow() == Phase::Stop
    }

    /// Time since the clock was stopped; zero before.
    pub(crate) fn stopped_for(&self) -> Duration {
        self.stopped_at.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// The second of the time measured that it is now, if it is being measured.
    pub(crate) fn second(&self) -> Option<usize> {
        let measured = *self.phase.borrow() == Phase::Measure;
        let since = self.measured_since.get().filter(|_| measured)?;
        usize::try_from(since.elapsed().as_secs()).ok()
    }

    /// Sleeps until then, or until the run is stopped; returns whether it was stopped.
    pub(crate) async fn sleep_until(&self, then: Instant) -> bool {
        let mut phase = self.phase.subscribe();
        let stopped = async { phase.wait_for(|phase| *phase == Phase::Stop).await.is_ok() };
        tokio::select! {
            stopped = stopped => stopped,
            () = tokio::time::sleep_until(then.into()) => self.is_stopped(),
        }
    }

    pub(crate) fn note_committed(&self) {
        self.committed.fetch_add(1, Relaxed);
    }

    pub(crate) fn note_conflict(&self) {
        self.conflicts.fetch_add(1, Relaxed);
    }

    /// Counts so far, warm-up included.
    pub(crate) fn so_far(&self) -> Second {
        Second { committed: self.committed.load(Relaxed), conflicts: self.conflicts.load(Relaxed) }
    }
}
