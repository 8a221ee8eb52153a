//! Transactions of the official driver's own, through a gateway of MongoTx in this process: what an
//! application has that connects to `mongotx serve` as to a router. Its commands are those of
//! `native`; the way over the loopback interface is measured with them.

use std::{collections::BTreeMap, time::Duration};

use ::mongotx::ClientOptions;
use async_trait::async_trait;
use bson::Document;
use mongotx_gateway::{Gateway, GatewayOptions};

use super::{
    Acknowledged, Connection, Durability, Feature, Index, Isolation, Session, Target, Traits, TxOptions,
    driver::{self, CountingDriver, error_code},
    entry::Entry,
    mongotx::{locked_document, with_pool},
    native::NativeSession,
};
use crate::error::{BenchError, OpError, OpResult};

/// How long the last transactions may take to be finished, and the gateway to end.
const END_LIMIT: Duration = Duration::from_secs(30);

const WRITE_CONFLICT: i32 = 112;

/// The entry of the target.
pub static ENTRY: Entry = Entry {
    traits: Traits {
        name: "gateway",
        about: "the official driver's transactions, through a gateway of MongoTx",
        transactional: true,
        needs_replica_set: false,
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
    /// Through the gateway: what is measured.
    driver: CountingDriver,
    /// Past it: for loading and looking, as another tool would.
    server: CountingDriver,
    connection: Connection,
}

/// The gateway's commits wait for the majority, in the journal. More than was asked is right, less
/// is not.
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
                // The others are asked for by read concern.
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

#[async_trait]
impl Target for Through {
    async fn create(&self, collection: &str, indexes: &[Index]) -> Result<(), BenchError> {
        driver::create(&self.db(), collection, indexes).await
    }

    /// A committed document is what the application wrote, and so any tool can load it.
    async fn load(&self, collection: &str, documents: Vec<Document>) -> Result<(), BenchError> {
        driver::load(&self.server.client.database(&self.connection.db), collection, documents).await
    }

    async fn session(&self) -> Result<Box<dyn Session>, BenchError> {
        let session = self.driver.client.start_session().await?;
        let concerns = self.driver.concerns(&self.connection);
        let native = NativeSession::new(session, self.db(), concerns, self.connection.isolation);
        Ok(Box::new(GatewaySession(native)))
    }

    /// Commands that the gateway and the loading driver have sent to the server.
    fn commands(&self) -> BTreeMap<String, u64> {
        let mut commands = self.gateway.metrics().commands;
        for (name, count) in self.server.commands() {
            *commands.entry(name).or_default() += count;
        }
        commands
    }

    async fn settle(&self) -> Result<(), BenchError> {
        match self.gateway.flush(END_LIMIT).await {
            true => Ok(()),
            false => Err(BenchError::Failed(format!("committed transactions were not finished within {END_LIMIT:?}"))),
        }
    }

    async fn leftovers(&self, collections: &[&str]) -> Result<Option<String>, BenchError> {
        locked_document(&self.server.client.database(&self.connection.db), collections).await
    }

    async fn close(self: Box<Self>) -> Result<(), BenchError> {
        // A session that is still in use would be waited for, without end.
        self.driver.client.shutdown().immediate(true).await;
        self.gateway.shutdown(END_LIMIT).await?;
        self.server.client.shutdown().await;
        Ok(())
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

#[async_trait]
impl Session for GatewaySession {
    async fn begin(&mut self, options: &TxOptions) -> OpResult<()> {
        options.durability.map_or(Ok(()), check)?;
        let mut options = *options;
        if options.no_lost_updates {
            // At read committed a rival may write between the read and the update.
            options.isolation = Some(Isolation::RepeatableRead);
        }
        self.0.begin(&options).await
    }

    async fn commit(&mut self) -> OpResult<()> {
        self.0.commit().await
    }

    async fn rollback(&mut self) -> OpResult<()> {
        self.0.rollback().await
    }

    async fn find(&mut self, collection: &str, find: super::Find) -> OpResult<Vec<Document>> {
        self.0.find(collection, find).await
    }

    async fn find_one(&mut self, collection: &str, find: super::Find) -> OpResult<Option<Document>> {
        self.0.find_one(collection, find).await
    }

    async fn insert(&mut self, collection: &str, documents: Vec<Document>) -> OpResult<()> {
        self.0.insert(collection, documents).await.map_err(or_conflict)
    }

    async fn update(&mut self, collection: &str, update: super::Update) -> OpResult<bool> {
        self.0.update(collection, update).await.map_err(or_conflict)
    }

    async fn update_each(&mut self, collection: &str, updates: Vec<super::Update>) -> OpResult<u64> {
        self.0.update_each(collection, updates).await.map_err(or_conflict)
    }

    async fn find_and_modify(
        &mut self,
        collection: &str,
        find: super::Find,
        change: super::Change,
    ) -> OpResult<Option<Document>> {
        self.0.find_and_modify(collection, find, change).await.map_err(or_conflict)
    }

    async fn delete(&mut self, collection: &str, filter: Document) -> OpResult<bool> {
        self.0.delete(collection, filter).await.map_err(or_conflict)
    }

    async fn aggregate(&mut self, collection: &str, pipeline: Vec<Document>) -> OpResult<Vec<Document>> {
        self.0.aggregate(collection, pipeline).await
    }
}
