//! Table i: the elements of queues (section 3.1): events in the slots themselves, as the servers
//! have them; allocated one by one; and in a pool, as the paper has them.

use std::time::Duration;

use benchkit::run::{Turn, turns};

use super::Table;
use crate::{
    args::TablesArgs,
    elements::{Place, measure},
    error::BenchError,
    figures::Passed,
    report,
    turns::tell,
};

const PLACES: [(&str, Place); 3] =
    [("in the slots", Place::Slots), ("allocated", Place::Heap), ("pooled", Place::Pool)];

pub(super) fn table(args: &TablesArgs) -> Result<Table, BenchError> {
    let mut rows = PLACES.map(|(name, _)| Passed { name, rounds_per_second: Vec::new() });
    for Turn { round, rival } in turns(args.pace.rounds, PLACES.len()) {
        let (name, place) = PLACES[rival];
        tell(round, args.pace.rounds, &format!("events {name}"));
        rows[rival].rounds_per_second.push(measure(place, Duration::from_secs(args.pace.seconds))?);
    }
    let title = "(i) Events in the slots of their queue, allocated, and pooled";
    Ok(Table::new(title, report::passed(&rows), rows.to_vec()))
}
