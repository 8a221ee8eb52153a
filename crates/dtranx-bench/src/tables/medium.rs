//! Table b: the log on persistent memory (emulated) and on disk, by how many transactions share a
//! sync. Half of them write.

use super::{Table, filled, persistent, plan};
use crate::{
    args::TablesArgs,
    error::BenchError,
    report,
    settings::Settings,
    store::Kind,
    turns::{Contender, in_turns},
    workload::{Distribution, Shape},
};

const READS: u8 = 50;

pub(super) async fn table(args: &TablesArgs) -> Result<Table, BenchError> {
    let memory = Contender::start("persistent memory", Kind::Dtranx, 1, &persistent(&args.log_folder)).await?;
    let disk = Contender::start("disk", Kind::Dtranx, 1, &Settings::default()).await?;
    let contenders = filled(vec![memory, disk], args.keys).await?;
    let mut rows = Vec::new();
    for in_flight in args.in_flights() {
        rows.extend(
            in_turns(&contenders, plan(args, Distribution::Uniform, READS, in_flight), args.pace.rounds).await?,
        );
    }
    for one in &contenders {
        one.check(args.keys, Shape::Paper).await?;
    }
    Ok(Table::new("(b) The log on persistent memory (emulated) and on disk", report::rows(&rows, None), rows))
}
