//! Transactions of the official driver's own, through a gateway of MongoTx in this process: what an
//! application has that connects to `mongotx serve` as to a router. Its commands are those of
//! `native`; the way over the loopback interface is measured with them.

use std::{collections::BTreeMap, time::Duration};

use ::mongotx::ClientOptions;
use bson::Document;
use futures_util::future::BoxFuture;
use mongotx_gateway::{Gateway, GatewayOptions};

use super::{
    Acknowledged, Connection, Durability, Feature, Index, Isolation, Session, Target, Traits, TxOptions,
    driver::{self, CountingDriver, error_code},
    entry::Entry,
    mongotx::{locked_document, with_pool},
    native::NativeSession,
};
use crate::error::{BenchError, OpError, OpResult};

/// Time within which the last transactions have to be finished, and the gateway has to end.
const END_LIMIT: Duration = Duration::from_secs(30);

const WRITE_CONFLICT: i32 = 112;

/// The entry of the target.
pub static ENTRY: Entry = Entry {
    traits: Traits {
        name: "gateway",
        about: "the official driver's transactions, through a gateway of MongoTx",
        transactional: true,
        needs_replica_set: false,
        on_dtranx: false,
        isolations: &[
            Isolation::ReadCommitted,
            Isolation::RepeatableRead,
            Isolation::Snapshot,
            Isolation::Serializable,
        ],
        waits: true,
        commit_waits: true,
        unjournaled: false,
        features: Feature::ALL,
    },
    connect: |connection| Box::pin(async { Ok(Box::new(Through::connect(connection).await?) as Box<dyn Target>) }),
};

/// A gateway, and a driver on either side of it.
struct Through {
    gateway: Gateway,
    /// The driver through the gateway, which is measured.
    driver: CountingDriver,
    /// The driver past the gateway, for loading and checking, as another tool would do it.
    server: CountingDriver,
    connection: Connection,
}

/// The gateway's commits wait for the majority, in the journal. A stronger durability than demanded
/// is right, a weaker one is not.
fn check(durability: Durability) -> Result<(), BenchError> {
    ENTRY.traits.check_durability(durability)?;
    match durability.nodes {
        Acknowledged::Majority | Acknowledged::Nodes(1) => Ok(()),
        Acknowledged::Nodes(_) => Err(BenchError::Refused(format!(
            "{}: {durability} cannot be had, for its commits wait for the majority; --write-concern majority can",
            ENTRY.traits.name
        ))),
    }
}

impl Through {
    async fn connect(connection: Connection) -> Result<Self, BenchError> {
        check(connection.durability)?;
        let server = CountingDriver::connect(&connection).await?;
        let client = ClientOptions {
            tx_database: connection.db.clone(),
            isolation: match connection.isolation {
                Isolation::ReadCommitted => ::mongotx::Isolation::ReadCommitted,
                // Clients choose the other levels by read concern.
                _ => ::mongotx::Isolation::Snapshot,
            },
            commit_timeout: server.write_timeout(),
            ..ClientOptions::default()
        };
        let options = GatewayOptions {
            uri: with_pool(&connection.uri, connection.sessions),
            listen: Some(([127, 0, 0, 1], 0).into()),
            lock_wait: Duration::from_millis(connection.lock_wait_ms),
            client,
            ..GatewayOptions::default()
        };
        let failed = |error: String| BenchError::Failed(format!("{}: {error}", ENTRY.traits.name));
        let gateway = Gateway::start(options).await.map_err(|error| failed(error.to_string()))?;
        let address = gateway.address().ok_or_else(|| failed("it listens nowhere".to_owned()))?;
        let driver = CountingDriver::with_uri(&format!("mongodb://{address}"), connection.sessions).await?;
        Ok(Self { gateway, driver, server, connection })
    }

    fn db(&self) -> mongodb::Database {
        self.driver.client.database(&self.connection.db)
    }
}

