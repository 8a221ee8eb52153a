//! `mongotx-bench statements`: statements on many documents within a transaction, through the plain
//! driver without one, through MongoDB's own transactions, and through MongoTx.
//!
//! For each statement ([`statement`]) the sides ([`side`]) take turns, round after round: each
//! makes its data anew, then its statement is timed. MongoTx has written to the collection before.

mod side;
mod statement;

use std::time::Duration;

use benchkit::{
    measure::Machine,
    report::{
        self, TableArgs,
        spread::median,
        table::{Column, Report, Row, Table},
    },
};
use clap::{Args, ValueEnum};
use txbench::{server::Bench, targets::Deployment};

use self::{
    side::{Driver, MongoTx, Side},
    statement::Statement,
};
use super::{BenchError, progress};
use crate::say;

const NOTES: &str = "ms: median of the rounds, with the commit where the statement changes documents. x plain, x native: MongoTx's \
divided by that of the plain driver without a transaction, and of MongoDB's own transactions. commands: everything that MongoTx sent \
for one round.";

/// The arguments of `mongotx-bench statements`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatementsArgs {
    /// Statements to measure [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    statements: Vec<Statement>,
    /// Least time of all rounds of a statement on one side, in seconds; there are three rounds at
    /// least
    #[arg(long, default_value = "2", value_parser = seconds)]
    seconds: Duration,
    #[command(flatten)]
    output: TableArgs,
}

/// Rounds of a statement that takes longer than the time for all of them.
const LEAST_ROUNDS: usize = 3;
/// Rounds of a statement that takes no time.
const MOST_ROUNDS: usize = 200;

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected a number of seconds from 0.01 to 3600".to_owned()),
    }
}

/// Measures everything, and prints it.
pub(crate) async fn run_statements(args: &StatementsArgs) -> Result<(), BenchError> {
    let standalone = Bench::start(Deployment::Standalone).await?;
    let set = Bench::start(Deployment::ReplicaSet(1)).await?;
    let db = format!("mongotx_bench_statements_{}", std::process::id());
    let mongotx = MongoTx::connect(&standalone.uri, &db).await?;
    let (plain, native) = (Driver::plain(&standalone.uri, &db).await?, Driver::native(&set.uri, &db).await?);
    let all = if args.statements.is_empty() { Statement::value_variants() } else { &args.statements };
    let (progress, mut rows) = (progress::bar(all.len() as u64), Vec::new());
    for statement in all {
        progress.set_message(statement.title().to_owned());
        rows.push(row(*statement, args.seconds, &plain, &native, &mongotx).await?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    mongotx.close().await?;
    let facts = vec![
        format!("Machine: {}. Client and servers share it.", Machine::look()),
        format!("Standalone server: {}.", standalone.describe().await?),
        format!("Replica set: {}.", set.describe().await?),
        "All sides: one client; what changes documents is answered when it is journaled (native: and on the majority); \
         MongoTx and native at snapshot."
            .to_owned(),
    ];
    let report = Report { facts, tables: vec![table(rows)] };
    let TableArgs { markdown, markdown_file } = &args.output;
    say::line(&report::write_report(&report, *markdown, markdown_file.as_deref())?);
    Ok(())
}

async fn row(
    statement: Statement,
    time: Duration,
    plain: &Driver,
    native: &Driver,
    mongotx: &MongoTx,
) -> Result<Row, BenchError> {
    let sides: [&dyn Side; 3] = [plain, native, mongotx];
    let (mut taken, mut commands) = ([const { Vec::new() }; 3], 0);
    let is_enough = |taken: &[Vec<f64>; 3]| {
        let all = |of: &Vec<f64>| of.iter().sum::<f64>() >= time.as_secs_f64() * 1e3;
        taken[0].len() >= LEAST_ROUNDS && (taken[0].len() >= MOST_ROUNDS || taken.iter().all(all))
    };
    while !is_enough(&taken) {
        for (side, taken) in sides.iter().zip(&mut taken) {
            let round = side.round(statement).await?;
            taken.push(round.time.as_secs_f64() * 1e3);
            commands = round.commands.unwrap_or(commands);
        }
    }
    let [plain, native, mongotx] = taken.map(|taken| median(taken).unwrap_or(f64::NAN));
    let figures = [plain, native, mongotx].map(|ms| format!("{ms:.2}"));
    let ratios = [mongotx / plain, mongotx / native].map(|ratio| format!("{ratio:.2}"));
    let title = vec![statement.title().to_owned()];
    Ok(Row::from([title, figures.to_vec(), ratios.to_vec(), vec![commands.to_string()]].concat()))
}

fn table(rows: Vec<Row>) -> Table {
    let numbers = ["plain ms", "native ms", "MongoTx ms", "x plain", "x native", "commands"];
    let columns = std::iter::once(Column::text("statement")).chain(numbers.map(Column::number)).collect();
    Table { columns, rows, notes: NOTES.to_owned(), ..Table::default() }
}
