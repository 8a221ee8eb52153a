//! MongoDB's own transactions through the official driver. They need a replica set.
//!
//! Read committed begins them with read concern `local`: what other targets read with outside
//! transactions, and the least that the server offers. (Within a transaction it never shows what is
//! not committed, and all reads come from one snapshot of the primary: the server gives more than
//! was asked.) Repeatable read begins them with `snapshot`, whose reads are besides of one point in
//! time that most of the nodes have.
//!
//! A transaction that only reads is committed as applications do it: with a command of its own.

mod commit;
mod errors;
mod session;

use std::collections::BTreeMap;

use async_trait::async_trait;
use bson::Document;

pub(super) use self::session::NativeSession;
use super::{
    Connection, Feature, Index, Isolation, Session, Target, Traits,
    driver::{self, CountingDriver},
    entry::Entry,
};
use crate::error::BenchError;

/// The entry of the target.
pub static ENTRY: Entry = Entry {
    traits: Traits {
        name: "native",
        about: "MongoDB's own transactions",
        transactional: true,
        needs_replica_set: true,
        isolations: &[Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Snapshot],
        waits: false,
        commit_waits: true,
        unjournaled: true,
        features: Feature::ALL,
    },
    connect: |connection| Box::pin(async { Ok(Box::new(Native::connect(connection).await?) as Box<dyn Target>) }),
};

struct Native {
    driver: CountingDriver,
    connection: Connection,
}

impl Native {
    async fn connect(connection: Connection) -> Result<Self, BenchError> {
        Ok(Self { driver: CountingDriver::connect(&connection).await?, connection })
    }

    fn db(&self) -> mongodb::Database {
        self.driver.client.database(&self.connection.db)
    }
}

#[async_trait]
impl Target for Native {
    async fn create(&self, collection: &str, indexes: &[Index]) -> Result<(), BenchError> {
        driver::create(&self.db(), collection, indexes).await
    }

    async fn load(&self, collection: &str, documents: Vec<Document>) -> Result<(), BenchError> {
        driver::load(&self.db(), collection, documents).await
    }

    async fn session(&self) -> Result<Box<dyn Session>, BenchError> {
        let session = self.driver.client.start_session().await?;
        let concerns = self.driver.concerns(&self.connection);
        Ok(Box::new(NativeSession::new(session, self.db(), concerns, self.connection.isolation)))
    }

    fn commands(&self) -> BTreeMap<String, u64> {
        self.driver.commands()
    }

    async fn settle(&self) -> Result<(), BenchError> {
        Ok(())
    }

    /// Uncommitted writes are in no collection.
    async fn leftovers(&self, _collections: &[&str]) -> Result<Option<String>, BenchError> {
        Ok(None)
    }

    async fn close(self: Box<Self>) -> Result<(), BenchError> {
        // A session that is still in use would be waited for, without end.
        self.driver.client.shutdown().immediate(true).await;
        Ok(())
    }
}