impl Target for Through {
    fn create<'a>(&'a self, collection: &'a str, indexes: &'a [Index]) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move { driver::create(&self.db(), collection, indexes).await })
    }

    /// A committed document is what the application wrote, and so any tool can load it.
    fn load<'a>(&'a self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(
            async move { driver::load(&self.server.client.database(&self.connection.db), collection, documents).await },
        )
    }

    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session>, BenchError>> {
        Box::pin(async move {
            let session = self.driver.client.start_session().await?;
            let concerns = self.driver.concerns(&self.connection);
            let native = NativeSession::new(session, self.db(), concerns, self.connection.isolation);
            Ok(Box::new(GatewaySession(native)) as Box<dyn Session>)
        })
    }

    /// Commands that the gateway and the loading driver have sent to the server.
    fn commands(&self) -> BTreeMap<String, u64> {
        let mut commands = self.gateway.metrics().commands;
        for (name, count) in self.server.commands() {
            *commands.entry(name).or_default() += count;
        }
        commands
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), BenchError>> {
        Box::pin(async move {
            match self.gateway.flush(END_LIMIT).await {
                true => Ok(()),
                false => {
                    Err(BenchError::Failed(format!("committed transactions were not finished within {END_LIMIT:?}")))
                }
            }
        })
    }

    fn leftovers<'a>(&'a self, collections: &'a [&'a str]) -> BoxFuture<'a, Result<Option<String>, BenchError>> {
        Box::pin(async move { locked_document(&self.server.client.database(&self.connection.db), collections).await })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BenchError>> {
        Box::pin(async move {
            // A session that is still in use would be waited for, without end.
            self.driver.client.shutdown().immediate(true).await;
            self.gateway.shutdown(END_LIMIT).await?;
            self.server.client.shutdown().await;
            Ok(())
        })
    }
}

/// A write outside a transaction that has waited for a rival's lock in vain: the server itself has
/// no such answer.
fn or_conflict(error: OpError) -> OpError {
    match error {
        OpError::Fatal(BenchError::Driver(error)) if error_code(&error) == Some(WRITE_CONFLICT) => {
            OpError::Conflict("write conflict")
        }
        other => other,
    }
}

/// The native session, where the gateway is not the same: commits that wait for a number of nodes
/// are refused, and what is read is kept as it is by read locks.
struct GatewaySession(NativeSession);

impl Session for GatewaySession {
    fn begin<'a>(&'a mut self, options: &'a TxOptions) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            options.durability.map_or(Ok(()), check)?;
            let mut options = *options;
            if options.no_lost_updates {
                // At read committed a rival may write between the read and the update.
                options.isolation = Some(Isolation::RepeatableRead);
            }
            self.0.begin(&options).await
        })
    }

    fn commit(&mut self) -> BoxFuture<'_, OpResult<()>> {
        self.0.commit()
    }

    fn rollback(&mut self) -> BoxFuture<'_, OpResult<()>> {
        self.0.rollback()
    }

    fn find<'a>(&'a mut self, collection: &'a str, find: super::Find) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        self.0.find(collection, find)
    }

    fn find_one<'a>(&'a mut self, collection: &'a str, find: super::Find) -> BoxFuture<'a, OpResult<Option<Document>>> {
        self.0.find_one(collection, find)
    }

    fn insert<'a>(&'a mut self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move { self.0.insert(collection, documents).await.map_err(or_conflict) })
    }

    fn update<'a>(&'a mut self, collection: &'a str, update: super::Update) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move { self.0.update(collection, update).await.map_err(or_conflict) })
    }

    fn update_each<'a>(&'a mut self, collection: &'a str, updates: Vec<super::Update>) -> BoxFuture<'a, OpResult<u64>> {
        Box::pin(async move { self.0.update_each(collection, updates).await.map_err(or_conflict) })
    }

    fn find_and_modify<'a>(
        &'a mut self,
        collection: &'a str,
        find: super::Find,
        change: super::Change,
    ) -> BoxFuture<'a, OpResult<Option<Document>>> {
        Box::pin(async move { self.0.find_and_modify(collection, find, change).await.map_err(or_conflict) })
    }

    fn delete<'a>(&'a mut self, collection: &'a str, filter: Document) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move { self.0.delete(collection, filter).await.map_err(or_conflict) })
    }

    fn aggregate<'a>(
        &'a mut self,
        collection: &'a str,
        pipeline: Vec<Document>,
    ) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        self.0.aggregate(collection, pipeline)
    }
}
