//! The sides that are compared: the official driver, without transactions and with those of the
//! server, and MongoTx.

use std::time::{Duration, Instant};

use bson::{Document, doc};
use futures_util::{TryStreamExt, future::BoxFuture};
use mongodb::{
    ClientSession, Collection, IndexModel as DriverIndex,
    options::{Acknowledgment, IndexOptions, ReadConcern, WriteConcern},
};
use mongotx::{Client, ClientOptions, IndexModel, Isolation, Session};

use super::{
    super::BenchError,
    statement::{SHOWN, Statement, change, filter, order},
};

/// Collection of the documents.
const ITEMS: &str = "items";
/// Time within which the library has to end its work in the background.
const FLUSH_LIMIT: Duration = Duration::from_secs(60);

/// One statement, timed.
pub(crate) struct Round {
    pub(crate) time: Duration,
    /// Number of commands that were sent, where they are counted.
    pub(crate) commands: Option<u64>,
}

/// One of the sides, connected.
pub(crate) trait Side: Send + Sync {
    /// Makes the documents anew, runs the statement in a transaction, if the side has them, and
    /// commits.
    fn round(&self, statement: Statement) -> BoxFuture<'_, Result<Round, BenchError>>;
}

/// The side of the official driver.
pub(crate) struct Driver {
    client: mongodb::Client,
    items: Collection<Document>,
    /// True if it uses the server's own transactions.
    is_native: bool,
}

impl Driver {
    /// Without transactions.
    pub(crate) async fn plain(uri: &str, db: &str) -> Result<Self, BenchError> {
        Self::connect(uri, db, false).await
    }

    /// With the server's own transactions.
    pub(crate) async fn native(uri: &str, db: &str) -> Result<Self, BenchError> {
        Self::connect(uri, db, true).await
    }

    async fn connect(uri: &str, db: &str, is_native: bool) -> Result<Self, BenchError> {
        let mut options = mongodb::options::ClientOptions::parse(uri).await?;
        options.write_concern = Some(durable());
        let client = mongodb::Client::with_options(options)?;
        let items = client.database(db).collection(ITEMS);
        Ok(Self { client, items, is_native })
    }

    async fn load(&self, statement: Statement) -> Result<(), BenchError> {
        self.items.drop().await?;
        let index = |(keys, unique)| {
            let options = IndexOptions::builder().unique(unique).build();
            DriverIndex::builder().keys(keys).options(options).build()
        };
        self.items.create_indexes(statement.indexes().into_iter().map(index)).await?;
        let before = statement.before();
        if !before.is_empty() {
            self.items.insert_many(before).await?;
        }
        Ok(())
    }

    async fn session(&self) -> Result<Option<ClientSession>, BenchError> {
        if !self.is_native {
            return Ok(None);
        }
        let mut session = self.client.start_session().await?;
        session.start_transaction().read_concern(ReadConcern::snapshot()).write_concern(durable()).await?;
        Ok(Some(session))
    }

    /// Runs the statement. Returns the moment at which what is timed has begun.
    async fn run(&self, statement: Statement, session: &mut Option<ClientSession>) -> Result<Instant, BenchError> {
        let items = &self.items;
        let mut begun = Instant::now();
        match (statement, session.as_mut()) {
            (Statement::OwnView, Some(session)) => {
                items.update_one(doc! {"_id": 450}, change()).session(&mut *session).await?;
                begun = Instant::now();
                let mut found = items.find(filter()).sort(order()).limit(SHOWN).session(&mut *session).await?;
                found.stream(session).try_collect::<Vec<_>>().await?;
            }
            (Statement::OwnView, None) => {
                items.update_one(doc! {"_id": 450}, change()).await?;
                begun = Instant::now();
                items.find(filter()).sort(order()).limit(SHOWN).await?.try_collect::<Vec<_>>().await?;
            }
            (Statement::Insert, session) => {
                let insert = items.insert_many(statement.inserted());
                begun = Instant::now();
                match session {
                    Some(session) => insert.session(session).await?,
                    None => insert.await?,
                };
            }
            (Statement::UpdateMany, Some(session)) => {
                items.update_many(filter(), change()).session(session).await?;
            }
            (Statement::UpdateMany, None) => {
                items.update_many(filter(), change()).await?;
            }
            (Statement::DeleteMany, Some(session)) => {
                items.delete_many(filter()).session(session).await?;
            }
            (Statement::DeleteMany, None) => {
                items.delete_many(filter()).await?;
            }
        }
        Ok(begun)
    }
}

