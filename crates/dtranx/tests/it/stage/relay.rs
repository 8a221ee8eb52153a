//! Stages that hand events on to each other, with queues of one or two events, which is where a
//! deadlock is most likely.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use dtranx::stage::{Counters, Crew, Inlet, Outlet, Signal, Source, Stage, Worker, queue};

/// Capacity of a queue for new events.
pub(crate) const ENTRY_EVENTS: usize = 4;
/// Event that makes the stage that takes it fail.
pub(crate) const FAILS: u64 = u64::MAX;

/// A stage that hands each event on to one of the next stages, until the event has been handed on
/// often enough. `entry` brings new events.
pub(crate) struct Relay {
    name: &'static str,
    entry: Source<u64>,
    internal: Source<u64>,
    next: Vec<Outlet<u64>>,
    tally: Arc<Tally>,
    batch: Vec<u64>,
}

/// Numbers of events that the stages have admitted and finished.
#[derive(Default)]
pub(crate) struct Tally {
    admitted: AtomicU64,
    done: AtomicU64,
}

impl Tally {
    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

impl Stage for Relay {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, _: u64) -> Result<usize, String> {
        self.internal.take(8, &mut self.batch);
        if self.flush() {
            let admitted = self.entry.take(8, &mut self.batch);
            self.tally.admitted.fetch_add(admitted as u64, Ordering::Relaxed);
        }
        let handled = self.batch.len();
        for hops in self.batch.drain(..) {
            match hops {
                0 => drop(self.tally.done.fetch_add(1, Ordering::Relaxed)),
                FAILS => return Err("no more".to_owned()),
                hops => {
                    let at = hops as usize % self.next.len();
                    self.next[at].send(hops - 1);
                }
            }
        }
        self.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.internal.is_empty() || !self.entry.is_empty() || self.next.iter().any(|next| !next.is_clear())
    }
}

impl Relay {
    fn flush(&mut self) -> bool {
        for next in &mut self.next {
            next.flush();
        }
        self.next.iter().all(Outlet::is_clear)
    }
}

/// Connected stages, and the queues into them from outside.
pub(crate) struct Net {
    pub(crate) entries: Vec<Inlet<u64>>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) counters: Counters,
    pub(crate) stages: Vec<Relay>,
    /// Signals that wake the threads, one for each.
    signals: Vec<Arc<Signal>>,
}

impl Net {
    /// Two stages that send to each other.
    pub(crate) fn circle(threads: usize) -> Self {
        Self::joined(&["a", "b"], &[&[1], &[0]], threads)
    }

    /// The stages of a server: one sends requests to four others, which answer it. Two of these
    /// four also get requests from outside.
    pub(crate) fn star(threads: usize) -> Self {
        let names = ["transaction", "ack", "recovery", "lock", "storage"];
        let mut star = Self::joined(&names, &[&[1, 2, 3, 4], &[0], &[0], &[0], &[0]], threads);
        star.entries.truncate(3);
        star
    }

    /// Connects stages for `threads` threads; `next` lists the stages that each stage sends to.
    fn joined(names: &[&'static str], next: &[&[usize]], threads: usize) -> Self {
        let (counters, tally) = (Counters::new(), Arc::new(Tally::default()));
        let signals: Vec<_> = (0..threads).map(|_| Arc::new(Signal::new())).collect();
        let into = |at: usize, capacity| queue(names[at], capacity, &signals[at % threads], &counters);
        let (entries, from_entries): (Vec<_>, Vec<_>) = (0..names.len()).map(|at| into(at, ENTRY_EVENTS)).unzip();
        let (inlets, sources): (Vec<Inlet<u64>>, Vec<_>) = (0..names.len()).map(|at| into(at, 1 + at % 2)).unzip();
        let mut stages = Vec::new();
        for (at, (entry, internal)) in from_entries.into_iter().zip(sources).enumerate() {
            let next = next[at].iter().map(|to| inlets[*to].outlet()).collect();
            stages.push(Relay { name: names[at], entry, internal, next, tally: tally.clone(), batch: Vec::new() });
        }
        Self { entries, tally, counters, stages, signals }
    }

    /// Starts the threads, with the stages spread over them.
    pub(crate) fn start(&mut self) -> Crew {
        let mut workers: Vec<_> = self.signals.iter().map(|signal| Worker::new(signal.clone(), None)).collect();
        for (at, stage) in self.stages.drain(..).enumerate() {
            workers[at % self.signals.len()].add(Box::new(stage), &self.counters);
        }
        Crew::start(workers, Instant::now()).unwrap()
    }
}
