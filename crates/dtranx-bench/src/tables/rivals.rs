//! Table d: beside etcd and Redis, all synced before they answer: two counters are read and written
//! by each transaction, and their sum is checked in the end.

use super::{Table, VALUE_BYTES, filled, plan};
use crate::{
    args::TablesArgs,
    error::BenchError,
    measure::Plan,
    report,
    store::{Kind, Settings},
    turns::{Contender, in_turns},
    workload::{Distribution, Mix, Shape},
};

/// Counters are a part of the other tables' keys.
const SHARE: u64 = 10;

pub(super) async fn table(args: &TablesArgs) -> Result<Table, BenchError> {
    let mut rows = Vec::new();
    let groups: [&[(Kind, u16)]; 2] =
        [&[(Kind::Dtranx, 3), (Kind::Etcd, 3)], &[(Kind::Dtranx, 1), (Kind::Etcd, 1), (Kind::Redis, 1)]];
    for group in groups {
        let mut contenders = Vec::new();
        for (kind, servers) in group {
            contenders.push(Contender::start(kind.name(), *kind, *servers, &Settings::default()).await?);
        }
        let contenders = filled(contenders, args.keys / SHARE).await?;
        for in_flight in args.in_flights() {
            rows.extend(in_turns(&contenders, transfers(args, in_flight), args.pace.rounds).await?);
        }
        for one in &contenders {
            one.check(args.keys / SHARE, Shape::Transfer).await?;
        }
    }
    Ok(Table::new("(d) Beside etcd and Redis, equally durable", report::rows(&rows, None), rows))
}

fn transfers(args: &TablesArgs, in_flight: u32) -> Plan {
    let keys = args.keys / SHARE;
    let mix = Mix { shape: Shape::Transfer, distribution: Distribution::Uniform, keys, reads: 0 };
    Plan { mix, value_bytes: VALUE_BYTES, ..plan(args, Distribution::Uniform, 0, in_flight) }
}
