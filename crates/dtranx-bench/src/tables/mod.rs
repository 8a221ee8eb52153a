//! Every table of DTranx's page of results, from one command: a file each. Whatever a table
//! compares takes turns.

mod acknowledgements;
mod binding;
mod caches;
mod elements;
mod failover;
mod garbage;
mod medium;
mod paper;
mod recovery;
mod rivals;

use std::{path::Path, time::Duration};

use benchkit::measure::machine::{Machine, file_system, free_bytes, is_in_memory};
use serde::Serialize;

use crate::{
    args::{TablesArgs, Which},
    error::BenchError,
    figures::{Passed, Pause, Restart, Row},
    measure::Plan,
    settings::{Medium, Settings},
    turns::Contender,
    workload::{Distribution, Mix, Shape},
};

/// Bytes of a value, as in the paper.
const VALUE_BYTES: u32 = 100;
/// Room that the logs of all servers may take on the emulated medium.
const LEAST_FREE_BYTES: u64 = 4 << 30;

/// A table with its rows.
#[derive(Serialize)]
struct Table {
    title: &'static str,
    rows: Rows,
    /// The table as text.
    #[serde(skip)]
    text: String,
}

/// The kinds of rows of a table.
#[derive(Serialize)]
#[serde(untagged)]
enum Rows {
    Runs(Vec<Row>),
    Restarts(Vec<Restart>),
    Passed(Vec<Passed>),
    Pauses(Vec<Pause>),
}

impl From<Vec<Row>> for Rows {
    fn from(rows: Vec<Row>) -> Self {
        Self::Runs(rows)
    }
}

impl From<Vec<Restart>> for Rows {
    fn from(rows: Vec<Restart>) -> Self {
        Self::Restarts(rows)
    }
}

impl From<Vec<Passed>> for Rows {
    fn from(rows: Vec<Passed>) -> Self {
        Self::Passed(rows)
    }
}

impl From<Vec<Pause>> for Rows {
    fn from(rows: Vec<Pause>) -> Self {
        Self::Pauses(rows)
    }
}

impl Table {
    fn new(title: &'static str, text: String, rows: impl Into<Rows>) -> Self {
        Self { title, rows: rows.into(), text }
    }
}

#[derive(Serialize)]
struct Report {
    machine: Machine,
    seconds: u64,
    rounds: u32,
    seed: u64,
    tables: Vec<Table>,
}

/// Makes the tables, and prints each as soon as it is there.
pub(crate) async fn run_tables(args: &TablesArgs) -> Result<(), BenchError> {
    check(args)?;
    let machine = Machine::look();
    args.pace.facts(&machine).iter().for_each(|fact| println!("{fact}"));
    println!("Data on {}; emulated persistent memory on {}.", machine.data_on, file_system(&args.log_folder));
    let mut tables = Vec::new();
    for which in args.which() {
        let table = match which {
            Which::A => paper::table(args).await?,
            Which::B => medium::table(args).await?,
            Which::C => garbage::table(args).await?,
            Which::D => rivals::table(args).await?,
            Which::E => binding::table(args).await?,
            Which::F => caches::table(args).await?,
            Which::G => recovery::table(args).await?,
            Which::H => acknowledgements::table(args).await?,
            Which::J => failover::table(args).await?,
            Which::I => tokio::task::block_in_place(|| elements::table(args))?,
        };
        println!("\n## {}\n\n{}", table.title, table.text);
        tables.push(table);
    }
    let report = Report { machine, seconds: args.pace.seconds, rounds: args.pace.rounds, seed: args.pace.seed, tables };
    args.pace.write_json(&report)
}

/// Refuses impossible options before anything is started.
fn check(args: &TablesArgs) -> Result<(), BenchError> {
    args.pace.check()?;
    let refused = |why: String| Err(BenchError::Refused(why));
    let which = args.which();
    if which.iter().any(|which| !matches!(which, Which::D | Which::I | Which::J)) {
        let folder = &args.log_folder;
        if !is_in_memory(folder) {
            let found = file_system(folder);
            return refused(format!(
                "--log-folder: {} is no tmpfs ({found}): all tables but d, i and j emulate persistent memory on \
                 one; give a folder on a tmpfs, or take --only d,i,j",
                folder.display()
            ));
        }
        let free = free_bytes(folder);
        if free < LEAST_FREE_BYTES {
            let (least, free) = (LEAST_FREE_BYTES >> 20, free >> 20);
            return refused(format!("--log-folder: {} has {free} MiB left, and {least} are needed", folder.display()));
        }
    }
    let needs_disk = which.iter().any(|which| matches!(which, Which::B | Which::D | Which::J));
    if needs_disk && is_in_memory(&std::env::temp_dir()) {
        return refused(format!(
            "TMPDIR: {} is in memory, and tables b, d and j need logs on a disk; set TMPDIR to a folder on one",
            std::env::temp_dir().display()
        ));
    }
    Ok(())
}

/// The paper's workload, as the options say.
fn plan(args: &TablesArgs, distribution: Distribution, reads: u8, in_flight: u32) -> Plan {
    Plan {
        mix: Mix { shape: Shape::Paper, distribution, keys: args.keys, reads },
        in_flight,
        value_bytes: VALUE_BYTES,
        warm_up: Duration::from_secs(args.pace.warm_up),
        time: Duration::from_secs(args.pace.seconds),
        is_sampled: false,
        seed: args.pace.seed,
    }
}

/// Servers whose logs are on the emulated medium.
fn persistent(folder: &Path) -> Settings {
    Settings { medium: Medium::PersistentMemory, log_folder: Some(folder.to_path_buf()), ..Settings::default() }
}

/// Fills these stores with the paper's values.
async fn filled(contenders: Vec<Contender>, keys: u64) -> Result<Vec<Contender>, BenchError> {
    filled_with(contenders, keys, VALUE_BYTES).await
}

async fn filled_with(contenders: Vec<Contender>, keys: u64, value_bytes: u32) -> Result<Vec<Contender>, BenchError> {
    for one in &contenders {
        one.store.load(keys, value_bytes).await?;
    }
    Ok(contenders)
}
