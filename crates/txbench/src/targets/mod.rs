//! Targets: the ways to do transactions that are compared. A folder each, and a line in
//! [`registry`].
//!
//! A target never knows what workload runs on it. What it cannot do it says beforehand
//! ([`Traits::features`]), so that a pair that makes no sense is refused before anything is
//! started.

mod connection;
pub mod driver;
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

use async_trait::async_trait;
use bson::Document;

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
    /// Whether values have to be unique.
    pub unique: bool,
}

/// A target that is connected.
#[async_trait]
pub trait Target: Send + Sync {
    /// Makes a collection with its indexes, empty.
    async fn create(&self, collection: &str, indexes: &[Index]) -> Result<(), BenchError>;

    /// Puts documents into a collection outside any transaction and while no client uses it; as
    /// fast as the server takes them, in the form that the target stores committed documents in.
    /// Every document has an `_id`.
    async fn load(&self, collection: &str, documents: Vec<Document>) -> Result<(), BenchError>;

    /// A session of one client.
    async fn session(&self) -> Result<Box<dyn Session>, BenchError>;

    /// Commands sent so far, by name, by the driver's command monitoring; [`Target::load`]
    /// included.
    fn commands(&self) -> BTreeMap<String, u64>;

    /// Waits until the work that goes on after the last answer is done.
    async fn settle(&self) -> Result<(), BenchError>;

    /// Looks for what must not be left once nothing is in flight: locks, markers, logs of
    /// transactions. The text says what was found.
    async fn leftovers(&self, collections: &[&str]) -> Result<Option<String>, BenchError>;

    /// Closes the connection of the target.
    async fn close(self: Box<Self>) -> Result<(), BenchError>;
}

/// A read of documents.
#[derive(Clone, Debug, Default)]
pub struct Find {
    /// Condition on the documents.
    pub filter: Document,
    /// Fields of the documents; all when empty.
    pub projection: Document,
    /// In what order; any when empty.
    pub sort: Document,
    /// At most so many; all when 0.
    pub limit: u32,
    /// The transaction is about to update what it finds: a target that can lock it locks it now.
    pub for_update: bool,
}

impl Find {
    /// All fields of the documents that match.
    pub fn new(filter: Document) -> Self {
        Self { filter, ..Self::default() }
    }

    /// Reads only these fields.
    #[must_use]
    pub fn project(mut self, projection: Document) -> Self {
        self.projection = projection;
        self
    }

    /// Reads in this order.
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

/// One update of [`Session::update_each`].
#[derive(Clone, Debug)]
pub struct Update {
    /// Condition on the document: the first that matches is updated.
    pub filter: Document,
    /// Update operators to apply.
    pub update: Document,
}

/// One client's session. Operations between [`Session::begin`] and [`Session::commit`] are one
/// transaction; the others stand alone. After
/// [`OpError::Conflict`](crate::error::OpError::Conflict) and
/// [`OpError::Duplicate`](crate::error::OpError::Duplicate) there is no transaction any more.
#[async_trait]
pub trait Session: Send {
    /// Begins a transaction with these options.
    async fn begin(&mut self, options: &TxOptions) -> OpResult<()>;
    /// Commits. The answer is as durable as was asked.
    async fn commit(&mut self) -> OpResult<()>;
    /// Rolls back; does nothing where no transaction is open. A target without transactions cannot
    /// take anything back.
    async fn rollback(&mut self) -> OpResult<()>;

    /// Finds the documents that match.
    async fn find(&mut self, collection: &str, find: Find) -> OpResult<Vec<Document>>;

    /// Finds the first document that matches.
    async fn find_one(&mut self, collection: &str, find: Find) -> OpResult<Option<Document>> {
        Ok(self.find(collection, find.limit(1)).await?.pop())
    }

    /// Inserts documents, in one command where the target has that. Each has an `_id`.
    async fn insert(&mut self, collection: &str, documents: Vec<Document>) -> OpResult<()>;

    /// Updates the first document that matches; answers whether there was one (a target that
    /// buffers writes: `true`).
    async fn update(&mut self, collection: &str, update: Update) -> OpResult<bool>;

    /// Updates several documents, in one command where the target has that; answers how many
    /// filters matched.
    async fn update_each(&mut self, collection: &str, updates: Vec<Update>) -> OpResult<u64> {
        let mut matched = 0;
        for update in updates {
            matched += u64::from(self.update(collection, update).await?);
        }
        Ok(matched)
    }

    /// Updates or removes the first document in this order and answers it: one operation for a read
    /// and a write.
    async fn find_and_modify(&mut self, collection: &str, find: Find, change: Change) -> OpResult<Option<Document>>;

    /// Removes the first document that matches; answers whether there was one.
    async fn delete(&mut self, collection: &str, filter: Document) -> OpResult<bool>;

    /// Runs an aggregation pipeline.
    async fn aggregate(&mut self, collection: &str, pipeline: Vec<Document>) -> OpResult<Vec<Document>>;
}
