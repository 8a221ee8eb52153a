//! The bank of paper 003: deposits, withdrawals and transfers, replayed from JSON files or drawn
//! from a seed.
//!
//! | file | what it does |
//! | --- | --- |
//! | `money`, `accounts`, `operation` | the words: amounts, accounts, operations |
//! | `generator`, `files`, `record` | draws operations; writes them as files in the paper's two shapes |
//! | `source` | gives each client its part of the operations |
//! | `client`, `posting`, `reads` | one client: its choices, its operations, its reads in between |
//! | `tally`, `check`, `expected` | the progress of each client; the check that every account holds exactly what was acknowledged |
//!
//! Accounts have the fields of the paper's listing 4 (`Account`, `Balance`, `LastTxnSequence`,
//! `LastUpdateTS`); money is in hundredths. `_id` is the number of the account, too: the target
//! decides which of the two costs what.
//!
//! Each run begins with the accounts as they were at first, as in the paper, so that the check is
//! exact.

mod accounts;
mod check;
mod client;
mod expected;
pub mod files;
mod generator;
mod money;
mod operation;
mod posting;
mod reads;
mod record;
mod source;
mod tally;

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use bson::{Document, doc};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

pub use self::generator::Mix;
use self::{accounts::MOST, client::BankClient, generator::Generator, source::Source};
use super::{Check, Client, ClientId, Progress, Totals, Workload, WorkloadOptions, pages};
use crate::{
    error::BenchError,
    targets::{Feature, Index, Session, Target, TxOptions},
};

const ACCOUNTS: &str = "accounts";
/// Collection of the audit (`--audit`): a record of every operation.
const AUDIT: &str = "audit";
/// Collection with the progress of each client: see `tally`.
const TALLIES: &str = "tallies";
/// Accounts that are loaded at once.
const BATCH: u32 = 5_000;

/// The options of the bank.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub struct BankOptions {
    /// Replay the operations of the JSON files in this folder (see `bank-files`) instead of drawing
    /// them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["operations", "operations_seed", "accounts", "mix"])]
    pub files: Option<PathBuf>,
    /// Number of operations; a run ends early when all are done
    #[arg(long, default_value_t = 116_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub operations: u64,
    /// Seed of the operations: the same ones in every run
    #[arg(long, default_value_t = 1)]
    pub operations_seed: u64,
    /// Accounts; the first ten are the paper's
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=i64::from(MOST)))]
    pub accounts: u32,
    /// Deposits, withdrawals and transfers, in percent
    #[arg(long, default_value = "40,40,20")]
    pub mix: Mix,
    /// Begin anew when all operations are done
    #[arg(long)]
    pub endless: bool,
    /// Do deposits and withdrawals without a transaction around them (the paper's "without
    /// session")
    #[arg(long, conflicts_with = "audit")]
    pub alone: bool,
    /// Find accounts by their field Account, which has an index, instead of by _id
    #[arg(long)]
    pub by_account: bool,
    /// The index on Account: unique, or not, for targets that cannot keep a unique one
    #[arg(long, value_enum, default_value_t)]
    pub account_index: AccountIndex,
    /// Keep an index on Balance
    #[arg(long)]
    pub index_balances: bool,
    /// Record every operation in another collection, in the same transaction
    #[arg(long)]
    pub audit: bool,
    /// Percentage of transactions that only read: balances; the largest ones, where they have an
    /// index; sums over the whole bank, which must be consistent, up to 1000 accounts; with an
    /// audit, whether it agrees with the accounts
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub readers: u8,
}

/// The index on `Account`. No two accounts have the same number either way: it is their `_id`, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum AccountIndex {
    /// A unique index on the number.
    #[default]
    Unique,
    /// An index that is not unique.
    Plain,
}

impl WorkloadOptions for BankOptions {
    fn make(&self) -> Result<Box<dyn Workload>, BenchError> {
        let source = match &self.files {
            Some(folder) => Source::files(folder)?,
            None => {
                let generator = Generator { seed: self.operations_seed, accounts: self.accounts, mix: self.mix };
                Source::drawn(generator, self.operations)
            }
        };
        Ok(Box::new(Bank { options: Arc::new(self.clone()), source }))
    }
}

