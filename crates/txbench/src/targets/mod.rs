//! Targets: the ways to do transactions that are compared. A folder each, and a line in
//! [`registry`].
//!
//! A target never knows what workload runs on it. It names the features that it has
//! ([`Traits::features`]), so that a pair that makes no sense is refused before anything is
//! started.
//!
//! The methods answer boxed futures of one lifetime, written out: with the bounds on lifetimes that
//! `async_trait` adds, the compiler proves anew for each method of each target that the driver's
//! client is `Send`, which took two thirds of this crate's compiling (rust-lang/rust#157595).

mod change;
mod connection;
pub mod driver;
#[cfg(feature = "dtranx")]
pub mod dtranx;
mod entry;
pub mod faulty;
pub mod gateway;
pub mod mongotx;
pub mod mvcc;
pub mod native;
pub mod plain;
pub mod recipe;
pub mod registry;
mod traits;

use std::collections::BTreeMap;

use bson::Document;
use futures_util::future::BoxFuture;

pub use self::{
    connection::{Acknowledged, Connection, Deployment, Durability, Isolation, TxOptions},
    traits::{Feature, Traits},
};
use crate::error::{BenchError, OpResult};

/// An index that a workload wants.
#[derive(Clone, Debug)]
pub struct Index {
    /// Key pattern, as `createIndexes` takes it.
    pub key: Document,
    /// True if two documents must not have the same values.
    pub unique: bool,
}

/// A target that is connected.
pub trait Target: Send + Sync {
    /// Makes a collection with its indexes, empty.
    fn create<'a>(&'a self, collection: &'a str, indexes: &'a [Index]) -> BoxFuture<'a, Result<(), BenchError>>;

    /// Puts documents into a collection outside any transaction and while no client uses it; as
    /// fast as the server takes them, in the form that the target stores committed documents in.
    /// Every document has an `_id`.
    fn load<'a>(&'a self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, Result<(), BenchError>>;

    /// A session of one client.
    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session>, BenchError>>;

    /// Commands sent so far, by name, by the driver's command monitoring; [`Target::load`]
    /// included.
    fn commands(&self) -> BTreeMap<String, u64>;

    /// Waits until the work that goes on after the last answer is done.
    fn settle(&self) -> BoxFuture<'_, Result<(), BenchError>>;

    /// Looks for locks, markers and logs of transactions, which must not be left once nothing is in
    /// flight. The text says what was found.
    fn leftovers<'a>(&'a self, collections: &'a [&'a str]) -> BoxFuture<'a, Result<Option<String>, BenchError>>;

    /// Closes the connection of the target.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BenchError>>;
}

/// A read of the documents of a collection that match a condition.
#[derive(Clone, Debug, Default)]
pub struct Find {
    /// Condition that the documents match, as a filter of MongoDB.
    pub filter: Document,
    /// Fields of the documents; all when empty.
    pub projection: Document,
    /// Order of the documents; any when empty.
    pub sort: Document,
    /// Greatest number of documents; all when 0.
    pub limit: u32,
    /// The transaction is about to update what it finds: a target that can lock it locks it now.
    pub for_update: bool,
}

impl Find {
    /// A read of all fields of the documents that match.
    pub fn new(filter: Document) -> Self {
        Self { filter, ..Self::default() }
    }

    /// Answers these fields only, as a projection of MongoDB.
    #[must_use]
    pub fn project(mut self, projection: Document) -> Self {
        self.projection = projection;
        self
    }

    /// Answers the documents in this order, as in MongoDB's `sort`.
    #[must_use]
    pub fn sort(mut self, sort: Document) -> Self {
        self.sort = sort;
        self
    }

    /// The transaction is about to update what it finds.
    #[must_use]
    pub fn for_update(mut self) -> Self {
        self.for_update = true;
        self
    }

    /// Reads at most so many documents.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }
}

/// The change that [`Session::find_and_modify`] makes to the document it finds.
#[derive(Clone, Debug)]
pub enum Change {
    /// Applies update operators (`$set`, `$unset`, `$inc`, `$push`: every target has these) and
    /// answers the document as it is then.
    Update(Document),
    /// Removes it and answers it as it was.
    Remove,
}

/// One of the updates that [`Session::update_each`] makes together.
#[derive(Clone, Debug)]
pub struct Update {
    /// Condition on the document: the first that matches is updated.
    pub filter: Document,
    /// Update operators that are applied to the document: `$set`, `$inc`, …
    pub update: Document,
}

/// One client's session. Operations between [`Session::begin`] and [`Session::commit`] are one
/// transaction; the others stand alone. After
/// [`OpError::Conflict`](crate::error::OpError::Conflict) and
/// [`OpError::Duplicate`](crate::error::OpError::Duplicate) there is no transaction any more.
pub trait Session: Send {
    /// Begins a transaction with these options.
    fn begin<'a>(&'a mut self, options: &'a TxOptions) -> BoxFuture<'a, OpResult<()>>;
    /// Commits. The answer comes once the commit is as durable as the options demand.
    fn commit(&mut self) -> BoxFuture<'_, OpResult<()>>;
    /// Rolls back; does nothing where no transaction is open. A target without transactions cannot
    /// take anything back.
    fn rollback(&mut self) -> BoxFuture<'_, OpResult<()>>;

    /// Finds the documents that match.
    fn find<'a>(&'a mut self, collection: &'a str, find: Find) -> BoxFuture<'a, OpResult<Vec<Document>>>;

    /// Finds the first document that matches.
    fn find_one<'a>(&'a mut self, collection: &'a str, find: Find) -> BoxFuture<'a, OpResult<Option<Document>>> {
        Box::pin(async move { Ok(self.find(collection, find.limit(1)).await?.pop()) })
    }

    /// Inserts documents, in one command where the target has that. Each has an `_id`.
    fn insert<'a>(&'a mut self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, OpResult<()>>;

    /// Updates the first document that matches; answers whether there was one (a target that
    /// buffers writes: `true`).
    fn update<'a>(&'a mut self, collection: &'a str, update: Update) -> BoxFuture<'a, OpResult<bool>>;

    /// Updates several documents, in one command where the target has that; answers how many
    /// filters matched.
    fn update_each<'a>(&'a mut self, collection: &'a str, updates: Vec<Update>) -> BoxFuture<'a, OpResult<u64>> {
        Box::pin(async move {
            let mut matched = 0;
            for update in updates {
                matched += u64::from(self.update(collection, update).await?);
            }
            Ok(matched)
        })
    }

    /// Updates or removes the first document in this order and answers it: one operation for a read
    /// and a write.
    fn find_and_modify<'a>(
        &'a mut self,
        collection: &'a str,
        find: Find,
        change: Change,
    ) -> BoxFuture<'a, OpResult<Option<Document>>>;

    /// Removes the first document that matches; answers whether there was one.
    fn delete<'a>(&'a mut self, collection: &'a str, filter: Document) -> BoxFuture<'a, OpResult<bool>>;

    /// Runs an aggregation pipeline and answers its documents.
    fn aggregate<'a>(
        &'a mut self,
        collection: &'a str,
        pipeline: Vec<Document>,
    ) -> BoxFuture<'a, OpResult<Vec<Document>>>;
}
