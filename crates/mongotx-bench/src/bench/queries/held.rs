//! Documents that an open transaction holds while others read: by a client of its own, or by the
//! one that reads. They are as before when it ends.

use std::{fmt, time::Duration};

use bson::{Document, doc};
use clap::ValueEnum;
use mongotx::{Client, ClientOptions, Session};
use rand::{SeedableRng, rngs::StdRng, seq::index};

use super::{
    super::BenchError,
    collection::{ITEMS, point},
};

/// Documents named in one update.
const BATCH: usize = 1_000;
/// Time limit of the rollback.
const ROLLBACK_LIMIT: Duration = Duration::from_secs(60);
/// Far from every point of the queries.
const FAR_AWAY: (f64, f64) = (-170.0, -45.0);

/// Client whose transaction holds documents while others read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Holder {
    /// Another client than the one that asks.
    Another,
    /// The client that asks, in a session of its own.
    Same,
    /// Another client, which holds a document of another collection: none of the pending ones
    Elsewhere,
}

impl Holder {
    /// Description of the client in a sentence.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Another => "another client",
            Self::Same => "the same client",
            Self::Elsewhere => "another client that holds a document of another collection alone",
        }
    }
}

/// Number of documents that are held, and the client that holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PendingDocuments {
    pub(crate) count: u32,
    pub(crate) holder: Holder,
}

impl fmt::Display for PendingDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.holder {
            Holder::Same if self.count > 0 => write!(f, "{}, same client", self.count),
            Holder::Another | Holder::Same => write!(f, "{}", self.count),
            Holder::Elsewhere => write!(f, "0, one elsewhere"),
        }
    }
}

/// An open transaction that keeps documents pending.
pub(crate) struct HoldingTransaction {
    client: Client,
    /// True if the client was made for this transaction alone, and ends with it.
    is_own: bool,
    session: Session,
}

impl HoldingTransaction {
    /// Has a client of its own update so many documents, chosen at random, and leaves the
    /// transaction open.
    pub(crate) async fn by_another_client(
        uri: &str,
        db: &str,
        documents: u32,
        count: u32,
        seed: u64,
    ) -> Result<Self, BenchError> {
        let options = ClientOptions { tx_database: db.to_owned(), sweep: false, ..ClientOptions::default() };
        let client = Client::connect_with(uri, options).await?;
        Ok(Self { is_own: true, ..Self::by_client(&client, db, documents, count, seed).await? })
    }

    /// Has a client of its own insert a document into another collection, and leaves the
    /// transaction open: readers are not alone, and nothing that they read is pending.
    pub(crate) async fn elsewhere(uri: &str, db: &str) -> Result<Self, BenchError> {
        let options = ClientOptions { tx_database: db.to_owned(), sweep: false, ..ClientOptions::default() };
        let client = Client::connect_with(uri, options).await?;
        let mut session = client.session();
        session.begin()?;
        client.database(db).collection::<Document>("elsewhere").insert_one(&doc! {}).session(&mut session).await?;
        Ok(Self { client, is_own: true, session })
    }

    /// Has an existing client update so many documents, and leaves the transaction open.
    pub(crate) async fn by_client(
        client: &Client,
        db: &str,
        documents: u32,
        count: u32,
        seed: u64,
    ) -> Result<Self, BenchError> {
        let items = client.database(db).collection::<Document>(ITEMS);
        let mut session = client.session();
        session.begin()?;
        let mut random = StdRng::seed_from_u64(seed);
        let chosen = index::sample(&mut random, documents as usize, count as usize).into_vec();
        let ids: Vec<i64> = chosen.into_iter().map(|id| id as i64).collect();
        let (all_fields, note_only) = ids.split_at(ids.len() / 2);
        for (ids, change) in [(note_only, new_note()), (all_fields, out_of_the_way())] {
            for ids in ids.chunks(BATCH) {
                let these = doc! {"_id": {"$in": ids.to_vec()}};
                let updated = items.update_many(these, change.clone()).session(&mut session).await?;
                if updated.matched_count != ids.len() as u64 {
                    let reason = format!("{} of {} documents could be held", updated.matched_count, ids.len());
                    return Err(BenchError::Failed(reason));
                }
            }
        }
        Ok(Self { client: client.clone(), is_own: false, session })
    }

    /// Rolls back and waits until every document is as it was.
    pub(crate) async fn release(mut self) -> Result<(), BenchError> {
        self.session.rollback().await?;
        if !self.client.flush(ROLLBACK_LIMIT).await {
            return Err(BenchError::Failed(format!("the rollback took longer than {ROLLBACK_LIMIT:?}")));
        }
        if self.is_own {
            self.client.shutdown().await?;
        }
        Ok(())
    }
}

fn new_note() -> Vec<Document> {
    vec![doc! {"$set": {"note": "held"}}]
}

/// Stages that give every queried field a value that no query selects: numbers become negative.
fn out_of_the_way() -> Vec<Document> {
    let negative = |field: &str| doc! {"$subtract": [-1, format!("${field}")]};
    let (longitude, latitude) = FAR_AWAY;
    vec![doc! {"$set": {
        "note": "held", "code": negative("code"), "k": negative("k"), "group": negative("group"),
        "place": {"$literal": point(longitude, latitude)},
    }}]
}