struct Bank {
    options: Arc<BankOptions>,
    source: Source,
}

#[async_trait]
impl Workload for Bank {
    fn title(&self) -> String {
        "bank".to_owned()
    }

    fn about(&self) -> String {
        let BankOptions { operations, mix, .. } = *self.options;
        let list = match &self.options.files {
            Some(_) => "the operations of files".to_owned(),
            None => format!("{operations} operations, {mix} percent deposits, withdrawals, transfers"),
        };
        let BankOptions { endless, alone, by_account, index_balances, audit, readers, .. } = *self.options;
        let mut about = format!("{list}, on {} accounts", self.source.accounts.len());
        let details = [
            (endless, "over and over"),
            (alone, "deposits and withdrawals without a transaction"),
            (by_account, "accounts found by an index"),
            (index_balances, "with an index on balances"),
            (audit, "with an audit"),
        ];
        for (_, detail) in details.into_iter().filter(|(is_so, _)| *is_so) {
            about = format!("{about}, {detail}");
        }
        match readers {
            0 => about,
            _ => format!("{about}; {readers} % of the transactions only read"),
        }
    }

    fn needs(&self) -> Vec<Feature> {
        let BankOptions { by_account, index_balances, audit, readers, .. } = *self.options;
        let query = by_account || index_balances || readers > 0 || self.source.accounts.len() > pages::SIZE;
        let unique = self.options.account_index == AccountIndex::Unique;
        let mut needs = Vec::new();
        needs.extend(unique.then_some(Feature::UniqueIndex));
        needs.extend((query || audit).then_some(Feature::Query));
        needs.extend(audit.then_some(Feature::Insert));
        needs
    }

    fn transactions(&self) -> Vec<TxOptions> {
        if self.options.readers > 0 { vec![reads::CONSISTENT] } else { Vec::new() }
    }

    fn collections(&self) -> Vec<&'static str> {
        if self.options.audit { vec![ACCOUNTS, TALLIES, AUDIT] } else { vec![ACCOUNTS, TALLIES] }
    }

    async fn load(&self, target: &dyn Target, _seed: u64, progress: Progress<'_>) -> Result<(), BenchError> {
        let mut indexes =
            vec![Index { key: doc! {"Account": 1}, unique: self.options.account_index == AccountIndex::Unique }];
        if self.options.index_balances {
            indexes.push(Index { key: doc! {"Balance": -1}, unique: false });
        }
        target.create(ACCOUNTS, &indexes).await?;
        let accounts = self.source.accounts.len();
        for first in (0..accounts).step_by(BATCH as usize) {
            let batch = first..accounts.min(first + BATCH);
            target.load(ACCOUNTS, batch.map(|ordinal| self.account(ordinal)).collect()).await?;
            progress((first + BATCH).min(accounts).into(), accounts.into());
        }
        target.create(TALLIES, &[]).await?;
        target.load(TALLIES, tally::empty()).await?;
        if self.options.audit {
            target.create(AUDIT, &[]).await?;
        }
        Ok(())
    }

    fn reusable(&self) -> bool {
        false
    }

    fn client(&self, id: ClientId) -> Result<Box<dyn Client>, BenchError> {
        Ok(Box::new(BankClient::new(Arc::clone(&self.options), &self.source, id)?))
    }

    async fn check(&self, session: &mut dyn Session, totals: &Totals) -> Check {
        check::check(&self.options, &self.source, session, totals).await
    }
}

impl Bank {
    /// An account before the first operation (paper 003, listing 3).
    fn account(&self, ordinal: u32) -> Document {
        let accounts = &self.source.accounts;
        let (number, balance) = (accounts.number(ordinal).into_owned(), accounts.initial(ordinal).0);
        let mut account = doc! {"_id": &number, "Account": &number, "Balance": balance};
        if self.options.sums() {
            account.insert(reads::DEPOSITED, balance);
        }
        account
    }
}

impl BankOptions {
    /// Returns true if sums over the whole bank may be read.
    fn sums(&self) -> bool {
        self.readers > 0
    }
}
