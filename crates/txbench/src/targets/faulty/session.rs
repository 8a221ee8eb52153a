//! The plain driver's operations, some of them broken.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use bson::Document;

use super::Fault;
use crate::{
    error::{OpError, OpResult},
    targets::{Change, Find, Session, TxOptions, Update},
};

/// One in so many writes is hit.
const EVERY: u64 = 10;
/// One in so many transactions is refused.
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

    /// Whether this write is hit by this fault.
    fn is_hit(&self, fault: Fault) -> bool {
        self.fault == fault && self.count().is_multiple_of(EVERY)
    }

    /// Counts a write, from 1.
    fn count(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed) + 1
    }
}

#[async_trait]
impl Session for FaultySession {
    async fn begin(&mut self, options: &TxOptions) -> OpResult<()> {
        match self.fault == Fault::Busy && !self.count().is_multiple_of(EVERY_BEGIN) {
            true => Err(OpError::Conflict("busy")),
            false => self.plain.begin(options).await,
        }
    }

    async fn commit(&mut self) -> OpResult<()> {
        self.plain.commit().await
    }

    async fn rollback(&mut self) -> OpResult<()> {
        self.plain.rollback().await
    }

    async fn find(&mut self, collection: &str, find: Find) -> OpResult<Vec<Document>> {
        self.plain.find(collection, find).await
    }

    async fn insert(&mut self, collection: &str, documents: Vec<Document>) -> OpResult<()> {
        match self.is_hit(Fault::Lost) {
            true => Ok(()),
            false => self.plain.insert(collection, documents).await,
        }
    }

    async fn update(&mut self, collection: &str, update: Update) -> OpResult<bool> {
        if self.is_hit(Fault::Lost) {
            return Ok(true);
        }
        if self.is_hit(Fault::Twice) {
            self.plain.update(collection, update.clone()).await?;
        }
        self.plain.update(collection, update).await
    }

    async fn find_and_modify(&mut self, collection: &str, find: Find, change: Change) -> OpResult<Option<Document>> {
        if self.is_hit(Fault::Lost) {
            return self.plain.find_one(collection, find).await;
        }
        if matches!(change, Change::Update(_)) && self.is_hit(Fault::Twice) {
            self.plain.find_and_modify(collection, find.clone(), change.clone()).await?;
        }
        self.plain.find_and_modify(collection, find, change).await
    }

    async fn delete(&mut self, collection: &str, filter: Document) -> OpResult<bool> {
        match self.is_hit(Fault::Lost) {
            true => Ok(true),
            false => self.plain.delete(collection, filter).await,
        }
    }

    async fn aggregate(&mut self, collection: &str, pipeline: Vec<Document>) -> OpResult<Vec<Document>> {
        self.plain.aggregate(collection, pipeline).await
    }
}
