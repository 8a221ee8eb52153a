//! The table of paper 003, section V: updates a second of deposits and withdrawals without a
//! session, of the same ones in transactions, and of transfers, for every write concern, on a
//! replica set.
//!
//! Without `--replica-uri` the replica set is started here, with as many nodes as the largest write
//! concern needs, and ends with the command.
//!
//! The paper's server let no more than 100 operations a second through, and so its rows hardly
//! differ. It left `j` for later; here it is `--journal`.

use benchkit::report::{self, result::BenchResult};
use clap::Args;

use crate::{
    error::BenchError,
    run::{RunArgs, plan, servers::Servers},
    targets::Acknowledged,
    workload::{
        bank::{AccountIndex, BankOptions, Mix},
        registry::WorkloadSpec,
    },
};

/// Arguments of the command `bank-table`.
#[derive(Clone, Debug, Args)]
pub struct TableArgs {
    /// Write concerns, one row for each; --write-concern is not used. A replica set with as many
    /// nodes as they need is started, and ended with this command, if --replica-uri names none
    #[arg(long, value_delimiter = ',', default_value = "1,2,3", value_parser = clap::value_parser!(u8).range(1..=7))]
    pub write_concerns: Vec<u8>,
    /// How it is measured. All targets are on the replica set
    #[command(flatten)]
    pub run: RunArgs,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    title: String,
    mix: Mix,
    alone: bool,
    write_concern: Acknowledged,
}

/// Measures all rows and puts them together. `command` repeats it.
///
/// # Errors
/// As [`plan::run_workload`].
pub async fn run_bank_table(args: &TableArgs, command: &str) -> Result<BenchResult, BenchError> {
    let mut run = args.run.clone();
    run.all_on_replica_set = true;
    run.replica_nodes = args.write_concerns.iter().copied().fold(run.replica_nodes, u8::max);
    let servers = Servers::start(&run).await?;
    for (target, w) in run.targets.iter().flat_map(|target| args.write_concerns.iter().map(move |w| (target, w))) {
        servers.check_nodes("--write-concerns", *target, Acknowledged::Nodes(*w))?;
    }
    let mut results = Vec::new();
    for row in rows(&args.write_concerns) {
        run.write_concern = row.write_concern;
        let mut result = plan::run_on(&servers, &WorkloadSpec::Bank(options(&row)), &run, command).await?;
        result.title.clone_from(&row.title);
        result.runs.iter_mut().for_each(|run| run.workload.clone_from(&row.title));
        results.push(result);
    }
    let mut merged = report::merge(results);
    "bank, by write concern".clone_into(&mut merged.title);
    Ok(merged)
}

/// The rows, in the paper's order.
fn rows(write_concerns: &[u8]) -> Vec<Row> {
    let single = Mix { deposits: 50, withdrawals: 50, transfers: 0 };
    let multi = Mix { deposits: 0, withdrawals: 0, transfers: 100 };
    let title = "single document, no session".to_owned();
    let mut rows = vec![Row { title, mix: single, alone: true, write_concern: Acknowledged::Majority }];
    for (what, mix) in [("single document", single), ("multi-document", multi)] {
        rows.extend(write_concerns.iter().map(|w| {
            let write_concern = Acknowledged::Nodes(*w);
            Row { title: format!("{what}, w: {w}"), mix, alone: false, write_concern }
        }));
    }
    rows
}

/// The paper's accounts and as many operations; over and over, so that no target runs out of them
/// while it is measured.
fn options(row: &Row) -> BankOptions {
    BankOptions {
        files: None,
        operations: 116_000,
        operations_seed: 1,
        accounts: 10,
        mix: row.mix,
        endless: true,
        alone: row.alone,
        by_account: false,
        account_index: AccountIndex::Unique,
        index_balances: false,
        audit: false,
        readers: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_those_of_the_paper() {
        let titles: Vec<String> = rows(&[1, 2, 3]).into_iter().map(|row| row.title).collect();
        let expected = [
            "single document, no session",
            "single document, w: 1",
            "single document, w: 2",
            "single document, w: 3",
            "multi-document, w: 1",
            "multi-document, w: 2",
            "multi-document, w: 3",
        ];
        assert_eq!(titles, expected);
    }
}
