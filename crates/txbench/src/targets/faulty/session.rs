//! The plain driver's operations, some of them broken on purpose, so that tests see whether the
//! checks of the workloads find it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bson::Document;
use futures_util::future::BoxFuture;

use super::Fault;
use crate::{
    error::{OpError, OpResult},
    targets::{Change, Find, Session, TxOptions, Update},
};

/// Number of writes of which one is faulty.
const EVERY: u64 = 10;
/// Number of transactions of which one is refused.
const EVERY_BEGIN: u64 = 2;

pub(super) struct FaultySession {
    plain: Box<dyn Session>,
    fault: Fault,
    count: Arc<AtomicU64>,
}

impl FaultySession {
    pub(super) fn new(plain: Box<dyn Session>, fault: Fault, count: Arc<AtomicU64>) -> Self {
        Self { plain, fault, count }
    }

    /// Counts a write. Returns whether the session has this fault, and the write is to show it.
    fn is_hit(&self, fault: Fault) -> bool {
        self.fault == fault && self.count().is_multiple_of(EVERY)
    }

    /// Counts a write, from 1.
    fn count(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Session for FaultySession {
    fn begin<'a>(&'a mut self, options: &'a TxOptions) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            match self.fault == Fault::Busy && !self.count().is_multiple_of(EVERY_BEGIN) {
                true => Err(OpError::Conflict("busy")),
                false => self.plain.begin(options).await,
            }
        })
    }

    fn commit(&mut self) -> BoxFuture<'_, OpResult<()>> {
        self.plain.commit()
    }

    fn rollback(&mut self) -> BoxFuture<'_, OpResult<()>> {
        self.plain.rollback()
    }

    fn find<'a>(&'a mut self, collection: &'a str, find: Find) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        self.plain.find(collection, find)
    }

    fn insert<'a>(&'a mut self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            match self.is_hit(Fault::Lost) {
                true => Ok(()),
                false => self.plain.insert(collection, documents).await,
            }
        })
    }

    fn update<'a>(&'a mut self, collection: &'a str, update: Update) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move {
            if self.is_hit(Fault::Lost) {
                return Ok(true);
            }
            if self.is_hit(Fault::Twice) {
                self.plain.update(collection, update.clone()).await?;
            }
            self.plain.update(collection, update).await
        })
    }

    fn find_and_modify<'a>(
        &'a mut self,
        collection: &'a str,
        find: Find,
        change: Change,
    ) -> BoxFuture<'a, OpResult<Option<Document>>> {
        Box::pin(async move {
            if self.is_hit(Fault::Lost) {
                return self.plain.find_one(collection, find).await;
            }
            if matches!(change, Change::Update(_)) && self.is_hit(Fault::Twice) {
                self.plain.find_and_modify(collection, find.clone(), change.clone()).await?;
            }
            self.plain.find_and_modify(collection, find, change).await
        })
    }

    fn delete<'a>(&'a mut self, collection: &'a str, filter: Document) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move {
            match self.is_hit(Fault::Lost) {
                true => Ok(true),
                false => self.plain.delete(collection, filter).await,
            }
        })
    }

    fn aggregate<'a>(
        &'a mut self,
        collection: &'a str,
        pipeline: Vec<Document>,
    ) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        self.plain.aggregate(collection, pipeline)
    }
}
