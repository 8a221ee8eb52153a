//! Two-document transfers: two updates by `_id`, each an `$inc`, in one transaction. No account is
//! read; or both are read first and given new balances. Some of the clients may audit: each sums
//! all accounts in a transaction.

use std::time::Duration;

use async_trait::async_trait;
use bson::{Document, doc};
use clap::Args;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde::{Deserialize, Serialize};

use super::{Broken, Check, Chosen, Client, ClientId, Done, Progress, Totals, Workload, WorkloadOptions};
use crate::{
    error::{BenchError, OpResult},
    targets::{Feature, Find, Session, Target, TxOptions, Update},
};

const ACCOUNTS: &str = "accounts";
const BALANCE: i64 = 1_000_000;
const BATCH: usize = 5_000;

/// Options of the workload `transfer`.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub struct TransferOptions {
    /// Number of accounts to choose from
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..=10_000_000))]
    pub documents: u32,
    /// Size of one account's document
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    pub document_bytes: u32,
    /// Both accounts are read first, and given their new balances (`find`, `find`, `$set`, `$set`)
    #[arg(long)]
    pub reads_first: bool,
    /// Number of clients that sum all accounts instead; a wrong sum breaks the run
    #[arg(long, default_value_t = 0)]
    pub auditors: u32,
}

impl WorkloadOptions for TransferOptions {
    fn make(&self) -> Result<Box<dyn Workload>, BenchError> {
        Ok(Box::new(Transfers(self.clone())))
    }
}

impl TransferOptions {
    /// Sum of all accounts' balances.
    fn total(&self) -> i64 {
        i64::from(self.documents) * BALANCE
    }
}

struct Transfers(TransferOptions);

#[async_trait]
impl Workload for Transfers {
    fn title(&self) -> String {
        "transfer".to_owned()
    }

    fn about(&self) -> String {
        let TransferOptions { documents, document_bytes, reads_first, auditors } = self.0;
        let how = if reads_first {
            "two finds by _id, then two $sets of the same"
        } else {
            "two updates by _id, each $inc of one field"
        };
        let besides = match auditors {
            0 => String::new(),
            some => format!("; {some} clients sum all of them"),
        };
        format!("{how}, out of {documents} documents of {document_bytes} bytes{besides}")
    }

    fn needs(&self) -> Vec<Feature> {
        if self.0.auditors > 0 { vec![Feature::Aggregate] } else { Vec::new() }
    }

    fn collections(&self) -> Vec<&'static str> {
        vec![ACCOUNTS]
    }

    async fn load(&self, target: &dyn Target, _seed: u64, progress: Progress<'_>) -> Result<(), BenchError> {
        target.create(ACCOUNTS, &[]).await?;
        let ids: Vec<i32> = (0..self.0.documents.cast_signed()).collect();
        let mut loaded = 0;
        for ids in ids.chunks(BATCH) {
            let accounts = ids.iter().map(|id| account(*id, self.0.document_bytes as usize)).collect();
            target.load(ACCOUNTS, accounts).await?;
            loaded += ids.len() as u64;
            progress(loaded, u64::from(self.0.documents));
        }
        Ok(())
    }

    fn client(&self, id: ClientId) -> Result<Box<dyn Client>, BenchError> {
        if id.index < self.0.auditors {
            return Ok(Box::new(Auditor { expected: self.0.total() }));
        }
        let random = StdRng::seed_from_u64(id.seed);
        let transfer = Transfer { from: 0, to: 1, amount: 0 };
        let TransferOptions { documents, reads_first, .. } = self.0;
        Ok(Box::new(TransferClient { random, documents: documents.cast_signed(), transfer, reads_first }))
    }

    /// Checks that no money was made or lost.
    async fn check(&self, session: &mut dyn Session, _totals: &Totals) -> Check {
        let found = session.find(ACCOUNTS, Find::new(doc! {}).project(doc! {"balance": 1})).await?;
        let sum: i64 = found.iter().filter_map(|account| account.get_i64("balance").ok()).sum();
        let (accounts, expected) = (self.0.documents as usize, self.0.total());
        if (found.len(), sum) == (accounts, expected) {
            return Ok(());
        }
        let found = found.len();
        Err(Broken::Promise(format!("{found} accounts hold {sum}; before there were {accounts} with {expected}")))
    }
}

