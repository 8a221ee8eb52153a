//! Table c: with and without the collection of garbage: throughput and the log's size over time.
//! Each round has new servers, whose logs begin empty. Every transaction writes, ten times the
//! paper's values, and segments are as small as they may be, so that collection shows.

use std::time::Duration;

use benchkit::run::{Turn, turns};

use super::{Table, filled, persistent, plan};
use crate::{
    args::TablesArgs,
    error::BenchError,
    figures::Row,
    measure, report,
    settings::Settings,
    store::Kind,
    turns::{Contender, tell},
    workload::{Distribution, Shape},
};

const READS: u8 = 0;
const LARGER_VALUE_BYTES: u32 = 1000;
const SEGMENT_MIB: u32 = 16;
/// Time between two collections, in milliseconds: longer than any run, so there is none.
const NEVER_MS: u32 = 3_600_000;
/// Factor of the run's length: a log needs time to grow.
const LONGER: u32 = 4;

pub(super) async fn table(args: &TablesArgs) -> Result<Table, BenchError> {
    let collected = Settings { segment_mib: SEGMENT_MIB, ..persistent(&args.log_folder) };
    let kept = Settings { gc_interval_ms: NEVER_MS, ..collected.clone() };
    let plan = plan(args, Distribution::Uniform, READS, args.in_flight);
    let plan = measure::Plan {
        warm_up: Duration::ZERO,
        time: Duration::from_secs(args.pace.seconds) * LONGER,
        value_bytes: LARGER_VALUE_BYTES,
        is_sampled: true,
        ..plan
    };
    let mut rows = vec![Row::new("collected", 1, plan), Row::new("not collected", 1, plan)];
    for Turn { round, rival } in turns(args.pace.rounds, rows.len()) {
        let (row, settings) = (&mut rows[rival], [&collected, &kept][rival]);
        let contender = Contender::start(row.name, Kind::Dtranx, 1, settings).await?;
        let contenders = filled(vec![contender], args.keys).await?;
        tell(round, args.pace.rounds, &row.title());
        for one in &contenders {
            row.add(round, measure::measure_store(one.store.as_ref(), plan.of_round(round)).await?);
            one.check(args.keys, Shape::Paper).await?;
        }
    }
    let text = format!("{}\n{}", report::rows(&rows, None), report::over_time(&rows));
    Ok(Table::new("(c) With and without the collection of garbage, values of 1000 bytes", text, rows))
}
