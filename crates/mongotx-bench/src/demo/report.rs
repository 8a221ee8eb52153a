//! The end of the demo: the results of the checks, and a small table.

use super::{check::Verdict, live::Live};
use crate::{say, table::Table};

/// Prints the verdict; true when every promise was kept.
pub(super) fn tell(verdict: &Verdict, seed: u64, live: &Live) -> bool {
    let mut kept = true;
    for check in &verdict.checks {
        let mark = if check.violations.is_empty() { "ok    " } else { "BROKEN" };
        live.line(&format!("   {mark}  {}", check.promise));
        for violation in &check.violations {
            kept = false;
            live.line(&format!("           {}", say::plain(violation)));
        }
    }
    live.line("");
    for line in numbers(verdict).to_string().lines() {
        live.line(&format!("   {line}"));
    }
    live.line(&match kept {
        true => "\nEvery promise was kept.".to_owned(),
        false => format!("\nA promise was BROKEN (seed {seed})."),
    });
    kept
}

fn numbers(verdict: &Verdict) -> Table {
    let (tally, stats) = (&verdict.run.tally, &verdict.stats);
    let per_second = tally.per_second(verdict.run.took);
    let mut table = Table::without_heading();
    let mut row = |name: &str, value: String, note: &str| table.row([name.to_owned(), value, note.to_owned()]);
    row("transfers", tally.done.len().to_string(), "acknowledged");
    row("throughput", format!("{per_second:.0}/s"), "transfers, all workers together");
    row("declined", tally.declined.to_string(), "not enough money");
    row("sums", tally.sums.to_string(), &format!("and {} given up for a conflict", tally.sum_conflicts));
    row("conflicts", stats.conflicts.to_string(), "transactions rolled back for a rival, and run again");
    row("expired", stats.expired.to_string(), "transactions that outlived their lease");
    row("kills", tally.kills.to_string(), "worker processes, by SIGKILL");
    row("dead clients", stats.fenced.to_string(), "found by others, and ended for good");
    row(
        "repairs",
        (stats.finished_for_others + stats.undone_for_others).to_string(),
        &format!("documents of others: {} finished, {} undone", stats.finished_for_others, stats.undone_for_others),
    );
    if tally.gave_up > 0 {
        row("given up", tally.gave_up.to_string(), "transfers, after all retries");
    }
    table
}
