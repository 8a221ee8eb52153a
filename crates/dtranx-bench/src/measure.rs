//! One run: so many transactions under way at the same time, each client's next one as soon as the
//! last is committed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    error::BenchError,
    store::{Attempt, Counts, Store, Worker},
    workload::{Draw, Mix},
};

/// Latencies are kept in nanoseconds up to a minute, with three digits.
const LONGEST_NS: u64 = 60_000_000_000;
/// Number of conflicts of one transaction, one after the other, after which the run is given up.
const MOST_ATTEMPTS: u32 = 1_000;

/// Number of conflicts after which a transaction is tried again at once. Later attempts wait, on
/// every store alike, so that transactions that meet in a few keys do not keep each other from
/// ending.
const IMMEDIATE_ATTEMPTS: u32 = 1;
/// The first wait at most; each further one is twice as long, so many times.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const MOST_DOUBLINGS: u32 = 6;

/// The phases of a run; it begins with 0, the warm-up.
const MEASURING: u8 = 1;
const OVER: u8 = 2;

/// Plan of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The mix of transactions.
    pub(crate) mix: Mix,
    /// Clients at the same time.
    pub(crate) in_flight: u32,
    /// Bytes of each value.
    pub(crate) value_bytes: u32,
    /// Time before the measurement.
    pub(crate) warm_up: Duration,
    /// Time of the measurement.
    pub(crate) time: Duration,
    /// Whether there are figures of each second.
    pub(crate) is_sampled: bool,
    /// Seed from which the clients' seeds are made.
    pub(crate) seed: u64,
}

impl Plan {
    /// The plan of another round, with other transactions.
    pub(crate) fn of_round(self, round: u32) -> Self {
        Self { seed: self.seed.wrapping_add(u64::from(round)), ..self }
    }
}

/// Figures of one run.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Transactions that were committed in the time measured, per second.
    pub(crate) per_second: f64,
    /// Parts of all attempts that committed.
    pub(crate) success: f64,
    /// Time from a transaction's first attempt to its commit, in nanoseconds.
    pub(crate) latency_ns: Histogram<u64>,
    /// Figures of each second, if the plan wants them.
    pub(crate) samples: Vec<Sample>,
    /// Counts of the servers during the run, for each committed transaction, if they report them.
    pub(crate) counted: Option<Counted>,
}

/// Counts of servers for each committed transaction, refused attempts among them.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Counted {
    /// Number of requests to read.
    pub(crate) reads: f64,
    /// Messages received and messages sent.
    pub(crate) messages: f64,
}

impl Counted {
    fn between(before: Counts, after: Counts, committed: u64) -> Self {
        let each = |before: u64, after: u64| after.saturating_sub(before) as f64 / committed.max(1) as f64;
        Self { reads: each(before.reads, after.reads), messages: each(before.messages, after.messages) }
    }
}

/// Counts of one second.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sample {
    /// Transactions that were committed in it.
    pub(crate) committed: u64,
    /// Size of all servers' logs at its end, in bytes.
    pub(crate) log_bytes: u64,
}

/// State that all clients of a run share.
#[derive(Default)]
struct Shared {
    phase: AtomicU8,
    committed: AtomicU64,
}

struct Tally {
    committed: u64,
    conflicts: u64,
    latency_ns: Histogram<u64>,
}

/// Runs the plan on a store whose data is loaded.
pub(crate) async fn run(store: &dyn Store, plan: Plan) -> Result<Figures, BenchError> {
    let shared = Arc::new(Shared::default());
    let mut clients = JoinSet::new();
    for number in 0..plan.in_flight {
        let draw = Draw::new(plan.mix, plan.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(number)));
        clients.spawn(client(store.worker(plan.value_bytes).await?, draw, Arc::clone(&shared)));
    }
    sleep(plan.warm_up).await;
    let before = store.counts().await?;
    shared.phase.store(MEASURING, Ordering::Relaxed);
    let began = Instant::now();
    let samples = if plan.is_sampled { sample(store, &shared, began, plan.time).await? } else { Vec::new() };
    sleep_until(began + plan.time).await;
    let took = began.elapsed();
    shared.phase.store(OVER, Ordering::Relaxed);
    let after = store.counts().await?;

    let mut all = Tally::new();
    while let Some(ended) = clients.join_next().await {
        all.add(&ended.map_err(|error| BenchError::Refused(format!("a client ended: {error}")))??);
    }
    let attempts = all.committed + all.conflicts;
    Ok(Figures {
        per_second: all.committed as f64 / took.as_secs_f64(),
        success: if attempts == 0 { 0.0 } else { all.committed as f64 / attempts as f64 },
        latency_ns: all.latency_ns,
        samples,
        counted: before.zip(after).map(|(before, after)| Counted::between(before, after, all.committed)),
    })
}

async fn sample(store: &dyn Store, shared: &Shared, began: Instant, time: Duration) -> Result<Vec<Sample>, BenchError> {
    let mut samples = Vec::new();
    let mut before = 0;
    for second in 1..=time.as_secs() {
        sleep_until(began + Duration::from_secs(second)).await;
        let committed = shared.committed.load(Ordering::Relaxed);
        samples.push(Sample { committed: committed - before, log_bytes: store.log_bytes().await? });
        before = committed;
    }
    Ok(samples)
}

async fn client(mut worker: Box<dyn Worker>, mut draw: Draw, shared: Arc<Shared>) -> Result<Tally, BenchError> {
    let mut tally = Tally::new();
    while shared.phase.load(Ordering::Relaxed) != OVER {
        let transaction = draw.next();
        let began = std::time::Instant::now();
        let mut conflicts = 0;
        loop {
            let attempt = worker.attempt(&transaction).await?;
            if attempt == Attempt::Committed {
                break;
            }
            conflicts += 1;
            if conflicts > IMMEDIATE_ATTEMPTS && attempt == Attempt::Conflict {
                sleep(draw.pause(FIRST_PAUSE * 2_u32.pow((conflicts - IMMEDIATE_ATTEMPTS - 1).min(MOST_DOUBLINGS))))
                    .await;
            }
            if conflicts == MOST_ATTEMPTS {
                return Err(BenchError::Refused(format!(
                    "a transaction met {MOST_ATTEMPTS} conflicts, one after the other"
                )));
            }
        }
        if shared.phase.load(Ordering::Relaxed) == MEASURING {
            tally.note(began.elapsed(), conflicts);
            shared.committed.fetch_add(1, Ordering::Relaxed);
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
        // It fails where the bounds differ, and all have the same.
        let added = self.latency_ns.add(&other.latency_ns);
        debug_assert!(added.is_ok(), "{added:?}");
    }
}
