//! MongoDB's own transactions through the official driver. They need a replica set.
//!
//! Read committed begins them with read concern `local`: what other targets read with outside
//! transactions, and the least that the server offers. (Within a transaction it never shows what is
//! not committed, and all reads come from one snapshot of the primary: the server gives more than
//! read committed.) Repeatable read begins them with `snapshot`, whose reads are besides of one
//! point in time that most of the nodes have.
//!
//! A transaction that only reads is committed as applications do it: with a command of its own.

mod commit;
mod errors;
mod session;

use std::collections::BTreeMap;

use bson::Document;
use futures_util::future::BoxFuture;

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
        on_dtranx: false,
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

impl Target for Native {
    fn create<'a>(&'a self, collection: &'a str, indexes: &'a [Index]) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move { driver::create(&self.db(), collection, indexes).await })
    }

    fn load<'a>(&'a self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move { driver::load(&self.db(), collection, documents).await })
    }

    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session>, BenchError>> {
        Box::pin(async move {
            let session = self.driver.client.start_session().await?;
            let concerns = self.driver.concerns(&self.connection);
            Ok(Box::new(NativeSession::new(session, self.db(), concerns, self.connection.isolation))
                as Box<dyn Session>)
        })
    }

    fn commands(&self) -> BTreeMap<String, u64> {
        self.driver.commands()
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), BenchError>> {
        Box::pin(async move { Ok(()) })
    }

    /// None: uncommitted writes are in no collection.
    fn leftovers<'a>(&'a self, _collections: &'a [&'a str]) -> BoxFuture<'a, Result<Option<String>, BenchError>> {
        Box::pin(async move { Ok(None) })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BenchError>> {
        Box::pin(async move {
            // A session that is still in use would be waited for, without end.
            self.driver.client.shutdown().immediate(true).await;
            Ok(())
        })
    }
}
