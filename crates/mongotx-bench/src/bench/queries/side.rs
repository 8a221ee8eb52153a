//! The two sides that are compared: the plain driver, and MongoTx.

use std::time::Duration;

use bson::{Document, doc};
use futures_util::{TryStreamExt, future::BoxFuture};
use mongodb::Collection;
use mongotx::{Client, ClientOptions, IndexModel};
use txbench::targets::driver::CountingDriver;

use super::{
    super::BenchError,
    collection::{ITEMS, SINGLE},
    shape::Query,
};

/// Time within which the library has to end its work in the background.
const FLUSH_LIMIT: Duration = Duration::from_secs(30);

/// One of the two sides, connected.
pub(crate) trait Side: Send + Sync {
    /// Runs a query and reads the whole answer. Returns the number of results (for a count, the
    /// count).
    fn ask(&self, query: Query) -> BoxFuture<'_, Result<u64, BenchError>>;
    /// Number of commands sent so far.
    fn commands(&self) -> u64;
}

/// The side of the official driver.
pub(crate) struct Plain {
    driver: CountingDriver,
    items: Collection<Document>,
}

impl Plain {
    pub(crate) async fn connect(uri: &str, db: &str) -> Result<Self, BenchError> {
        let driver = CountingDriver::with_uri(uri, 1).await?;
        let items = driver.client.database(db).collection(ITEMS);
        Ok(Self { driver, items })
    }
}

impl Side for Plain {
    fn ask(&self, query: Query) -> BoxFuture<'_, Result<u64, BenchError>> {
        Box::pin(async move {
            Ok(match query {
                Query::FindOne { filter } => u64::from(self.items.find_one(filter).await?.is_some()),
                Query::Find { filter, sort, limit, .. } => {
                    let mut find = self.items.find(filter);
                    if !sort.is_empty() {
                        find = find.sort(sort);
                    }
                    if limit > 0 {
                        find = find.limit(i64::from(limit));
                    }
                    find.await?.try_collect::<Vec<_>>().await?.len() as u64
                }
                Query::Count { filter } => self.items.count_documents(filter).await?,
                Query::Aggregate { pipeline } => {
                    self.items.aggregate(pipeline).await?.try_collect::<Vec<_>>().await?.len() as u64
                }
            })
        })
    }

    fn commands(&self) -> u64 {
        self.driver.commands().values().sum()
    }
}

/// The library. Its records lie in the measurement's own database.
pub(crate) struct MongoTx {
    client: Client,
    items: mongotx::Collection<Document>,
}

impl MongoTx {
    pub(crate) async fn connect(uri: &str, db: &str) -> Result<Self, BenchError> {
        let options = ClientOptions { tx_database: db.to_owned(), sweep: false, ..ClientOptions::default() };
        let client = Client::connect_with(uri, options).await?;
        let items = client.database(db).collection(ITEMS);
        Ok(Self { client, items })
    }

    /// Makes the application's indexes; those on one field mirrored or not.
    pub(crate) async fn create_indexes(&self, mirrored: bool) -> Result<(), BenchError> {
        let single = SINGLE.map(|field| IndexModel::new(doc! {field: 1}).mirrored(mirrored));
        let others = [doc! {"group": 1, "k": -1}, doc! {"place": "2dsphere"}].map(IndexModel::new);
        self.items.create_indexes(single.into_iter().chain(others)).await?;
        Ok(())
    }

    /// The client whose queries are measured.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Ends the work in the background.
    pub(crate) async fn close(self) -> Result<(), BenchError> {
        if !self.client.flush(FLUSH_LIMIT).await {
            return Err(BenchError::Failed(format!("what was read could not be finished within {FLUSH_LIMIT:?}")));
        }
        Ok(self.client.shutdown().await?)
    }
}

impl Side for MongoTx {
    fn ask(&self, query: Query) -> BoxFuture<'_, Result<u64, BenchError>> {
        Box::pin(async move {
            Ok(match query {
                Query::FindOne { filter } => u64::from(self.items.find_one(filter).await?.is_some()),
                Query::Find { filter, sort, limit, max_staleness } => {
                    let mut find = self.items.find(filter).limit(u64::from(limit));
                    if !sort.is_empty() {
                        find = find.sort(sort);
                    }
                    if let Some(age) = max_staleness {
                        find = find.max_staleness(age);
                    }
                    find.await?.try_collect().await?.len() as u64
                }
                Query::Count { filter } => self.items.count_documents(filter).await?,
                Query::Aggregate { pipeline } => {
                    self.items.aggregate(pipeline).await?.try_collect().await?.len() as u64
                }
            })
        })
    }

    fn commands(&self) -> u64 {
        self.client.metrics().commands_sent()
    }
}
