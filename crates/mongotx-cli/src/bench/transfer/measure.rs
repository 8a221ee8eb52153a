//! Measurements: closed-loop clients on one target, one measurement at a time.
//!
//! 1. Load the accounts into a new database; connect the target.
//! 2. Start the clients. Each makes one transfer after the other, again after a conflict.
//! 3. Warm up; then measure: only transfers that end in this time are counted.
//! 4. Let each client end its transfer; flush; check the accounts; remove the database.
//!
//! A transfer's latency is from its first attempt to its success, conflicts and pauses between attempts included.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;

use super::{
    super::{BenchError, latency::Latencies, machine, progress, server::Bench},
    TransferArgs,
    ledger::Ledger,
    servers::Servers,
    target::{self, Kind, Outcome, Target, Transfer, Worker},
};

const LONGEST_PAUSE: Duration = Duration::from_millis(50);
const FIRST_PAUSE: Duration = Duration::from_micros(500);

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;

/// One measurement.
pub(crate) struct Run {
    pub(crate) kind: Kind,
    pub(crate) clients: u32,
    pub(crate) counts: Counts,
    /// The time measured.
    pub(crate) seconds: f64,
    /// Commands sent in this time.
    pub(crate) commands: u64,
    /// Processor time in microseconds that the server and this process have used in it.
    pub(crate) server_cpu_us: Option<i64>,
    pub(crate) client_cpu_us: Option<i64>,
}

/// What the clients did in the time measured.
pub(crate) struct Counts {
    /// One for each transfer.
    pub(crate) latencies: Latencies,
    pub(crate) conflicts: u64,
}

impl Counts {
    fn new() -> Result<Self, BenchError> {
        Ok(Self { latencies: Latencies::new()?, conflicts: 0 })
    }

    fn add(&mut self, other: &Self) -> Result<(), BenchError> {
        self.conflicts += other.conflicts;
        self.latencies.add(&other.latencies)
    }
}

/// All measurements: the targets take turns within each number of clients within each round.
pub(crate) async fn measure_all(args: &TransferArgs, servers: &Servers) -> Result<Vec<Run>, BenchError> {
    let count = args.rounds.get() as usize * args.clients.len() * args.targets.len();
    let progress = progress::bar(count as u64);
    let mut runs = Vec::new();
    for round in 1..=args.rounds.get() {
        for clients in &args.clients {
            for kind in &args.targets {
                progress.set_message(format!("round {round}, {clients} clients, {}", kind.title()));
                runs.push(measure(args, servers.of(*kind)?, *kind, *clients, round).await?);
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    Ok(runs)
}

/// Steps 1 to 4.
async fn measure(args: &TransferArgs, server: &Bench, kind: Kind, clients: u32, round: u32) -> Result<Run, BenchError> {
    let db = format!("mongotx_bench_{}_{round}_{clients}_{kind:?}", std::process::id());
    let ledger = Ledger::load(&server.admin, &db, args).await?;
    let target = target::connect(kind, &server.uri, &db, clients).await?;
    let seed = args.seed.wrapping_add(u64::from(round) << 32);
    let phase = Arc::new(AtomicU8::new(WARM_UP));
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let random = StdRng::seed_from_u64(seed.wrapping_add(u64::from(client)));
        tasks.spawn(run_client(target.worker().await?, random, args.documents, Arc::clone(&phase)));
    }
    let run = watch(args, server, &*target, &phase).await;
    phase.store(STOP, SeqCst);
    let mut counts = Counts::new()?;
    while let Some(ended) = tasks.join_next().await {
        counts.add(&ended.map_err(|error| BenchError::Failed(format!("a client failed: {error}")))??)?;
    }
    target.close().await?;
    ledger.check().await?;
    ledger.drop().await?;
    let Window { seconds, commands, server_cpu_us, client_cpu_us } = run?;
    Ok(Run { kind, clients, counts, seconds, commands, server_cpu_us, client_cpu_us })
}

struct Window {
    seconds: f64,
    commands: u64,
    server_cpu_us: Option<i64>,
    client_cpu_us: Option<i64>,
}

/// Step 3.
async fn watch(
    args: &TransferArgs,
    server: &Bench,
    target: &dyn Target,
    phase: &AtomicU8,
) -> Result<Window, BenchError> {
    let length = Duration::from_secs(args.seconds.get());
    tokio::time::sleep((length / 4).clamp(Duration::from_millis(250), Duration::from_secs(3))).await;
    let (server_cpu, own_cpu) = (server.cpu_us().await?, machine::own_cpu_us());
    let (start, commands) = (Instant::now(), target.commands());
    phase.store(MEASURE, SeqCst);
    tokio::time::sleep(length).await;
    phase.store(STOP, SeqCst);
    let (seconds, commands) = (start.elapsed().as_secs_f64(), target.commands() - commands);
    let client_cpu_us = machine::own_cpu_us().zip(own_cpu).map(|(end, start)| end - start);
    let server_cpu_us = server.cpu_us().await?.zip(server_cpu).map(|(end, start)| end - start);
    Ok(Window { seconds, commands, server_cpu_us, client_cpu_us })
}

/// Step 2, until told to stop.
async fn run_client(
    mut worker: Box<dyn Worker>,
    mut random: StdRng,
    documents: u32,
    phase: Arc<AtomicU8>,
) -> Result<Counts, BenchError> {
    let mut counts = Counts::new()?;
    while phase.load(SeqCst) != STOP {
        let transfer = choose(&mut random, documents.cast_signed());
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        while worker.transfer(transfer).await? == Outcome::Conflict {
            counts.conflicts += u64::from(phase.load(SeqCst) == MEASURE);
            tokio::time::sleep(pause.mul_f64(random.random_range(0.5..1.0))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        if phase.load(SeqCst) == MEASURE {
            counts.latencies.note(start.elapsed())?;
        }
    }
    Ok(counts)
}

fn choose(random: &mut StdRng, documents: i32) -> Transfer {
    let from = random.random_range(0..documents);
    let step = random.random_range(1..documents);
    Transfer { from, to: (from + step) % documents, amount: random.random_range(1..=100) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_between_two_different_accounts() {
        let mut random = StdRng::seed_from_u64(1);
        for documents in [2, 3, 100] {
            for _ in 0..1_000 {
                let Transfer { from, to, .. } = choose(&mut random, documents);
                assert!(from != to && (0..documents).contains(&from) && (0..documents).contains(&to));
            }
        }
    }
}
