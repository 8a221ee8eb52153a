//! The official driver without transactions: fast, and half a transaction when the client dies in
//! between.
//!
//! `begin`, `commit` and `rollback` send nothing. The last write before a commit is not known
//! beforehand, so every write is acknowledged as durably as a commit has to be.

mod session;

use std::collections::BTreeMap;

use bson::Document;
use futures_util::future::BoxFuture;

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
        on_dtranx: false,
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

impl Target for Plain {
    fn create<'a>(&'a self, collection: &'a str, indexes: &'a [Index]) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(
            async move { driver::create(&self.driver.client.database(&self.connection.db), collection, indexes).await },
        )
    }

    fn load<'a>(&'a self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(
            async move { driver::load(&self.driver.client.database(&self.connection.db), collection, documents).await },
        )
    }

    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session>, BenchError>> {
        Box::pin(async move {
            let db = self.driver.client.database(&self.connection.db);
            Ok(Box::new(PlainSession::new(db, self.driver.concerns(&self.connection))) as Box<dyn Session>)
        })
    }

    fn commands(&self) -> BTreeMap<String, u64> {
        self.driver.commands()
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), BenchError>> {
        Box::pin(async move { Ok(()) })
    }

    fn leftovers<'a>(&'a self, _collections: &'a [&'a str]) -> BoxFuture<'a, Result<Option<String>, BenchError>> {
        Box::pin(async move { Ok(None) })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BenchError>> {
        Box::pin(async move {
            self.driver.client.shutdown().await;
            Ok(())
        })
    }
}
