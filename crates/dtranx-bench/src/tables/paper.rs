//! Table a: the paper's workload (section 5.1) on one and on three servers.

use super::{Table, filled, persistent, plan};
use crate::{
    args::TablesArgs,
    error::BenchError,
    report,
    store::Kind,
    turns::{Contender, in_turns},
    workload::{Distribution, Shape},
};

pub(super) async fn table(args: &TablesArgs) -> Result<Table, BenchError> {
    let settings = persistent(&args.log_folder);
    let one = Contender::start("dtranx", Kind::Dtranx, 1, &settings).await?;
    let three = Contender::start("dtranx", Kind::Dtranx, 3, &settings).await?;
    let contenders = filled(vec![one, three], args.keys).await?;
    let mut rows = Vec::new();
    for distribution in [Distribution::Uniform, Distribution::Zipfian] {
        for reads in [100, 95, 50] {
            rows.extend(
                in_turns(&contenders, plan(args, distribution, reads, args.in_flight), args.pace.rounds).await?,
            );
        }
    }
    for one in &contenders {
        one.check(args.keys, Shape::Paper).await?;
    }
    Ok(Table::new("(a) The paper's workload, log on persistent memory (emulated)", report::rows(&rows, None), rows))
}
