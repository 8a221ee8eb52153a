//! The operations that are measured with every side: what each sends by the official driver. Turns
//! and counts are in the module above.

use bson::{Binary, Document, doc, spec::BinarySubtype};
use clap::ValueEnum;
use futures_util::TryStreamExt;
use mongodb::{
    ClientSession, Collection,
    error::{Result, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT},
};
use rand::{RngExt, rngs::StdRng};

use super::{
    documents::{BATCHES, DOCUMENTS, GROUP, note},
    side::Side,
};

/// The documents of a batch, and their bytes: 16 MB together.
const BATCH: usize = 1_000;
const BATCH_DOCUMENT_BYTES: usize = 16_000;
/// An operation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operation {
    /// A document by its `_id`.
    Find,
    /// Insert of one document.
    Insert,
    /// One document changed, by its `_id`.
    Update,
    /// A query that finds 100 documents.
    Query,
    /// 16 MB of documents inserted by one command.
    Batch,
    /// A transaction that changes two documents, by their `_id`s.
    Transaction,
}

impl Operation {
    /// Title of the operation in tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Find => "find by _id",
            Self::Insert => "insert",
            Self::Update => "update by _id",
            Self::Query => "query of 100 documents",
            Self::Batch => "insert of 16 MB",
            Self::Transaction => "transaction of two updates",
        }
    }

    /// The server alone can do it on a replica set only.
    pub(crate) fn needs_set(self) -> bool {
        self == Self::Transaction
    }

    /// Carries the operation out once.
    pub(crate) async fn ask(self, side: &Side, session: &mut ClientSession, random: &mut StdRng) -> Result<()> {
        let items = side.items();
        let id = random.random_range(0..DOCUMENTS);
        match self {
            Self::Find => items.find_one(doc! {"_id": id}).await.map(drop),
            Self::Insert => items.insert_one(doc! {"note": note()}).await.map(drop),
            Self::Update => items.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).await.map(drop),
            Self::Query => items.find(doc! {"group": id / GROUP}).await?.try_collect::<Vec<_>>().await.map(drop),
            Self::Batch => side.collection(BATCHES).insert_many(batch()).await.map(drop),
            Self::Transaction => transaction(&items, session, id, random.random_range(0..DOCUMENTS)).await,
        }
    }
}

/// Runs a transaction until it is committed.
async fn transaction(items: &Collection<Document>, session: &mut ClientSession, one: i32, other: i32) -> Result<()> {
    loop {
        let Err(error) = attempt(items, session, one, other).await else { return Ok(()) };
        // Ended or not: it is begun anew.
        let _ = session.abort_transaction().await;
        if !error.contains_label(TRANSIENT_TRANSACTION_ERROR) {
            return Err(error);
        }
    }
}

async fn attempt(items: &Collection<Document>, session: &mut ClientSession, one: i32, other: i32) -> Result<()> {
    session.start_transaction().await?;
    for (id, amount) in [(one, -1), (other, 1)] {
        items.update_one(doc! {"_id": id}, doc! {"$inc": {"n": amount}}).session(&mut *session).await?;
    }
    loop {
        match session.commit_transaction().await {
            Err(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) => {}
            ended => return ended,
        }
    }
}

fn batch() -> Vec<Document> {
    let bytes = || Binary { subtype: BinarySubtype::Generic, bytes: vec![7; BATCH_DOCUMENT_BYTES] };
    (0..BATCH).map(|_| doc! {"bytes": bytes()}).collect()
}
