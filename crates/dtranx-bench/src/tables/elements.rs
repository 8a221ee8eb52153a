//! Table i: the elements of queues (section 3.1): events in the slots themselves, as the servers
//! have them; allocated one by one; and in a pool, as the paper has them.

use std::time::Duration;

use super::Table;
use crate::{
    args::TablesArgs,
    elements::{Place, measure},
    error::BenchError,
    figures::Passed,
    report,
};

const PLACES: [(&str, Place); 3] =
    [("in the slots", Place::Slots), ("allocated", Place::Heap), ("pooled", Place::Pool)];

pub(super) fn table(args: &TablesArgs) -> Result<Table, BenchError> {
    let mut rows = PLACES.map(|(name, _)| Passed { name, rounds_per_second: Vec::new() });
    for round in 1..=args.pace.rounds {
        for (row, (name, place)) in rows.iter_mut().zip(PLACES) {
            eprintln!("dtranx-bench: round {round} of {}: events {name}", args.pace.rounds);
            row.rounds_per_second.push(measure(place, Duration::from_secs(args.pace.seconds))?);
        }
    }
    let title = "(i) Events in the slots of their queue, allocated, and pooled";
    Ok(Table::new(title, report::passed(&rows), rows.to_vec()))
}
