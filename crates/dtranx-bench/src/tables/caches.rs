//! Table f: the caches (section 4.1). The clients' on work that reads and writes what other clients
//! read; what a refusal brings along on items that all clients want; the servers', in front of a
//! store larger than its own cache of blocks.

use super::{Table, filled_with, persistent, plan};
use crate::{
    args::TablesArgs,
    error::BenchError,
    figures::Row,
    measure::Plan,
    report::{self, Count},
    settings::Settings,
    store::Kind,
    turns::{Contender, in_turns},
    workload::{Distribution, Mix, Shape},
};

/// Clients that do not see each other's caches.
const CLIENTS: usize = 4;
/// Divisor of the other tables' keys for the clients' caches: these fill in the time of a warm-up.
const SHARE: u64 = 10;
/// Divisor of the other tables' keys for items that all clients want.
const WANTED_SHARE: u64 = 1000;
const LEAST_WANTED: u64 = 10;
/// Greatest number of transactions on the same few keys: more mostly wait for each other.
const MOST_MEETING: u32 = 64;
/// Size of values for the servers' cache, in bytes: the usual number of keys is then three times
/// the store's cache of blocks.
const LARGER_VALUE_BYTES: u32 = 1000;
/// Size of the servers' cache of items, in MiB: it has room for all of them.
const ITEM_CACHE_MIB: u32 = 256;

pub(super) async fn table(args: &TablesArgs) -> Result<Table, BenchError> {
    let mut rows = clients(args).await?;
    rows.extend(refusals(args).await?);
    rows.extend(servers(args).await?);
    Ok(Table::new("(f) The caches of clients and servers", report::rows(&rows, Some(Count::Reads)), rows))
}

async fn clients(args: &TablesArgs) -> Result<Vec<Row>, BenchError> {
    let keys = args.keys / SHARE;
    let without = Settings { clients: CLIENTS, uses_current_items: false, ..persistent(&args.log_folder) };
    let with = Settings { cache_items: keys as usize, uses_current_items: true, ..without.clone() };
    let plans = [95, 50].map(|reads| {
        let plan = plan(args, Distribution::Uniform, reads, args.in_flight);
        Plan { mix: Mix { keys, ..plan.mix }, ..plan }
    });
    compared(args, &[("no client cache", without), ("client cache", with)], &plans).await
}

async fn refusals(args: &TablesArgs) -> Result<Vec<Row>, BenchError> {
    let keys = (args.keys / WANTED_SHARE).max(LEAST_WANTED);
    let anew = Settings { clients: CLIENTS, uses_current_items: false, ..persistent(&args.log_folder) };
    let current_items = Settings { uses_current_items: true, ..anew.clone() };
    let cached = Settings { cache_items: keys as usize, ..current_items.clone() };
    let plan = plan(args, Distribution::Uniform, 0, args.in_flight.min(MOST_MEETING));
    let plan = Plan { mix: Mix { shape: Shape::Modify, keys, ..plan.mix }, ..plan };
    compared(args, &[("read anew", anew), ("brought along", current_items), ("client cache", cached)], &[plan]).await
}

async fn servers(args: &TablesArgs) -> Result<Vec<Row>, BenchError> {
    let with = Settings { item_cache_mib: ITEM_CACHE_MIB, ..persistent(&args.log_folder) };
    let without = Settings { item_cache_mib: 0, ..with.clone() };
    let plans = [100, 50].map(|reads| {
        let plan = plan(args, Distribution::Uniform, reads, args.in_flight);
        Plan { value_bytes: LARGER_VALUE_BYTES, ..plan }
    });
    compared(args, &[("no server cache", without), ("server cache", with)], &plans).await
}

/// Servers of each kind, that take turns under each plan. All plans have the same keys and values.
async fn compared(
    args: &TablesArgs,
    kinds: &[(&'static str, Settings)],
    plans: &[Plan],
) -> Result<Vec<Row>, BenchError> {
    let mut contenders = Vec::new();
    for (name, settings) in kinds {
        contenders.push(Contender::start(name, Kind::Dtranx, 1, settings).await?);
    }
    let Some(first) = plans.first() else { return Ok(Vec::new()) };
    let contenders = filled_with(contenders, first.mix.keys, first.value_bytes).await?;
    let mut rows = Vec::new();
    for plan in plans {
        rows.extend(in_turns(&contenders, *plan, args.pace.rounds).await?);
    }
    for one in &contenders {
        one.check(first.mix.keys, first.mix.shape).await?;
    }
    Ok(rows)
}
