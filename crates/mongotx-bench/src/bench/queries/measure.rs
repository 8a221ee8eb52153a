//! One line of the table: a shape of query, timed on both sides in turns.

use std::time::{Duration, Instant};

use benchkit::measure::Latencies;
use rand::{SeedableRng, rngs::StdRng};

use super::{
    super::BenchError,
    QueriesArgs,
    held::PendingDocuments,
    shape::{Query, Shape},
    side::{MongoTx, Plain, Side},
};

/// The most queries that one side makes in a row.
pub(crate) const BLOCK: usize = 50;
/// Least number of turns of each side in the time to be measured, however slow its queries are.
const TURNS: u32 = 4;
/// Multiple of that time that both sides may take together; then the faster one may come short.
pub(crate) const PATIENCE: u32 = 20;

/// Figures of both sides for one shape of query.
pub(crate) struct QueryFigures {
    pub(crate) shape: Shape,
    pub(crate) mirrored: bool,
    pub(crate) pending: PendingDocuments,
    pub(crate) plain: SideFigures,
    pub(crate) mongotx: SideFigures,
}

/// Figures of one side for one shape of query.
pub(crate) struct SideFigures {
    /// Latency of each query.
    pub(crate) latencies: Latencies,
    /// Commands sent for all of them.
    pub(crate) commands: u64,
    spent: Duration,
}

impl SideFigures {
    fn new() -> Self {
        Self { latencies: Latencies::new(), commands: 0, spent: Duration::ZERO }
    }

    async fn add_block(&mut self, side: &dyn Side, queries: &[Query]) -> Result<(), BenchError> {
        let commands = side.commands();
        for query in queries.iter().cloned() {
            let start = Instant::now();
            side.ask(query).await?;
            let latency = start.elapsed();
            self.latencies.note(latency);
            self.spent += latency;
        }
        self.commands += side.commands() - commands;
        Ok(())
    }
}

/// Warms up; then measures blocks in turns until each side has had its time. Each begins every
/// second time.
pub(crate) async fn line(
    args: &QueriesArgs,
    shape: Shape,
    mirrored: bool,
    pending: PendingDocuments,
    plain_side: &Plain,
    mongotx_side: &MongoTx,
) -> Result<QueryFigures, BenchError> {
    let mut random = StdRng::seed_from_u64(args.seed);
    let mut block =
        |length: usize| -> Vec<Query> { (0..length).map(|_| shape.query(args.documents, &mut random)).collect() };
    let limit = args.seconds / TURNS;
    let warm_up = block(BLOCK);
    let length =
        warm_up_side(plain_side, &warm_up, limit).await?.min(warm_up_side(mongotx_side, &warm_up, limit).await?);
    let (mut plain, mut mongotx) = (SideFigures::new(), SideFigures::new());
    let start = Instant::now();
    let mut plain_first = true;
    while plain.spent.min(mongotx.spent) < args.seconds && start.elapsed() < args.seconds * PATIENCE {
        let queries = block(length);
        if plain_first {
            plain.add_block(plain_side, &queries).await?;
        }
        mongotx.add_block(mongotx_side, &queries).await?;
        if !plain_first {
            plain.add_block(plain_side, &queries).await?;
        }
        plain_first = !plain_first;
    }
    Ok(QueryFigures { shape, mirrored, pending, plain, mongotx })
}

/// Makes these queries, for no longer than `limit`; returns the number made, at least one.
async fn warm_up_side(side: &dyn Side, queries: &[Query], limit: Duration) -> Result<usize, BenchError> {
    let start = Instant::now();
    for (done, query) in queries.iter().enumerate() {
        if done > 0 && start.elapsed() >= limit {
            return Ok(done);
        }
        side.ask(query.clone()).await?;
    }
    Ok(queries.len())
}
