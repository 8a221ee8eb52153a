//! The plain driver, but updates wait for the commit, which sends those of a collection in one
//! command. No transactions: a client that dies in a commit leaves half of it.

use std::collections::BTreeMap;

use bson::Document;
use futures_util::future::BoxFuture;

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
        on_dtranx: false,
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

impl Target for Deferred {
    fn create<'a>(&'a self, collection: &'a str, indexes: &'a [Index]) -> BoxFuture<'a, Result<(), BenchError>> {
        self.0.create(collection, indexes)
    }

    fn load<'a>(&'a self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, Result<(), BenchError>> {
        self.0.load(collection, documents)
    }

    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session>, BenchError>> {
        Box::pin(async move {
            Ok(Box::new(DeferredSession { plain: self.0.session().await?, waiting: None }) as Box<dyn Session>)
        })
    }

    fn commands(&self) -> BTreeMap<String, u64> {
        self.0.commands()
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), BenchError>> {
        self.0.settle()
    }

    fn leftovers<'a>(&'a self, collections: &'a [&'a str]) -> BoxFuture<'a, Result<Option<String>, BenchError>> {
        self.0.leftovers(collections)
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BenchError>> {
        self.0.close()
    }
}

struct DeferredSession {
    plain: Box<dyn Session>,
    /// The updates of the open transaction, by collection.
    waiting: Option<BTreeMap<String, Vec<Update>>>,
}

impl Session for DeferredSession {
    fn begin<'a>(&'a mut self, options: &'a TxOptions) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            self.waiting = Some(BTreeMap::new());
            self.plain.begin(options).await
        })
    }

    fn commit(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move {
            for (collection, updates) in self.waiting.take().unwrap_or_default() {
                self.plain.update_each(&collection, updates).await?;
            }
            self.plain.commit().await
        })
    }

    fn rollback(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move {
            self.waiting = None;
            self.plain.rollback().await
        })
    }

    fn find<'a>(&'a mut self, collection: &'a str, find: Find) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        self.plain.find(collection, find)
    }

    fn insert<'a>(&'a mut self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, OpResult<()>> {
        self.plain.insert(collection, documents)
    }

    fn update<'a>(&'a mut self, collection: &'a str, update: Update) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move {
            match &mut self.waiting {
                Some(waiting) => {
                    waiting.entry(collection.to_owned()).or_default().push(update);
                    Ok(true)
                }
                None => self.plain.update(collection, update).await,
            }
        })
    }

    fn find_and_modify<'a>(
        &'a mut self,
        collection: &'a str,
        find: Find,
        change: Change,
    ) -> BoxFuture<'a, OpResult<Option<Document>>> {
        self.plain.find_and_modify(collection, find, change)
    }

    fn delete<'a>(&'a mut self, collection: &'a str, filter: Document) -> BoxFuture<'a, OpResult<bool>> {
        self.plain.delete(collection, filter)
    }

    fn aggregate<'a>(
        &'a mut self,
        collection: &'a str,
        pipeline: Vec<Document>,
    ) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        self.plain.aggregate(collection, pipeline)
    }
}
