//! Progress shown while a benchmark runs: the run under way, and the clients' rates at this moment.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use benchkit::measure::Second;
use indicatif::{ProgressBar, ProgressStyle};

use super::RunArgs;

/// Least time over which a rate is taken.
const LEAST: Duration = Duration::from_millis(500);

/// The line at the bottom of the terminal. Nothing is shown where the output is none.
pub(crate) struct Live {
    bar: ProgressBar,
    now: Mutex<Now>,
}

struct Now {
    run: String,
    since: Instant,
    then: Second,
}

impl Live {
    pub(crate) fn new(args: &RunArgs) -> Self {
        let runs = u64::from(args.rounds.get()) * (args.clients.len() * args.targets.len()) as u64;
        let bar = ProgressBar::new(runs);
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len} [{elapsed}, {eta} to go] {wide_msg}");
        let bar = match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        bar.enable_steady_tick(Duration::from_secs(1));
        Self { bar, now: Mutex::new(Now { run: String::new(), since: Instant::now(), then: Second::default() }) }
    }

    /// Shows that a run begins.
    pub(crate) fn begin(&self, run: &str) {
        *self.lock() = Now { run: run.to_owned(), since: Instant::now(), then: Second::default() };
        self.bar.set_message(run.to_owned());
    }

    pub(crate) fn loading(&self, done: u64, of: u64) {
        let percent = 100 * done / of.max(1);
        self.bar.set_message(format!("{}: loading, {percent} % of {of} documents", self.lock().run));
    }

    pub(crate) fn working(&self, so_far: Second) {
        let mut now = self.lock();
        let elapsed = now.since.elapsed();
        if elapsed < LEAST {
            return;
        }
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / elapsed.as_secs_f64();
        let (committed, conflicts) =
            (rate(so_far.committed, now.then.committed), rate(so_far.conflicts, now.then.conflicts));
        self.bar.set_message(format!("{}: {committed:.0} tx/s, {conflicts:.0} conflicts/s", now.run));
        (now.since, now.then) = (Instant::now(), so_far);
    }

    /// Shows that a run has ended.
    pub(crate) fn done(&self) {
        self.bar.inc(1);
    }

    /// Removes the progress at the end.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
