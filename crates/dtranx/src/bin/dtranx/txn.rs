//! A small script of operations, as one transaction.

use std::io::Read;

use bytes::Bytes;
use clap::Args;
use dtranx::client::{Error, Transaction};

use crate::connect::Connect;
use crate::data::{print_items, shown};
use crate::failure::Failure;
use crate::say::say;

#[derive(Args)]
pub(crate) struct TxnOptions {
    #[command(flatten)]
    connect: Connect,
    /// The operations: `get KEY`, `put KEY VALUE`, `delete KEY`, `scan PREFIX LIMIT`,
    /// `expect KEY VALUE`, `expect-absent KEY`. An expectation that does not hold ends the
    /// transaction. Without any, a line of the standard input each
    operations: Vec<String>,
}

enum Operation {
    Get(String),
    Put(String, String),
    Delete(String),
    Scan(String, usize),
    Expect(String, Option<String>),
}

/// Line that an operation prints once the transaction is committed.
enum Output {
    Value(String, Option<Bytes>),
    Items(Vec<(Bytes, Bytes)>),
}

pub(crate) fn run_transaction(options: &TxnOptions) -> Result<(), Failure> {
    let mut text = options.operations.join("\n");
    if options.operations.is_empty() {
        std::io::stdin().read_to_string(&mut text)?;
    }
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let operations: Vec<_> = lines.map(parse).collect::<Result<_, _>>().map_err(Failure::Failed)?;
    let client = options.connect.client()?;
    let done = client.transact(|tranx| {
        operations.iter().map(|operation| carry_out(tranx, operation)).collect::<Result<Vec<_>, _>>()
    });
    match done {
        Ok(outputs) => outputs.into_iter().flatten().for_each(print),
        Err(Error::Aborted(why)) => return Err(Failure::No(why)),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn parse(line: &str) -> Result<Operation, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let own = |word: &str| word.to_owned();
    Ok(match words.as_slice() {
        ["get", key] => Operation::Get(own(key)),
        ["put", key, value] => Operation::Put(own(key), own(value)),
        ["delete", key] => Operation::Delete(own(key)),
        ["scan", prefix, limit] => {
            let number = limit.parse().ok().filter(|limit| *limit > 0);
            let limit = number.ok_or_else(|| format!("{line:?}: the limit {limit:?} is no number from 1 on"))?;
            Operation::Scan(own(prefix), limit)
        }
        ["expect", key, value] => Operation::Expect(own(key), Some(own(value))),
        ["expect-absent", key] => Operation::Expect(own(key), None),
        _ => return Err(format!("{line:?} is no operation: see `dtranx txn --help`")),
    })
}

fn carry_out(tranx: &mut Transaction, operation: &Operation) -> Result<Option<Output>, Error> {
    match operation {
        Operation::Get(key) => Ok(Some(Output::Value(key.clone(), tranx.get(key.clone())?))),
        Operation::Put(key, value) => tranx.put(key.clone(), value.clone()).map(|()| None),
        Operation::Delete(key) => tranx.delete(key.clone()).map(|()| None),
        Operation::Scan(prefix, limit) => Ok(Some(Output::Items(tranx.scan_prefix(prefix.clone(), *limit)?.items))),
        Operation::Expect(key, expected) => {
            let found = tranx.get(key.clone())?;
            if found.as_deref() == expected.as_deref().map(str::as_bytes) {
                return Ok(None);
            }
            let found = found.map_or("nothing".to_owned(), |value| format!("\"{}\"", shown(&value)));
            Err(Error::Aborted(format!("the key {key:?} holds {found}; nothing is changed")))
        }
    }
}

fn print(output: Output) {
    match output {
        Output::Value(key, Some(value)) => say!("{key}\t{}", shown(&value)),
        Output::Value(key, None) => say!("{key}\t(absent)"),
        Output::Items(items) => print_items(&items),
    }
}
