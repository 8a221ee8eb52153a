//! One line of the table: an operation with a number of connections, on all sides in turns.

use std::time::{Duration, Instant};

use benchkit::measure::Latencies;
use futures_util::future::try_join_all;
use rand::{SeedableRng, rngs::StdRng};

use super::{
    OverheadArgs,
    operation::Operation,
    side::{Side, Sides},
};
use crate::bench::BenchError;

/// Number of turns that each side has.
pub(crate) const TURNS: u32 = 6;

/// Figures of all sides for one operation.
pub(crate) struct OperationFigures {
    pub(crate) operation: Operation,
    pub(crate) connections: u32,
    pub(crate) direct: SideFigures,
    pub(crate) proxy: SideFigures,
    pub(crate) gateway: SideFigures,
    /// The replica set, where the server is none.
    pub(crate) set: Option<SideFigures>,
}

/// Figures of one side for one operation.
pub(crate) struct SideFigures {
    pub(crate) latencies: Latencies,
    /// Time that all turns of the side took.
    pub(crate) spent: Duration,
}

impl SideFigures {
    fn new() -> Self {
        Self { latencies: Latencies::new(), spent: Duration::ZERO }
    }

    /// Operations of the side in a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.count() as f64 / self.spent.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn add(&mut self, turn: &Self) {
        self.latencies.add(&turn.latencies);
        self.spent += turn.spent;
    }
}

/// Warms up; then the sides take turns, and each begins as often as the others.
pub(crate) async fn line(
    args: &OverheadArgs,
    operation: Operation,
    connections: u32,
    sides: &Sides,
) -> Result<OperationFigures, BenchError> {
    let time = args.seconds / TURNS;
    let [mut direct, mut proxy, mut gateway] = [(); 3].map(|()| SideFigures::new());
    let mut set = sides.set.as_ref().map(|_| SideFigures::new());
    let mut all = vec![(&sides.direct, &mut direct), (&sides.proxy, &mut proxy), (&sides.gateway, &mut gateway)];
    all.extend(sides.set.iter().zip(&mut set));
    for (side, _) in &all {
        turn(side, operation, connections, time / 2, args.seed).await?;
    }
    for n in 0..TURNS {
        let seed = args.seed + u64::from(n) * 1_000;
        for (side, measured) in &mut all {
            measured.add(&turn(side, operation, connections, time, seed).await?);
        }
        all.rotate_left(1);
        if operation == Operation::Batch {
            sides.drop_batches().await?;
        }
    }
    Ok(OperationFigures { operation, connections, direct, proxy, gateway, set })
}

/// One turn of a side: all its connections work for `time`; operations under way then are waited
/// for.
async fn turn(
    side: &Side,
    operation: Operation,
    connections: u32,
    time: Duration,
    seed: u64,
) -> Result<SideFigures, BenchError> {
    let start = Instant::now();
    let tasks = (0..connections).map(|n| {
        let side = side.clone();
        let asking = async move { ask(&side, operation, start + time, seed + u64::from(n)).await };
        async move { tokio::spawn(asking).await.map_err(|error| BenchError::Failed(error.to_string()))? }
    });
    let mut measured = SideFigures::new();
    for latencies in try_join_all(tasks).await? {
        measured.latencies.add(&latencies);
    }
    measured.spent = start.elapsed();
    Ok(measured)
}

/// The operations of one connection, at least one.
async fn ask(side: &Side, operation: Operation, until: Instant, seed: u64) -> Result<Latencies, BenchError> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut session = side.client.start_session().await?;
    let mut latencies = Latencies::new();
    while latencies.count() == 0 || Instant::now() < until {
        let start = Instant::now();
        operation.ask(side, &mut session, &mut random).await?;
        latencies.note(start.elapsed());
    }
    Ok(latencies)
}
