//! The official driver without transactions: fast, and half a transaction when the client dies in
//! between.
//!
//! `begin`, `commit` and `rollback` send nothing. The last write before a commit is not known
//! beforehand, so every write is acknowledged as durably as a commit has to be.

mod session;

use std::collections::BTreeMap;

use async_trait::async_trait;
use bson::Document;

pub(crate) use self::session::PlainSession;
use super::{
    Connection, Feature, Index, Session, Target, Traits,
    driver::{self, CountingDriver},
    entry::Entry,
};
use crate::error::BenchError;

/// The entry of the target.
pub static ENTRY: Entry = Entry {
    traits: Traits {
        name: "plain",
        about: "the official driver, no transactions",
        transactional: false,
        needs_replica_set: false,
        isolations: &[],
        waits: false,
        commit_waits: false,
        unjournaled: true,
        features: Feature::ALL,
    },
    connect: |connection| Box::pin(async { Ok(Box::new(Plain::connect(connection).await?) as Box<dyn Target>) }),
};

struct Plain {
    driver: CountingDriver,
    connection: Connection,
}

impl Plain {
    async fn connect(connection: Connection) -> Result<Self, BenchError> {
        Ok(Self { driver: CountingDriver::connect(&connection).await?, connection })
    }
}

#[async_trait]
impl Target for Plain {
    async fn create(&self, collection: &str, indexes: &[Index]) -> Result<(), BenchError> {
        driver::create(&self.driver.client.database(&self.connection.db), collection, indexes).await
    }

    async fn load(&self, collection: &str, documents: Vec<Document>) -> Result<(), BenchError> {
        driver::load(&self.driver.client.database(&self.connection.db), collection, documents).await
    }

    async fn session(&self) -> Result<Box<dyn Session>, BenchError> {
        let db = self.driver.client.database(&self.connection.db);
        Ok(Box::new(PlainSession::new(db, self.driver.concerns(&self.connection))))
    }

    fn commands(&self) -> BTreeMap<String, u64> {
        self.driver.commands()
    }

    async fn settle(&self) -> Result<(), BenchError> {
        Ok(())
    }

    async fn leftovers(&self, _collections: &[&str]) -> Result<Option<String>, BenchError> {
        Ok(None)
    }

    async fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.driver.client.shutdown().await;
        Ok(())
    }
}
