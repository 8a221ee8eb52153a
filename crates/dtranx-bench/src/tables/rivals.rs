//! Table d: beside etcd and Redis, all synced before they answer: two counters are read and written
//! by each transaction, and their sum is checked in the end. A rival that is not on this machine is
//! named, and the others are measured.

use super::{Table, VALUE_BYTES, filled, plan};
use crate::{
    args::TablesArgs,
    error::BenchError,
    measure::Plan,
    report,
    settings::Settings,
    store::Kind,
    turns::{Contender, in_turns},
    workload::{Distribution, Mix, Shape},
};

/// Counters are a part of the other tables' keys.
const SHARE: u64 = 10;

pub(super) async fn table(args: &TablesArgs) -> Result<Table, BenchError> {
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    let groups: [&[(Kind, u16)]; 2] =
        [&[(Kind::Dtranx, 3), (Kind::Etcd, 3)], &[(Kind::Dtranx, 1), (Kind::Etcd, 1), (Kind::Redis, 1)]];
    for group in groups {
        let mut contenders = Vec::new();
        for (kind, servers) in group {
            match Contender::start(kind.name(), *kind, *servers, &Settings::default()).await {
                Err(BenchError::Missing { rival, reason }) => missing.push((rival, *servers, reason)),
                started => contenders.push(started?),
            }
        }
        let contenders = filled(contenders, args.keys / SHARE).await?;
        for in_flight in args.in_flights() {
            rows.extend(in_turns(&contenders, transfers(args, in_flight), args.pace.rounds).await?);
        }
        for one in &contenders {
            one.check(args.keys / SHARE, Shape::Transfer).await?;
        }
    }
    let text = report::rows(&rows, None) + &not_measured(&missing);
    Ok(Table::new("(d) Beside etcd and Redis, equally durable", text, rows))
}

/// A line for each rival that is missing: its name, its servers, and why.
fn not_measured(missing: &[(&str, u16, String)]) -> String {
    let line = |(rival, servers, reason): &(&str, u16, String)| {
        format!("\nNot measured: {rival}, {servers} server(s): {}\n", reason.replace('\n', " "))
    };
    missing.iter().map(line).collect()
}

fn transfers(args: &TablesArgs, in_flight: u32) -> Plan {
    let keys = args.keys / SHARE;
    let mix = Mix { shape: Shape::Transfer, distribution: Distribution::Uniform, keys, reads: 0 };
    Plan { mix, value_bytes: VALUE_BYTES, ..plan(args, Distribution::Uniform, 0, in_flight) }
}
