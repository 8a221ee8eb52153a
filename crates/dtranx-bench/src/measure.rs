//! One run: so many transactions under way at the same time, each client's next one as soon as the
//! last is committed.

use std::time::Duration;

use benchkit::{
    measure::{Counts, machine::own_cpu_us},
    run::{Attempt, Chosen, Client, Clients, Retries, Seat},
};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    error::BenchError,
    store::{Served, Store, Worker},
    workload::{Draw, Mix, Transaction},
};

/// Number of conflicts of one transaction, one after the other, after which the run is given up.
const MOST_CONFLICTS: u32 = 1_000;
/// After the first conflict a transaction is tried again at once. Later attempts wait, on every
/// store alike, so that transactions that meet in a few keys do not keep each other from ending.
const RETRIES: Retries = Retries {
    attempts: u32::MAX,
    at_once: 1,
    first_pause: Duration::from_millis(1),
    longest_pause: Duration::from_millis(64),
};

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
    /// True if the size of the logs is looked at in each second.
    pub(crate) is_sampled: bool,
    /// Seed from which the clients' seeds are made.
    pub(crate) seed: u64,
}

impl Plan {
    /// The plan of a round, with a seed of its own: each round has other transactions. Rounds are
    /// counted from 1.
    pub(crate) fn of_round(self, round: u32) -> Self {
        Self { seed: self.seed.wrapping_add(u64::from(round) - 1), ..self }
    }
}

/// Figures of one run.
pub(crate) struct Measured {
    /// Seconds that were measured.
    pub(crate) seconds: f64,
    /// Counts of all clients together.
    pub(crate) counts: Counts,
    /// Processor time of this process, in microseconds.
    pub(crate) cpu_us: Option<i64>,
    /// The size of all servers' logs at the end of each second, if the plan asks for it.
    pub(crate) log_bytes: Vec<u64>,
    /// Counters of the servers, if they report them.
    pub(crate) served: Option<Served>,
}

/// A client of a store with its transactions.
struct StoreClient {
    worker: Box<dyn Worker>,
    draw: Draw,
    transaction: Transaction,
    /// Conflicts of the transaction so far.
    conflicts: u32,
}

impl Client for StoreClient {
    type Error = BenchError;

    fn choose(&mut self) -> Chosen {
        (self.transaction, self.conflicts) = (self.draw.next(), 0);
        Chosen { kind: self.transaction.kind(), operations: self.transaction.operations(), wait: Duration::ZERO }
    }

    async fn attempt(&mut self) -> Result<Attempt, BenchError> {
        let attempt = self.worker.attempt(&self.transaction).await?;
        self.conflicts += u32::from(matches!(attempt, Attempt::Conflict(_) | Attempt::Kept(_)));
        if self.conflicts == MOST_CONFLICTS {
            let why = format!("a transaction met {MOST_CONFLICTS} conflicts, one after the other");
            return Err(BenchError::Refused(why));
        }
        Ok(attempt)
    }
}

/// Runs the plan on a store whose data is loaded.
pub(crate) async fn measure_store(store: &dyn Store, plan: Plan) -> Result<Measured, BenchError> {
    let mut seats = Vec::new();
    for number in 0..plan.in_flight {
        let seed = plan.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(number));
        let (worker, draw) = (store.worker(plan.value_bytes).await?, Draw::new(plan.mix, seed));
        // A client chooses another one before its first attempt.
        let transaction = Transaction::Read(Vec::new());
        seats.push(Seat { client: StoreClient { worker, draw, transaction, conflicts: 0 }, seed, pace: None });
    }
    let clients = Clients::start(seats, RETRIES);
    sleep(plan.warm_up).await;
    let (served_before, cpu_before) = (store.served().await?, own_cpu_us());
    clients.measure();
    let began = Instant::now();
    let log_bytes = if plan.is_sampled { log_sizes(store, began, plan.time).await? } else { Vec::new() };
    sleep_until(began + plan.time).await;
    clients.stop();
    let (seconds, cpu_after) = (began.elapsed().as_secs_f64(), own_cpu_us());
    let served_after = store.served().await?;
    Ok(Measured {
        seconds,
        counts: clients.finish().await?,
        cpu_us: cpu_after.zip(cpu_before).map(|(after, before)| after - before),
        log_bytes,
        served: served_after.zip(served_before).map(|(after, before)| after.since(before)),
    })
}

/// The size of all servers' logs at the end of each second.
async fn log_sizes(store: &dyn Store, began: Instant, time: Duration) -> Result<Vec<u64>, BenchError> {
    let mut sizes = Vec::new();
    for second in 1..=time.as_secs() {
        sleep_until(began + Duration::from_secs(second)).await;
        sizes.push(store.log_bytes().await?);
    }
    Ok(sizes)
}
