//! Stores that take turns: A B A B, so that other work of the machine meets all of them.

use benchkit::run::{Turn, turns};

use crate::{
    error::BenchError,
    figures::Row,
    measure::{self, Plan},
    settings::Settings,
    store::{Kind, Store},
    workload::{Shape, counter},
};

/// One of the stores that are compared.
pub(crate) struct Contender {
    /// Name in the table.
    pub(crate) name: &'static str,
    /// Number of servers of the store.
    pub(crate) servers: u16,
    /// The store itself.
    pub(crate) store: Box<dyn Store>,
    kind: Kind,
}

impl Contender {
    /// Starts a store of this kind, empty.
    pub(crate) async fn start(
        name: &'static str,
        kind: Kind,
        servers: u16,
        settings: &Settings,
    ) -> Result<Self, BenchError> {
        Ok(Self { name, servers, store: kind.start(servers, settings).await?, kind })
    }

    /// Checks that every key is there, and that no transfer was lost, doubled or torn: the counters
    /// still add up to 0.
    pub(crate) async fn check(&self, keys: u64, shape: Shape) -> Result<(), BenchError> {
        let broken = |what: String| BenchError::Broken { store: self.kind.name(), what };
        let values = self.store.values(keys).await?;
        let counters: Vec<i64> = values.iter().flatten().filter_map(|value| counter(value)).collect();
        if counters.len() as u64 != keys {
            return Err(broken(format!("{} of {keys} keys are left", counters.len())));
        }
        let sum: i64 = counters.iter().sum();
        if shape == Shape::Transfer && sum != 0 {
            return Err(broken(format!("the counters add up to {sum} instead of 0")));
        }
        Ok(())
    }
}

/// Runs a plan on each of them, round after round. Returns a row for each.
pub(crate) async fn in_turns(contenders: &[Contender], plan: Plan, rounds: u32) -> Result<Vec<Row>, BenchError> {
    let mut rows: Vec<Row> = contenders.iter().map(|one| Row::new(one.name, one.servers, plan)).collect();
    for Turn { round, rival } in turns(rounds, contenders.len()) {
        let (one, row) = (&contenders[rival], &mut rows[rival]);
        tell(round, rounds, &row.title());
        row.add(round, measure::measure_store(one.store.as_ref(), plan.of_round(round)).await?);
    }
    Ok(rows)
}

/// Prints the present step.
pub(crate) fn tell(round: u32, rounds: u32, what: &str) {
    eprintln!("dtranx-bench: round {round} of {rounds}: {what}");
}
