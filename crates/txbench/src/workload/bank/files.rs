//! `bank-files`: writes operations as JSON files (paper 003, section III).
//!
//! `accounts.json` holds the accounts before the first operation (listing 3), `operations-NNN.json`
//! the operations (listings 1 and 2), each an array with an element on each line. Operations are
//! dealt to the files in turns. The balances in them are those after the operation when all are
//! done in the order of their sequence numbers.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use clap::Args;

use super::{
    accounts::{Accounts, Initial, MOST},
    generator::{Generator, Mix},
    money::Money,
    operation::{Change, Operation},
    record::Record,
};
use crate::error::BenchError;

/// The file that holds the accounts.
pub(super) const ACCOUNTS_FILE: &str = "accounts.json";

/// Arguments of the command `bank-files`.
#[derive(Clone, Debug, Args)]
pub struct FilesArgs {
    /// The folder that the files are written to; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Number of operations in all
    #[arg(long, default_value_t = 116_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub operations: u64,
    /// Number of files among which the operations are divided
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub files: u32,
    /// Accounts; the first ten are the paper's
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=i64::from(MOST)))]
    pub accounts: u32,
    /// Deposits, withdrawals and transfers, in percent
    #[arg(long, default_value = "40,40,20")]
    pub mix: Mix,
    /// The same seed writes the same files
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Writes operations that are drawn from the seed, as JSON files.
///
/// # Errors
/// [`BenchError::Refused`] when one of them is there already or cannot be written.
pub fn write_files(args: &FilesArgs) -> Result<(), BenchError> {
    let FilesArgs { out, operations, files, accounts, mix, seed } = args;
    std::fs::create_dir_all(out).map_err(|error| refused(out, &error))?;
    let generator = Generator { seed: *seed, accounts: *accounts, mix: *mix };
    let accounts = Accounts::Counted(*accounts);
    let mut arrays = Vec::new();
    for at in 0..*files {
        arrays.push(ArrayFile::create(out.join(format!("operations-{at:03}.json")))?);
    }
    write_accounts(out, &accounts)?;
    let mut balances = Balances::new(&accounts);
    for at in 0..*operations {
        let operation = generator.operation(at);
        let file = (at % u64::from(*files)) as usize;
        balances.apply(operation);
        arrays[file].push(&balances.record(operation, &accounts))?;
    }
    arrays.into_iter().try_for_each(ArrayFile::end)
}

fn write_accounts(out: &Path, accounts: &Accounts) -> Result<(), BenchError> {
    let mut array = ArrayFile::create(out.join(ACCOUNTS_FILE))?;
    for at in 0..accounts.len() {
        array.push(&Initial { number: accounts.number(at).into_owned(), balance: accounts.initial(at) })?;
    }
    array.end()
}

/// Balances of all accounts after the operations so far.
struct Balances(Vec<Money>);

impl Balances {
    fn new(accounts: &Accounts) -> Self {
        Self((0..accounts.len()).map(|at| accounts.initial(at)).collect())
    }

    fn apply(&mut self, operation: Operation) {
        operation.change.effects().for_each(|effect| self.0[effect.account as usize].0 += effect.by.0);
    }

    /// The record with the balances of this moment.
    fn record(&self, operation: Operation, accounts: &Accounts) -> Record {
        let balance = |account: u32| self.0[account as usize];
        let number = |account: u32| accounts.number(account).into_owned();
        let sequence = operation.sequence;
        match operation.change {
            Change::Deposit { account, amount } => Record::Single {
                account: number(account),
                destination: None,
                sequence,
                withdrawal: Money(0),
                deposit: amount,
                balance: balance(account),
            },
            Change::Withdrawal { account, amount } => Record::Single {
                account: number(account),
                destination: None,
                sequence,
                withdrawal: amount,
                deposit: Money(0),
                balance: balance(account),
            },
            Change::Transfer { from, to, amount } => Record::Transfer {
                origin: number(from),
                destination: number(to),
                sequence,
                amount,
                origin_balance: balance(from),
                destination_balance: balance(to),
            },
        }
    }
}

/// A JSON array, an element on each line.
struct ArrayFile {
    path: PathBuf,
    file: BufWriter<File>,
    empty: bool,
}

impl ArrayFile {
    /// A new file: none is overwritten.
    fn create(path: PathBuf) -> Result<Self, BenchError> {
        let file = File::create_new(&path).map_err(|error| refused(&path, &error))?;
        Ok(Self { path, file: BufWriter::new(file), empty: true })
    }

