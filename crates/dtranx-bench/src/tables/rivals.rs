//! Table d: beside etcd and Redis, all synced before they answer: two counters are read and written
//! by each transaction, and their sum is checked in the end. Three servers of DTranx are measured
//! twice: as one group, which keeps everything three times as three servers of etcd do, and as a
//! cluster that spreads the keys. A rival that is not on this machine is named, and the others are
//! measured.

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

/// Servers that are measured in turns with others.
struct Rival {
    name: &'static str,
    kind: Kind,
    servers: u16,
    is_group: bool,
}

const fn rival(name: &'static str, kind: Kind, servers: u16) -> Rival {
    Rival { name, kind, servers, is_group: false }
}

/// Rivals that run at the same time, and take turns.
const ROUNDS: [&[Rival]; 2] = [
    &[
        Rival { is_group: true, ..rival("dtranx, a group", Kind::Dtranx, 3) },
        rival("dtranx", Kind::Dtranx, 3),
        rival("etcd", Kind::Etcd, 3),
    ],
    &[rival("dtranx", Kind::Dtranx, 1), rival("etcd", Kind::Etcd, 1), rival("redis", Kind::Redis, 1)],
];

/// Counters are a part of the other tables' keys.
const SHARE: u64 = 10;

pub(super) async fn table(args: &TablesArgs) -> Result<Table, BenchError> {
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for round in &ROUNDS {
        let mut contenders = Vec::new();
        for Rival { name, kind, servers, is_group } in *round {
            let settings = Settings { is_group: *is_group, ..Settings::default() };
            match Contender::start(name, *kind, *servers, &settings).await {
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
