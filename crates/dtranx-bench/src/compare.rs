//! One workload on several stores: a row for each store and each combination of the options.

use std::time::Duration;

use benchkit::{
    measure::Machine,
    report::result::{BenchResult, FORMAT},
};

use crate::{
    args::CompareArgs,
    error::BenchError,
    figures::Row,
    measure::Plan,
    report,
    turns::{Contender, in_turns},
    workload::{Distribution, Mix},
};

/// Runs the workload on the stores, and prints the table.
pub(crate) async fn run_compare(args: &CompareArgs) -> Result<(), BenchError> {
    args.check()?;
    args.pace.check()?;
    let mut contenders = Vec::new();
    for kind in &args.stores {
        let contender = Contender::start(kind.name(), *kind, args.servers, &args.settings()).await?;
        contender.store.load(args.keys, args.value_bytes).await?;
        contenders.push(contender);
    }
    let mut rows = Vec::new();
    for plan in plans(args) {
        rows.extend(in_turns(&contenders, plan, args.pace.rounds).await?);
    }
    for contender in &contenders {
        contender.check(args.keys, args.shape).await?;
    }
    print!("{}", report::rows(&rows, None));
    args.pace.write_json(&result(args, rows))
}

/// All runs as one result, which `mongotx-bench report` reads, too.
fn result(args: &CompareArgs, rows: Vec<Row>) -> BenchResult {
    let command: Vec<String> = std::env::args().skip(1).collect();
    BenchResult {
        format: FORMAT,
        title: format!("key-value store, {}", args.shape.name()),
        command: format!("dtranx-bench {}", command.join(" ")),
        facts: args.pace.facts(&Machine::look()),
        runs: rows.into_iter().flat_map(|row| row.rounds).map(|round| round.run).collect(),
    }
}

fn plans(args: &CompareArgs) -> Vec<Plan> {
    let mut plans = Vec::new();
    for distribution in &args.distribution {
        for reads in args.reads() {
            plans.extend(args.in_flight.iter().map(|in_flight| plan(args, *distribution, *reads, *in_flight)));
        }
    }
    plans
}

fn plan(args: &CompareArgs, distribution: Distribution, reads: u8, in_flight: u32) -> Plan {
    Plan {
        mix: Mix { shape: args.shape, distribution, keys: args.keys, reads },
        in_flight,
        value_bytes: args.value_bytes,
        warm_up: Duration::from_secs(args.pace.warm_up),
        time: Duration::from_secs(args.pace.seconds),
        is_sampled: false,
        seed: args.pace.seed,
    }
}
