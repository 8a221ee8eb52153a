//! Table e: the stages' threads bound to cores, and left to the scheduler.

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

pub(super) async fn table(args: &TablesArgs) -> Result<Table, BenchError> {
    let free = persistent(&args.log_folder);
    let bound = Settings { is_pinned: true, ..free.clone() };
    let bound = Contender::start("bound", Kind::Dtranx, 1, &bound).await?;
    let free = Contender::start("not bound", Kind::Dtranx, 1, &free).await?;
    let contenders = filled(vec![bound, free], args.keys).await?;
    let mut rows = Vec::new();
    for reads in [95, 50] {
        rows.extend(
            in_turns(&contenders, plan(args, Distribution::Uniform, reads, args.in_flight), args.pace.rounds).await?,
        );
    }
    for one in &contenders {
        one.check(args.keys, Shape::Paper).await?;
    }
    Ok(Table::new("(e) Stages bound to cores and not", report::rows(&rows, None), rows))
}
