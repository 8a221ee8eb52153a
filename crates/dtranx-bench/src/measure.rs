//! One run: so many transactions under way at the same time, each client's next one as soon as the last is committed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    error::BenchError,
    store::{Attempt, Store, Worker},
    workload::{Draw, Mix},
};

/// Latencies are kept in nanoseconds up to a minute, with three digits.
const LONGEST_NS: u64 = 60_000_000_000;
/// Conflicts of one transaction, one after the other, after which the run is given up.
const MOST_ATTEMPTS: u32 = 10_000;

const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const OVER: u8 = 2;

/// What one run does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Which transactions.
    pub(crate) mix: Mix,
    /// Clients at the same time.
    pub(crate) in_flight: u32,
    /// Bytes of a value.
    pub(crate) value_bytes: u32,
    /// Before the measurement.
    pub(crate) warm_up: Duration,
    /// The measurement.
    pub(crate) time: Duration,
    /// Where the clients' seeds come from.
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Transactions that were committed in the time measured, per second.
    pub(crate) per_second: f64,
    /// Parts of all attempts that committed.
    pub(crate) success: f64,
    /// From a transaction's first attempt to its commit.
    pub(crate) latency_ns: Histogram<u64>,
}

struct Tally {
    committed: u64,
    conflicts: u64,
    latency_ns: Histogram<u64>,
}

/// Runs the plan on a store whose data is loaded.
pub(crate) async fn run(store: &dyn Store, plan: Plan) -> Result<Figures, BenchError> {
    let phase = Arc::new(AtomicU8::new(WARMING_UP));
    let mut clients = JoinSet::new();
    for number in 0..plan.in_flight {
        let draw = Draw::new(plan.mix, plan.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(number)));
        clients.spawn(client(store.worker(plan.value_bytes).await?, draw, Arc::clone(&phase)));
    }
    sleep(plan.warm_up).await;
    phase.store(MEASURING, Ordering::Relaxed);
    let began = Instant::now();
    sleep(plan.time).await;
    let took = began.elapsed();
    phase.store(OVER, Ordering::Relaxed);

    let mut all = Tally::new();
    while let Some(ended) = clients.join_next().await {
        all.add(&ended.map_err(|error| BenchError::Refused(format!("a client ended: {error}")))??);
    }
    let attempts = all.committed + all.conflicts;
    Ok(Figures {
        per_second: all.committed as f64 / took.as_secs_f64(),
        success: if attempts == 0 { 0.0 } else { all.committed as f64 / attempts as f64 },
        latency_ns: all.latency_ns,
    })
}

async fn client(mut worker: Box<dyn Worker>, mut draw: Draw, phase: Arc<AtomicU8>) -> Result<Tally, BenchError> {
    let mut tally = Tally::new();
    while phase.load(Ordering::Relaxed) != OVER {
        let transaction = draw.next();
        let began = Instant::now();
        let mut conflicts = 0;
        while worker.attempt(&transaction).await? == Attempt::Conflict {
            conflicts += 1;
            if conflicts == MOST_ATTEMPTS {
                return Err(BenchError::Refused(format!(
                    "a transaction met {MOST_ATTEMPTS} conflicts, one after the other"
                )));
            }
        }
        if phase.load(Ordering::Relaxed) == MEASURING {
            tally.note(began.elapsed(), conflicts);
        }
    }
    Ok(tally)
}

impl Tally {
    fn new() -> Self {
        let latency_ns = Histogram::new_with_bounds(1, LONGEST_NS, 3);
        let latency_ns = latency_ns.unwrap_or_else(|_| unreachable!("the bounds of the histogram are valid"));
        Self { committed: 0, conflicts: 0, latency_ns }
    }

    fn note(&mut self, latency: Duration, conflicts: u32) {
        self.committed += 1;
        self.conflicts += u64::from(conflicts);
        self.latency_ns.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(LONGEST_NS));
    }

    fn add(&mut self, other: &Self) {
        self.committed += other.committed;
        self.conflicts += other.conflicts;
        for value in other.latency_ns.iter_recorded() {
            self.latency_ns.saturating_record_n(value.value_iterated_to(), value.count_at_value());
        }
    }
}
