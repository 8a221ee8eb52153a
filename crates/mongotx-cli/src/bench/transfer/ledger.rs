//! The accounts: loading them before a measurement and checking them after it, in the same way for every target.

use bson::{Document, doc};
use mongodb::{Client, Collection, Database};
use sd2v::names::RESERVED;

use super::{super::BenchError, TransferArgs, target::ACCOUNTS};

const BALANCE: i64 = 1_000_000;
const BATCH: usize = 5_000;

/// A database of one measurement's own, with the accounts in it.
pub(crate) struct Ledger {
    db: Database,
    documents: u32,
}

impl Ledger {
    /// Creates the accounts 0, 1, 2, … with equal balances.
    pub(crate) async fn load(client: &Client, db: &str, args: &TransferArgs) -> Result<Self, BenchError> {
        let ledger = Self { db: client.database(db), documents: args.documents };
        let ids: Vec<i32> = (0..args.documents.cast_signed()).collect();
        for ids in ids.chunks(BATCH) {
            let accounts = ids.iter().map(|id| account(*id, args.document_bytes as usize));
            ledger.accounts().insert_many(accounts).await?;
        }
        Ok(ledger)
    }

    fn accounts(&self) -> Collection<Document> {
        self.db.collection(ACCOUNTS)
    }

    /// No money made or lost, and no document with anything of a transaction in it.
    pub(crate) async fn check(&self) -> Result<(), BenchError> {
        let sum = [doc! {"$group": {"_id": null, "sum": {"$sum": "$balance"}, "count": {"$sum": 1}}}];
        let mut found = self.accounts().aggregate(sum).await?;
        let totals = if found.advance().await? { found.deserialize_current()? } else { Document::new() };
        let number = |field| totals.get(field).and_then(|n| n.as_i64().or(n.as_i32().map(i64::from))).unwrap_or(0);
        let (sum, count) = (number("sum"), number("count"));
        let documents = i64::from(self.documents);
        if (sum, count) != (documents * BALANCE, documents) {
            return Err(BenchError::Failed(format!(
                "after the transfers {count} accounts hold {sum}; before there were {documents} with {}",
                documents * BALANCE
            )));
        }
        let any: Vec<Document> = RESERVED.iter().map(|field| doc! {*field: {"$exists": true}}).collect();
        match self.accounts().count_documents(doc! {"$or": any}).await? {
            0 => Ok(()),
            left => Err(BenchError::Failed(format!("{left} documents are still locked after all was finished"))),
        }
    }

    /// Removes the database.
    pub(crate) async fn drop(self) -> Result<(), BenchError> {
        Ok(self.db.drop().await?)
    }
}

/// An account that is encoded in `bytes` bytes.
fn account(id: i32, bytes: usize) -> Document {
    const OTHERS: usize = 43;
    doc! {"_id": id, "balance": BALANCE, "owner": "x".repeat(bytes.saturating_sub(OTHERS))}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_as_large_as_asked() {
        for bytes in [64, 200, 1_000] {
            assert_eq!(account(7, bytes).to_vec().unwrap().len(), bytes);
        }
    }
}