struct TransferClient {
    random: StdRng,
    documents: i32,
    transfer: Transfer,
    reads_first: bool,
}

/// A client that sums all accounts.
struct Auditor {
    expected: i64,
}

/// One transfer between two different accounts.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    from: i32,
    to: i32,
    amount: i64,
}

#[async_trait]
impl Client for TransferClient {
    fn choose(&mut self) -> Chosen {
        self.transfer = Transfer::choose(&mut self.random, self.documents);
        Chosen { kind: "transfer", operations: 2, wait: Duration::ZERO }
    }

    async fn attempt(&mut self, session: &mut dyn Session) -> OpResult<Done> {
        session.begin(&TxOptions::default()).await?;
        let updates = match self.reads_first {
            true => self.transfer.read(session).await?,
            false => self.transfer.updates(),
        };
        for update in updates {
            session.update(ACCOUNTS, update).await?;
        }
        session.commit().await?;
        Ok(Done::Committed)
    }
}

#[async_trait]
impl Client for Auditor {
    fn choose(&mut self) -> Chosen {
        Chosen { kind: "audit", operations: 1, wait: Duration::ZERO }
    }

    async fn attempt(&mut self, session: &mut dyn Session) -> OpResult<Done> {
        session.begin(&TxOptions::default()).await?;
        let sum = vec![doc! {"$group": {"_id": 1, "sum": {"$sum": "$balance"}}}];
        let found = session.aggregate(ACCOUNTS, sum).await?;
        // The values read count only if the transaction that has read them commits.
        session.commit().await?;
        let sum = found.first().and_then(|sum| sum.get_i64("sum").ok());
        if sum == Some(self.expected) {
            return Ok(Done::Committed);
        }
        let message = format!("an audit has found {sum:?}, not {}", self.expected);
        Err(BenchError::Failed(message).into())
    }
}

impl Transfer {
    fn choose(random: &mut StdRng, documents: i32) -> Self {
        let from = random.random_range(0..documents);
        let step = random.random_range(1..documents);
        Self { from, to: (from + step) % documents, amount: random.random_range(1..=100) }
    }

    /// Reads both accounts. Returns the updates that give them their new balances.
    async fn read(self, session: &mut dyn Session) -> OpResult<[Update; 2]> {
        let from = set(session, self.from, -self.amount).await?;
        Ok([from, set(session, self.to, self.amount).await?])
    }

    fn updates(self) -> [Update; 2] {
        let change = |id: i32, by: i64| Update { filter: doc! {"_id": id}, update: doc! {"$inc": {"balance": by}} };
        [change(self.from, -self.amount), change(self.to, self.amount)]
    }
}

/// The update that gives an account its new balance, by the one that is read.
async fn set(session: &mut dyn Session, id: i32, by: i64) -> OpResult<Update> {
    let found = session.find_one(ACCOUNTS, Find::new(doc! {"_id": id})).await?;
    let balance = found.as_ref().and_then(|account| account.get_i64("balance").ok());
    let balance = balance.ok_or_else(|| BenchError::Failed(format!("the account {id} has no balance")))?;
    Ok(Update { filter: doc! {"_id": id}, update: doc! {"$set": {"balance": balance + by}} })
}

/// An account that is encoded in `bytes` bytes.
fn account(id: i32, bytes: usize) -> Document {
    const OTHERS: usize = 43;
    doc! {"_id": id, "balance": BALANCE, "owner": "x".repeat(bytes.saturating_sub(OTHERS))}
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_between_two_different_accounts() {
        let mut random = StdRng::seed_from_u64(1);
        for documents in [2, 3, 100] {
            for _ in 0..1_000 {
                let Transfer { from, to, .. } = Transfer::choose(&mut random, documents);
                assert!(from != to && (0..documents).contains(&from) && (0..documents).contains(&to));
            }
        }
    }

    #[test]
    fn an_account_is_as_large_as_asked() {
        for bytes in [64, 200, 1_000] {
            assert_eq!(account(7, bytes).to_vec().unwrap().len(), bytes);
        }
    }
}