impl Side for Driver {
    fn round(&self, statement: Statement) -> BoxFuture<'_, Result<Round, BenchError>> {
        Box::pin(async move {
            self.load(statement).await?;
            let mut session = self.session().await?;
            let begun = self.run(statement, &mut session).await?;
            let shown = begun.elapsed();
            if let Some(session) = &mut session {
                session.commit_transaction().await?;
            }
            let time = if statement == Statement::OwnView { shown } else { begun.elapsed() };
            Ok(Round { time, commands: None })
        })
    }
}

/// The library. Its records lie in the measurement's own database.
pub(crate) struct MongoTx {
    client: Client,
    items: mongotx::Collection<Document>,
}

impl MongoTx {
    pub(crate) async fn connect(uri: &str, db: &str) -> Result<Self, BenchError> {
        let db = format!("{db}_tx");
        let options = ClientOptions {
            tx_database: db.clone(),
            sweep: false,
            isolation: Isolation::Snapshot,
            ..ClientOptions::default()
        };
        let client = Client::connect_with(uri, options).await?;
        let items = client.database(&db).collection(ITEMS);
        Ok(Self { client, items })
    }

    /// Ends the work in the background.
    pub(crate) async fn close(self) -> Result<(), BenchError> {
        self.flush().await?;
        Ok(self.client.shutdown().await?)
    }

    async fn flush(&self) -> Result<(), BenchError> {
        match self.client.flush(FLUSH_LIMIT).await {
            true => Ok(()),
            false => Err(BenchError::Failed(format!("what was written could not be finished within {FLUSH_LIMIT:?}"))),
        }
    }

    async fn load(&self, statement: Statement) -> Result<(), BenchError> {
        self.flush().await?;
        self.items.drop().await?;
        let indexes = statement.indexes().into_iter();
        self.items.create_indexes(indexes.map(|(keys, unique)| IndexModel::new(keys).unique(unique))).await?;
        let before = statement.before();
        if !before.is_empty() {
            self.items.insert_many(&before).await?;
        }
        self.warm_up(statement).await?;
        self.flush().await
    }

    /// Makes what a client makes when its first transaction writes to a collection and reads there:
    /// look-ups, and the index of what is pending.
    async fn warm_up(&self, statement: Statement) -> Result<(), BenchError> {
        let mut session = self.client.session();
        session.begin()?;
        if statement == Statement::Insert {
            self.items.insert_many(&statement.inserted()[..1]).session(&mut session).await?;
        }
        self.items.update_one(doc! {"_id": 450}, change()).session(&mut session).await?;
        self.items.find(filter()).sort(order()).limit(SHOWN as u64).session(&mut session).await?.try_collect().await?;
        Ok(session.rollback().await?)
    }

    /// Runs the statement. Returns the moment at which what is timed has begun.
    async fn run(&self, statement: Statement, session: &mut Session) -> Result<Instant, BenchError> {
        let items = &self.items;
        let mut begun = Instant::now();
        match statement {
            Statement::OwnView => {
                items.update_one(doc! {"_id": 450}, change()).session(session).await?;
                begun = Instant::now();
                let found = items.find(filter()).sort(order()).limit(SHOWN as u64).session(session).await?;
                found.try_collect().await?;
            }
            Statement::Insert => {
                let documents = statement.inserted();
                begun = Instant::now();
                items.insert_many(&documents).session(session).await?;
            }
            Statement::UpdateMany => {
                items.update_many(filter(), change()).session(session).await?;
            }
            Statement::DeleteMany => {
                items.delete_many(filter()).session(session).await?;
            }
        }
        Ok(begun)
    }
}

impl Side for MongoTx {
    fn round(&self, statement: Statement) -> BoxFuture<'_, Result<Round, BenchError>> {
        Box::pin(async move {
            self.load(statement).await?;
            let mut session = self.client.session();
            session.begin()?;
            let sent = self.client.metrics().commands_sent();
            let begun = self.run(statement, &mut session).await?;
            let shown = begun.elapsed();
            session.commit().await?;
            let time = if statement == Statement::OwnView { shown } else { begun.elapsed() };
            self.flush().await?;
            let commands = Some(self.client.metrics().commands_sent() - sent);
            Ok(Round { time, commands })
        })
    }
}

fn durable() -> WriteConcern {
    WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build()
}