    fn push(&mut self, element: &impl serde::Serialize) -> Result<(), BenchError> {
        let before: &[u8] = if self.empty { b"[\n" } else { b",\n" };
        self.empty = false;
        let written = self.file.write_all(before).and_then(|()| Ok(serde_json::to_writer(&mut self.file, element)?));
        written.map_err(|error| refused(&self.path, &error))
    }

    fn end(mut self) -> Result<(), BenchError> {
        let end: &[u8] = if self.empty { b"[]\n" } else { b"\n]\n" };
        let written = self.file.write_all(end).and_then(|()| self.file.flush());
        written.map_err(|error| refused(&self.path, &error))
    }
}

fn refused(path: &Path, error: &std::io::Error) -> BenchError {
    BenchError::Refused(format!("--out: {}: {error}", path.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::*;
    use crate::workload::documents::Documents;

    fn written(operations: u64, files: u32, seed: u64) -> (tempfile::TempDir, Vec<Vec<Value>>) {
        let folder = tempfile::tempdir().unwrap();
        let (out, mix) = (folder.path().join("made"), "40,40,20".parse().unwrap());
        write_files(&FilesArgs { out: out.clone(), operations, files, accounts: 10, mix, seed }).unwrap();
        let read = |at| Documents::open("--files", &out.join(format!("operations-{at:03}.json"))).unwrap();
        let all = (0..files).map(|at| read(at).collect::<Result<_, _>>().unwrap()).collect();
        (folder, all)
    }

    fn money(record: &Value, field: &str) -> i64 {
        record[field].to_string().parse::<Money>().unwrap().0
    }

    /// Adds the amounts up by the names of the fields, independently of the writer.
    #[test]
    fn balances_are_what_the_operations_before_add_up_to() {
        let (_folder, files) = written(3_000, 3, 5);
        let by_sequence: BTreeMap<i64, Value> =
            files.into_iter().flatten().map(|record| (record["SEQUENCE"].as_i64().unwrap(), record)).collect();
        assert!(by_sequence.keys().copied().eq(1..=3_000));
        let mut balances: BTreeMap<String, i64> = BTreeMap::new();
        let name = |record: &Value, field: &str| record[field].as_str().unwrap().to_owned();
        for record in by_sequence.values() {
            if record.get("ACCOUNT NO").is_some() {
                assert!(record["DESTINATION ACCOUNT"].is_null());
                let balance = balances.entry(name(record, "ACCOUNT NO")).or_default();
                *balance += money(record, "DEPOSIT AMT") - money(record, "WITHDRAWAL AMT");
                assert_eq!(*balance, money(record, "BALANCE AMT"), "{record}");
            } else {
                let amount = money(record, "TRANSFER AMT");
                let balance = balances.entry(name(record, "ORIGIN ACCOUNT")).or_default();
                *balance -= amount;
                assert_eq!(*balance, money(record, "BALANCE Origin Account"), "{record}");
                let balance = balances.entry(name(record, "DESTINATION ACCOUNT")).or_default();
                *balance += amount;
                assert_eq!(*balance, money(record, "BALANCE Destination Account"), "{record}");
            }
        }
        assert_eq!(balances.len(), 10);
    }

    #[test]
    fn operations_are_dealt_in_turns() {
        let (_folder, files) = written(10, 4, 1);
        let sequences: Vec<BTreeSet<i64>> =
            files.iter().map(|file| file.iter().map(|record| record["SEQUENCE"].as_i64().unwrap()).collect()).collect();
        let expected = [vec![1, 5, 9], vec![2, 6, 10], vec![3, 7], vec![4, 8]];
        assert!(sequences.iter().zip(expected).all(|(file, expected)| file.iter().copied().eq(expected)));
    }

    #[test]
    fn the_same_seed_writes_the_same_files_and_another_writes_others() {
        assert_eq!(written(100, 2, 9).1, written(100, 2, 9).1);
        assert_ne!(written(100, 2, 9).1, written(100, 2, 8).1);
    }

    #[test]
    fn accounts_are_written_as_the_paper_shows_them() {
        let (folder, _) = written(1, 1, 1);
        let text = std::fs::read_to_string(folder.path().join("made").join(ACCOUNTS_FILE)).unwrap();
        assert_eq!(text.lines().nth(1), Some(r#"{"Account":"409000611074","Balance":0},"#));
        assert_eq!(serde_json::from_str::<Vec<Value>>(&text).unwrap().len(), 10);
    }

    #[test]
    fn nothing_is_overwritten() {
        let (folder, _) = written(1, 1, 1);
        let (out, mix) = (folder.path().join("made"), "40,40,20".parse().unwrap());
        let again = write_files(&FilesArgs { out, operations: 1, files: 1, accounts: 10, mix, seed: 1 });
        assert!(again.unwrap_err().to_string().contains("operations-000.json"));
    }
}
