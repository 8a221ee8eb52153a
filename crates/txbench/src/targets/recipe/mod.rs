//! The two-phase commit that MongoDB's documentation advised users to write themselves (paper 000,
//! section 2.2.3): a log of each transaction, whose state goes from initial by pending and applied
//! to done, and a mark in every document that it changes, so that no change is made twice. For the
//! bank and for transfers, and no other work ([`Feature::General`]): it knows updates of documents
//! by their `_id`, with `$inc` and `$set`, which are kept until the commit; everything else is
//! refused.
//!
//! It is atomic, in the end, and not isolated: others see a transaction half done, and its own
//! reads see nothing of it. Changes with `$inc` add up in whatever order; two `$set`s of one field
//! are not kept apart.
//!
//! Logs that a client has left are continued by any client that settles, once nothing has happened
//! to them for ten seconds by the server's clock. As in the recipe nothing keeps a client that was
//! only slow from going on at the same time; the claim of a log keeps two that recover apart.

mod log;
mod recovery;
mod session;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use bson::{Document, doc};
use futures_util::future::BoxFuture;
use mongodb::Database;

use self::{
    log::{LOGS, PENDING},
    session::RecipeSession,
};
use super::{
    Connection, Feature, Index, Session, Target, Traits,
    driver::{self, CountingDriver},
    entry::Entry,
};
use crate::error::BenchError;

/// The entry of the target.
pub static ENTRY: Entry = Entry {
    traits: Traits {
        name: "recipe",
        about: "the two-phase commit recipe of paper 000, for transfers and the bank: atomic in the end, not isolated",
        transactional: false,
        needs_replica_set: false,
        on_dtranx: false,
        isolations: &[],
        waits: false,
        commit_waits: true,
        unjournaled: true,
        features: &[Feature::UniqueIndex],
    },
    connect: |connection| Box::pin(async { Ok(Box::new(Recipe::connect(connection).await?) as Box<dyn Target>) }),
};

struct Recipe {
    driver: CountingDriver,
    connection: Connection,
    left: Left,
}

/// Transactions that clients of this process have left undone.
type Left = Arc<Mutex<Vec<bson::oid::ObjectId>>>;

impl Recipe {
    async fn connect(connection: Connection) -> Result<Self, BenchError> {
        Ok(Self { driver: CountingDriver::connect(&connection).await?, connection, left: Left::default() })
    }

    fn db(&self) -> Database {
        self.driver.client.database(&self.connection.db)
    }
}

impl Target for Recipe {
    fn create<'a>(&'a self, collection: &'a str, indexes: &'a [Index]) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move { driver::create(&self.db(), collection, indexes).await })
    }

    fn load<'a>(&'a self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move { driver::load(&self.db(), collection, documents).await })
    }

    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session>, BenchError>> {
        Box::pin(async move {
            let concerns = self.driver.concerns(&self.connection);
            Ok(Box::new(RecipeSession::new(self.db(), concerns, Arc::clone(&self.left))) as Box<dyn Session>)
        })
    }

    fn commands(&self) -> BTreeMap<String, u64> {
        self.driver.commands()
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), BenchError>> {
        Box::pin(async move { recovery::recover(&self.db(), &self.left).await })
    }

    fn leftovers<'a>(&'a self, collections: &'a [&'a str]) -> BoxFuture<'a, Result<Option<String>, BenchError>> {
        Box::pin(async move {
            for name in collections {
                let marked = doc! {format!("{PENDING}.0"): {"$exists": true}};
                let left = self.db().collection::<Document>(name).find_one(marked).await?;
                if let Some(id) = left.as_ref().and_then(|left| left.get("_id")) {
                    return Ok(Some(format!("the document {id} of {name} is marked by a transaction")));
                }
            }
            let open = doc! {"state": {"$nin": ["done", "canceled"]}};
            let left = self.db().collection::<Document>(LOGS).find_one(open).await?;
            Ok(left.map(|log| format!("the log of a transaction is left: {log}")))
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BenchError>> {
        Box::pin(async move {
            self.driver.client.shutdown().await;
            Ok(())
        })
    }
}
