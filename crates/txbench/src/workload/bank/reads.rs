//! Reads of clients while others write (paper 003, future work), and the conditions that their
//! results must meet.
//!
//! - `balance`: one account's, by `Account`: the account is there.
//! - `largest`: the ten largest balances, by the index on them: they come in order.
//! - `bank-sum`: all accounts, in one transaction at repeatable read. [`DEPOSITED`] counts what
//!   deposits and withdrawals have changed; a transfer leaves it. So balances and it have the same
//!   sum whenever no transfer is seen in half.
//! - `partial-check`: some accounts and, by their `LastTxnSequence`, the records of the audit, in
//!   one transaction at repeatable read: an account holds what the audit says that its last
//!   operation left.
//!
//! The last two are at repeatable read because no query at read committed promises a sum: it may
//! see one account before and another after a transfer.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};
use rand::{RngExt, rngs::StdRng, seq::index::sample};

use super::{ACCOUNTS, AUDIT, BankOptions, accounts::Accounts};
use crate::{
    error::OpResult,
    targets::{Find, Isolation, Session, TxOptions},
};

/// The field of accounts that [`Read::BankSum`] needs; only there where sums are read.
pub(super) const DEPOSITED: &str = "Deposited";
/// Greatest number of accounts over which sums are read: they have to fit into one answer.
const SUMMED: u32 = 1_000;
/// Number of the largest balances that one read returns.
const LARGEST: u32 = 10;
/// Number of accounts that are compared with the audit at once.
const COMPARED: usize = 10;

/// The kinds of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Balance,
    Largest,
    BankSum,
    PartialCheck,
}

/// The read that was chosen.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) read: Read,
    /// The accounts to read, if not all.
    accounts: Vec<u32>,
}

impl Read {
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Balance => "balance",
            Self::Largest => "largest",
            Self::BankSum => "bank-sum",
            Self::PartialCheck => "partial-check",
        }
    }
}

/// Options of transactions whose reads have to be consistent with one another.
pub(super) const CONSISTENT: TxOptions =
    TxOptions { isolation: Some(Isolation::RepeatableRead), durability: None, no_lost_updates: false };

impl Chosen {
    /// Chooses among what can be read: seven in ten of all reads are of one balance, where there is
    /// another kind.
    pub(super) fn draw(random: &mut StdRng, options: &BankOptions, accounts: u32) -> Self {
        let possible = [
            (Read::Largest, options.index_balances),
            (Read::BankSum, accounts <= SUMMED),
            (Read::PartialCheck, options.audit),
        ];
        let others: Vec<Read> = possible.into_iter().filter_map(|(read, is)| is.then_some(read)).collect();
        let read = match others.len() {
            0 => Read::Balance,
            _ if random.random_range(0..10) < 7 => Read::Balance,
            n => others[random.random_range(0..n)],
        };
        let amount = match read {
            Read::Balance => 1,
            Read::PartialCheck => COMPARED.min(accounts as usize),
            Read::Largest | Read::BankSum => 0,
        };
        let accounts = sample(random, accounts as usize, amount).iter().map(|at| at as u32).collect();
        Self { read, accounts }
    }

    /// Reads; returns whether the result is possible.
    pub(super) async fn attempt(&self, session: &mut dyn Session, accounts: &Accounts) -> OpResult<bool> {
        match self.read {
            Read::Balance => self.balance(session, accounts).await,
            Read::Largest => largest(session).await,
            Read::BankSum | Read::PartialCheck => {
                session.begin(&CONSISTENT).await?;
                let consistent = match self.read {
                    Read::BankSum => bank_sum(session, accounts).await?,
                    _ => self.partial_check(session, accounts).await?,
                };
                // The values read count only if the transaction commits.
                session.commit().await?;
                Ok(consistent)
            }
        }
    }

    async fn balance(&self, session: &mut dyn Session, accounts: &Accounts) -> OpResult<bool> {
        let number = accounts.number(self.accounts[0]);
        let find = Find::new(doc! {"Account": number.as_ref()}).project(doc! {"Balance": 1});
        Ok(session.find_one(ACCOUNTS, find).await?.is_some_and(|account| balance(&account).is_some()))
    }

    async fn partial_check(&self, session: &mut dyn Session, accounts: &Accounts) -> OpResult<bool> {
        let numbers: Vec<Bson> = self.accounts.iter().map(|at| accounts.number(*at).into_owned().into()).collect();
        let expected = numbers.len();
        let find = Find::new(doc! {"_id": {"$in": numbers}}).project(doc! {"Balance": 1, "LastTxnSequence": 1});
        let found = session.find(ACCOUNTS, find).await?;
        let last = |account: &Document| account.get_i64("LastTxnSequence").ok();
        let sequences: Vec<Bson> = found.iter().filter_map(last).map(Bson::from).collect();
        let mut records = BTreeMap::new();
        if !sequences.is_empty() {
            for record in session.find(AUDIT, Find::new(doc! {"_id": {"$in": sequences}})).await? {
                records.insert(record.get_i64("_id").unwrap_or_default(), record);
            }
        }
        let agrees = |account: &Document| match last(account) {
            None => true,
            Some(sequence) => {
                records.get(&sequence).is_some_and(|record| recorded(record, account) == balance(account))
            }
        };
        Ok(found.len() == expected && found.iter().all(agrees))
    }
}

async fn largest(session: &mut dyn Session) -> OpResult<bool> {
    let find = Find::new(doc! {"Balance": {"$gt": 0}}).project(doc! {"Balance": 1});
    let found = session.find(ACCOUNTS, find.sort(doc! {"Balance": -1}).limit(LARGEST)).await?;
    let balances: Vec<Option<i64>> = found.iter().map(balance).collect();
    Ok(balances.iter().all(Option::is_some) && balances.is_sorted_by(|larger, smaller| larger >= smaller))
}

async fn bank_sum(session: &mut dyn Session, accounts: &Accounts) -> OpResult<bool> {
    let find = Find::new(doc! {}).project(doc! {"Balance": 1, DEPOSITED: 1});
    let found = session.find(ACCOUNTS, find).await?;
    let mut difference = 0;
    for account in &found {
        let (Some(balance), Ok(deposited)) = (balance(account), account.get_i64(DEPOSITED)) else { return Ok(false) };
        difference += balance - deposited;
    }
    Ok(found.len() == accounts.len() as usize && difference == 0)
}

fn balance(account: &Document) -> Option<i64> {
    account.get_i64("Balance").ok()
}

/// Balance that this record says its operation left in the account.
fn recorded(record: &Document, account: &Document) -> Option<i64> {
    let number = account.get_str("_id").ok()?;
    let mut changes = record.get_array("changes").ok()?.iter().filter_map(Bson::as_document);
    changes.find(|change| change.get_str("account").is_ok_and(|of| of == number))?.get_i64("balance").ok()
}
