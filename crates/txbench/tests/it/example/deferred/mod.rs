//! The plain driver, but updates wait for the commit, which sends those of a collection in one
//! command. No transactions: a client that dies in a commit leaves half of it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bson::Document;

use crate::{
    error::{BenchError, OpResult},
    targets::{
        Change, Connection, Feature, Find, Index, Session, Target, Traits, TxOptions, Update, plain, registry::Entry,
    },
};

/// The target.
pub static ENTRY: Entry = Entry {
    traits: Traits {
        name: "deferred",
        about: "the official driver, updates sent together at the commit",
        transactional: false,
        needs_replica_set: false,
        isolations: &[],
        waits: false,
        commit_waits: false,
        unjournaled: true,
        // No `OwnWrites`: what waits is not seen.
        features: &[Feature::General, Feature::UniqueIndex, Feature::Query, Feature::Near],
    },
    connect: |connection| Box::pin(async { Ok(Box::new(Deferred::connect(connection).await?) as Box<dyn Target>) }),
};

struct Deferred(Box<dyn Target>);

impl Deferred {
    async fn connect(connection: Connection) -> Result<Self, BenchError> {
        Ok(Self((plain::ENTRY.connect)(connection).await?))
    }
}

#[async_trait]
impl Target for Deferred {
    async fn create(&self, collection: &str, indexes: &[Index]) -> Result<(), BenchError> {
        self.0.create(collection, indexes).await
    }

    async fn load(&self, collection: &str, documents: Vec<Document>) -> Result<(), BenchError> {
        self.0.load(collection, documents).await
    }

    async fn session(&self) -> Result<Box<dyn Session>, BenchError> {
        Ok(Box::new(DeferredSession { plain: self.0.session().await?, waiting: None }))
    }

    fn commands(&self) -> BTreeMap<String, u64> {
        self.0.commands()
    }

    async fn settle(&self) -> Result<(), BenchError> {
        self.0.settle().await
    }

    async fn leftovers(&self, collections: &[&str]) -> Result<Option<String>, BenchError> {
        self.0.leftovers(collections).await
    }

    async fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.0.close().await
    }
}

struct DeferredSession {
    plain: Box<dyn Session>,
    /// The updates of the open transaction, by collection.
    waiting: Option<BTreeMap<String, Vec<Update>>>,
}

#[async_trait]
impl Session for DeferredSession {
    async fn begin(&mut self, options: &TxOptions) -> OpResult<()> {
        self.waiting = Some(BTreeMap::new());
        self.plain.begin(options).await
    }

    async fn commit(&mut self) -> OpResult<()> {
        for (collection, updates) in self.waiting.take().unwrap_or_default() {
            self.plain.update_each(&collection, updates).await?;
        }
        self.plain.commit().await
    }

    async fn rollback(&mut self) -> OpResult<()> {
        self.waiting = None;
        self.plain.rollback().await
    }

    async fn find(&mut self, collection: &str, find: Find) -> OpResult<Vec<Document>> {
        self.plain.find(collection, find).await
    }

    async fn insert(&mut self, collection: &str, documents: Vec<Document>) -> OpResult<()> {
        self.plain.insert(collection, documents).await
    }

    async fn update(&mut self, collection: &str, update: Update) -> OpResult<bool> {
        match &mut self.waiting {
            Some(waiting) => {
                waiting.entry(collection.to_owned()).or_default().push(update);
                Ok(true)
            }
            None => self.plain.update(collection, update).await,
        }
    }

    async fn find_and_modify(&mut self, collection: &str, find: Find, change: Change) -> OpResult<Option<Document>> {
        self.plain.find_and_modify(collection, find, change).await
    }

    async fn delete(&mut self, collection: &str, filter: Document) -> OpResult<bool> {
        self.plain.delete(collection, filter).await
    }

    async fn aggregate(&mut self, collection: &str, pipeline: Vec<Document>) -> OpResult<Vec<Document>> {
        self.plain.aggregate(collection, pipeline).await
    }
}
