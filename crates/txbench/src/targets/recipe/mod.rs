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

use async_trait::async_trait;
use bson::{Document, doc};
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

#[async_trait]
impl Target for Recipe {
    async fn create(&self, collection: &str, indexes: &[Index]) -> Result<(), BenchError> {
        driver::create(&self.db(), collection, indexes).await
    }

    async fn load(&self, collection: &str, documents: Vec<Document>) -> Result<(), BenchError> {
        driver::load(&self.db(), collection, documents).await
    }

    async fn session(&self) -> Result<Box<dyn Session>, BenchError> {
        let concerns = self.driver.concerns(&self.connection);
        Ok(Box::new(RecipeSession::new(self.db(), concerns, Arc::clone(&self.left))))
    }

    fn commands(&self) -> BTreeMap<String, u64> {
        self.driver.commands()
    }

    async fn settle(&self) -> Result<(), BenchError> {
        recovery::recover(&self.db(), &self.left).await
    }

    async fn leftovers(&self, collections: &[&str]) -> Result<Option<String>, BenchError> {
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
    }

    async fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.driver.client.shutdown().await;
        Ok(())
    }
}
