//! Table h: acknowledgements gathered for a while and sent together (section 4.5: Batch Ack Phase),
//! and sent as soon as their stage comes to them. Three servers; each transaction reads and writes
//! two counters.

use super::{Table, VALUE_BYTES, filled_with, persistent, plan};
use crate::{
    args::TablesArgs,
    error::BenchError,
    measure::Plan,
    report::{self, Count},
    settings::Settings,
    store::Kind,
    turns::{Contender, in_turns},
    workload::{Distribution, Mix, Shape},
};

/// Counters are a part of the other tables' keys.
const SHARE: u64 = 10;
const SERVERS: u16 = 3;
const DELAYS_MS: [(&str, u32); 3] = [("at once", 0), ("after 5 ms", 5), ("after 50 ms", 50)];
const IN_FLIGHT: [u32; 2] = [1, 16];

pub(super) async fn table(args: &TablesArgs) -> Result<Table, BenchError> {
    let mut contenders = Vec::new();
    for (name, acknowledgement_delay_ms) in DELAYS_MS {
        let settings = Settings { acknowledgement_delay_ms, ..persistent(&args.log_folder) };
        contenders.push(Contender::start(name, Kind::Dtranx, SERVERS, &settings).await?);
    }
    let keys = args.keys / SHARE;
    let contenders = filled_with(contenders, keys, VALUE_BYTES).await?;
    let mut rows = Vec::new();
    let few = IN_FLIGHT.into_iter().filter(|few| *few < args.in_flight);
    for in_flight in few.chain([args.in_flight]) {
        let plan = plan(args, Distribution::Uniform, 0, in_flight);
        let plan = Plan { mix: Mix { shape: Shape::Transfer, keys, ..plan.mix }, ..plan };
        rows.extend(in_turns(&contenders, plan, args.pace.rounds).await?);
    }
    for one in &contenders {
        one.check(keys, Shape::Transfer).await?;
    }
    let title = "(h) Acknowledgements sent at once, and gathered for a while";
    Ok(Table::new(title, report::rows(&rows, Some(Count::Messages)), rows))
}
