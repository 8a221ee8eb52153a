//! Threads that run stages: take what there is, spin briefly, then sleep until the bell or the next
//! deadline.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::binding::bind;
use super::counters::{Counters, StageCounter};
use super::signal::Signal;

/// Number of times that a thread looks for work before it sleeps, if each has a core: waking takes
/// longer.
const SPINS: u32 = 200;
/// The same if threads share cores: a thread that looks in vain keeps another from its work.
const SPINS_SHARED: u32 = 20;
/// Longest sleep of a thread, in milliseconds.
const LONGEST_SLEEP_MS: u64 = 100;

/// A stage that cannot go on; the whole engine ends.
#[derive(Debug, thiserror::Error)]
#[error("the {stage} stage failed: {message}")]
pub struct StageError {
    /// Name of the stage that failed.
    pub stage: String,
    /// Reason why the stage ended.
    pub message: String,
}

/// A stage: a handler with its queues.
pub trait Stage: Send {
    /// Name of the stage in its counters and metrics.
    fn name(&self) -> &'static str;

    /// Takes a batch and handles it, without waiting. Returns the number of its events.
    ///
    /// # Errors
    /// It cannot go on, and the engine must end.
    fn run(&mut self, now_ms: u64) -> Result<usize, String>;

    /// Returns true if there is work to do at once.
    fn has_work(&self) -> bool;

    /// Time at which it wants to be run again, even without an event.
    fn deadline_ms(&self) -> Option<u64> {
        None
    }

    /// Returns true if there is nothing to do, by queues and clock. A cheap look for stages that
    /// share a thread with busy ones.
    fn is_idle(&self, now_ms: u64) -> bool {
        !self.has_work() && self.deadline_ms().is_none_or(|at_ms| at_ms > now_ms)
    }

    /// Sleeps in the stage's own way, if it has one, and returns whether it has.
    fn sleep(&mut self, _longest: Duration) -> bool {
        false
    }
}

/// A thread's work: some stages.
pub struct Worker {
    stages: Vec<(Box<dyn Stage>, Arc<StageCounter>)>,
    signal: Arc<Signal>,
    core: Option<usize>,
}

impl Worker {
    /// A thread without stages. `signal` is what the stages' queues ring.
    pub fn new(signal: Arc<Signal>, core: Option<usize>) -> Self {
        Self { stages: Vec::new(), signal, core }
    }

    /// Adds a stage that this thread runs, in turns with those that it has.
    pub fn add(&mut self, stage: Box<dyn Stage>, counters: &Counters) {
        let counter = counters.stage(stage.name());
        self.stages.push((stage, counter));
    }

    fn work(&mut self, started: Instant, spins: u32, ending: &Ending) -> Result<(), StageError> {
        self.signal.answer_here();
        if let Some(core) = self.core {
            // A machine or container may not allow it; the stages work all the same.
            let _ = bind(core);
        }
        let mut idle = 0;
        while !ending.is_set() {
            if self.round(started)? > 0 {
                idle = 0;
            } else if idle < spins {
                idle += 1;
                std::hint::spin_loop();
            } else {
                self.sleep(started);
                idle = 0;
            }
        }
        Ok(())
    }

    /// Runs every stage once.
    fn round(&mut self, started: Instant) -> Result<usize, StageError> {
        let mut all = 0;
        // The clock is read again only after a stage that had something to do: most looks find
        // nothing.
        let mut before = Instant::now();
        let mut now_ms = before.duration_since(started).as_millis() as u64;
        for (stage, counter) in &mut self.stages {
            let handled =
                stage.run(now_ms).map_err(|message| StageError { stage: stage.name().to_owned(), message })?;
            if handled > 0 {
                let after = Instant::now();
                counter.note(handled, after.duration_since(before).as_nanos() as u64);
                before = after;
                now_ms = before.duration_since(started).as_millis() as u64;
                all += handled;
            }
        }
        Ok(all)
    }

    fn sleep(&mut self, started: Instant) {
        self.signal.about_to_sleep();
        if !self.stages.iter().any(|(stage, _)| stage.has_work()) {
            let now_ms = started.elapsed().as_millis() as u64;
            let deadline = self.stages.iter().filter_map(|(stage, _)| stage.deadline_ms()).min();
            let until = deadline.map_or(LONGEST_SLEEP_MS, |at| at.saturating_sub(now_ms).min(LONGEST_SLEEP_MS));
            let longest = Duration::from_millis(until);
            if !longest.is_zero() && !self.stages.iter_mut().any(|(stage, _)| stage.sleep(longest)) {
                thread::park_timeout(longest);
            }
        }
        self.signal.awake();
    }
}

/// The state and the reason of the engine's end.
#[derive(Default)]
struct Ending {
    is_set: AtomicBool,
    error: Mutex<Option<StageError>>,
    changed: Condvar,
}

impl Ending {
    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    fn set(&self, error: Option<StageError>) {
        let mut kept = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = error;
        }
        self.is_set.store(true, Ordering::Release);
        self.changed.notify_all();
    }
}

/// The threads of an engine. Dropping it ends them.
pub struct Crew {
    ending: Arc<Ending>,
    signals: Vec<Arc<Signal>>,
    threads: Vec<JoinHandle<()>>,
    started: Instant,
}

impl Crew {
    /// Starts the threads. Their clock begins with `started`.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn start(workers: Vec<Worker>, started: Instant) -> std::io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let spins = if cores >= workers.len() { SPINS } else { SPINS_SHARED };
        let mut crew = Self { ending: Arc::default(), signals: Vec::new(), threads: Vec::new(), started };
        for mut worker in workers {
            crew.signals.push(worker.signal.clone());
            let ending = crew.ending.clone();
            let name = worker.stages.first().map_or("idle", |(stage, _)| stage.name());
            let thread = thread::Builder::new().name(format!("dtranx-{name}")).spawn(move || {
                let worked = catch_unwind(AssertUnwindSafe(|| worker.work(started, spins, &ending)));
                ending.set(match worked {
                    Ok(worked) => worked.err(),
                    Err(_) => Some(StageError { stage: name.to_owned(), message: "it panicked".to_owned() }),
                });
            })?;
            crew.threads.push(thread);
        }
        Ok(crew)
    }

    /// Time at which the clock of the stages began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Returns true if a stage has failed, or all were ended.
    pub fn is_over(&self) -> bool {
        self.ending.is_set()
    }

    /// Waits until a stage fails, or so long.
    ///
    /// # Errors
    /// The failure.
    pub fn wait(&self, longest: Duration) -> Result<(), StageError> {
        let mut error = self.ending.error.lock().unwrap_or_else(PoisonError::into_inner);
        if error.is_none() && !self.ending.is_set() {
            error = self.ending.changed.wait_timeout(error, longest).unwrap_or_else(PoisonError::into_inner).0;
        }
        error.take().map_or(Ok(()), Err)
    }

    /// Ends the threads: events that they have not handled stay undone.
    pub fn end(&mut self) {
        self.ending.set(None);
        for signal in &self.signals {
            signal.ring();
        }
        for thread in self.threads.drain(..) {
            // Panics were caught and reported.
            let _ = thread.join();
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.end();
    }
}
