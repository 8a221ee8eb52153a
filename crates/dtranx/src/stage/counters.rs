//! Counters of stages and queues, and their readings.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Counters of one stage.
#[derive(Debug, Default)]
pub(crate) struct StageCounter {
    pub(crate) handled: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) largest_batch: AtomicU64,
    pub(crate) busy_ns: AtomicU64,
}

impl StageCounter {
    /// Only the stage's own thread counts here.
    pub(crate) fn note(&self, handled: usize, busy_ns: u64) {
        self.handled.fetch_add(handled as u64, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.largest_batch.fetch_max(handled as u64, Ordering::Relaxed);
        self.busy_ns.fetch_add(busy_ns, Ordering::Relaxed);
    }
}

/// Counters of one queue.
#[derive(Debug, Default)]
pub(crate) struct QueueCounter {
    pub(crate) length: AtomicU64,
    pub(crate) longest: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) kept_back: AtomicU64,
}

/// A stage, as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StageReading {
    /// Name of the stage, which is a label of its metrics.
    pub name: String,
    /// Number of events that it has handled.
    pub handled: u64,
    /// Batches in which they were taken.
    pub batches: u64,
    /// Number of events in the largest batch.
    pub largest_batch: u64,
    /// Time spent handling them, in nanoseconds.
    pub busy_ns: u64,
}

/// A queue, as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct QueueReading {
    /// Name of the queue, which is a label of its metrics.
    pub name: String,
    /// Number of events in it, about.
    pub length: u64,
    /// The most that were seen in it when a batch was taken.
    pub longest: u64,
    /// Greatest number of events that it holds.
    pub capacity: u64,
    /// Number of events that were refused because the queue was full.
    pub refused: u64,
    /// Number of events that their senders kept back because the queue was full.
    pub kept_back: u64,
}

/// Stages and queues, as they were when they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Readings {
    /// The stages, in the order of their making.
    pub stages: Vec<StageReading>,
    /// The queues, in the order of their making.
    pub queues: Vec<QueueReading>,
}

/// All counters of one engine.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    stages: Vec<(&'static str, Arc<StageCounter>)>,
    queues: Vec<(&'static str, u64, Arc<QueueCounter>)>,
}

impl Counters {
    /// Makes an empty set of counters.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn stage(&self, name: &'static str) -> Arc<StageCounter> {
        let counter = Arc::new(StageCounter::default());
        self.lock().stages.push((name, counter.clone()));
        counter
    }

    pub(crate) fn queue(&self, name: &'static str, capacity: u64) -> Arc<QueueCounter> {
        let counter = Arc::new(QueueCounter::default());
        self.lock().queues.push((name, capacity, counter.clone()));
        counter
    }

    /// Reads the counters of all stages and queues, each as it is at that moment.
    pub fn read(&self) -> Readings {
        let inner = self.lock();
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let stages = inner.stages.iter().map(|(name, counter)| StageReading {
            name: (*name).to_owned(),
            handled: get(&counter.handled),
            batches: get(&counter.batches),
            largest_batch: get(&counter.largest_batch),
            busy_ns: get(&counter.busy_ns),
        });
        let queues = inner.queues.iter().map(|(name, capacity, counter)| QueueReading {
            name: (*name).to_owned(),
            length: get(&counter.length),
            longest: get(&counter.longest),
            capacity: *capacity,
            refused: get(&counter.refused),
            kept_back: get(&counter.kept_back),
        });
        Readings { stages: stages.collect(), queues: queues.collect() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
