//! All runs that were asked for: the stores in turn, round after round, and the check of the data in the end.

use std::time::Duration;

use crate::{
    args::BenchArgs,
    error::BenchError,
    measure::{self, Plan},
    store::{Kind, Store},
    table::Row,
    workload::{Distribution, Mix, Shape, counter},
};

/// A row for each store and each combination of the options.
pub(crate) async fn all(args: &BenchArgs) -> Result<Vec<Row>, BenchError> {
    args.check()?;
    let mut stores = Vec::new();
    for kind in &args.stores {
        let store = kind.start(args.servers, &args.dtranx).await?;
        store.load(args.keys, args.value_bytes).await?;
        stores.push((*kind, store));
    }
    let mut rows = Vec::new();
    for plan in plans(args) {
        rows.extend(compared(args, &stores, plan).await?);
    }
    for (kind, store) in &stores {
        check(args, *kind, store.as_ref()).await?;
    }
    Ok(rows)
}

fn plans(args: &BenchArgs) -> Vec<Plan> {
    let mut plans = Vec::new();
    let reads: &[u8] = if args.shape == Shape::Transfer { &[0] } else { &args.reads };
    for distribution in &args.distribution {
        for reads in reads {
            plans.extend(args.in_flight.iter().map(|in_flight| plan(args, *distribution, *reads, *in_flight)));
        }
    }
    plans
}

fn plan(args: &BenchArgs, distribution: Distribution, reads: u8, in_flight: u32) -> Plan {
    Plan {
        mix: Mix { shape: args.shape, distribution, keys: args.keys, reads },
        in_flight,
        value_bytes: args.value_bytes,
        warm_up: Duration::from_secs(args.warm_up),
        time: Duration::from_secs(args.seconds),
        seed: args.seed,
    }
}

async fn compared(args: &BenchArgs, stores: &[(Kind, Box<dyn Store>)], plan: Plan) -> Result<Vec<Row>, BenchError> {
    let mut rows: Vec<Row> = stores.iter().map(|(kind, _)| Row::new(kind.name(), args.servers, plan)).collect();
    for round in 0..args.rounds {
        for ((kind, store), row) in stores.iter().zip(&mut rows) {
            eprintln!("dtranx-bench: round {} of {}: {}, {}", round + 1, args.rounds, kind.name(), row.title());
            row.add(measure::run(store.as_ref(), Plan { seed: plan.seed + u64::from(round), ..plan }).await?);
        }
    }
    Ok(rows)
}

/// Every key is there; and no transfer was lost, doubled or torn: the counters still add up to nothing.
async fn check(args: &BenchArgs, kind: Kind, store: &dyn Store) -> Result<(), BenchError> {
    let broken = |what: String| BenchError::Broken { store: kind.name(), what };
    let values = store.values(args.keys).await?;
    let counters: Vec<i64> = values.iter().flatten().filter_map(|value| counter(value)).collect();
    if counters.len() as u64 != args.keys {
        return Err(broken(format!("{} of {} keys are left", counters.len(), args.keys)));
    }
    let sum: i64 = counters.iter().sum();
    if args.shape == Shape::Transfer && sum != 0 {
        return Err(broken(format!("the counters add up to {sum} instead of 0")));
    }
    Ok(())
}
