//! A client's operations on keys of DTranx, in its transaction or each in one of its own.
//!
//! A document is the value of a key made of its database, collection and `_id`, so only filters by
//! `_id` are carried out (`filter.rs`); others are refused as unsupported.

use std::time::Instant;

use bson::Document;
use dtranx::{
    client::{AsyncClient, AsyncTransaction, Error},
    core::{KeyRange, Refusal},
};
use futures_util::future::BoxFuture;

use super::{
    ENTRY, NAME, Requests, failed,
    filter::{self, Named},
    key,
};
use crate::{
    error::{OpError, OpResult},
    targets::{Change, Find, Session, TxOptions, Update, change},
};

/// The most documents that a transaction reads in a range: it keeps all of them until it commits.
const LONGEST_SCAN: usize = 999;

pub(super) struct DtranxSession {
    client: AsyncClient,
    db: String,
    requests: Requests,
    tranx: Option<AsyncTransaction>,
    /// The refusal of the last attempt, and when the first one was begun: who has tried for longer
    /// is served earlier.
    refused: Option<(Refusal, Instant)>,
    begun: Instant,
}

impl DtranxSession {
    pub(super) fn new(client: AsyncClient, db: String, requests: Requests) -> Self {
        Self { client, db, requests, tranx: None, refused: None, begun: Instant::now() }
    }

    /// The transaction that is open, or one for an operation that stands alone.
    fn take(&mut self) -> (AsyncTransaction, bool) {
        match self.tranx.take() {
            Some(tranx) => (tranx, false),
            None => (self.client.begin(), true),
        }
    }

    /// Goes on with the transaction, or commits it if it was for one operation.
    async fn put_back(&mut self, tranx: AsyncTransaction, is_alone: bool) -> OpResult<()> {
        if is_alone {
            return self.finish(tranx).await;
        }
        self.tranx = Some(tranx);
        Ok(())
    }

    async fn finish(&mut self, tranx: AsyncTransaction) -> OpResult<()> {
        self.requests.count("commit");
        match tranx.commit().await {
            Ok(_) => {
                self.refused = None;
                Ok(())
            }
            Err(Error::Refused(refusal)) => {
                let reason = reason(&refusal);
                let since = self.refused.take().map_or(self.begun, |(_, since)| since);
                self.refused = Some((refusal, since));
                Err(OpError::Conflict(reason))
            }
            Err(error @ Error::Unknown(_)) => Err(OpError::Unknown(failed(error))),
            Err(error) => Err(failed(error).into()),
        }
    }

    async fn read(&self, tranx: &mut AsyncTransaction, key: &[u8]) -> OpResult<Option<Document>> {
        self.requests.count("get");
        let found = tranx.get(key.to_vec()).await.map_err(failed)?;
        found.map(|value| decode(&value)).transpose()
    }

    /// Reads a range: in the transaction, or as a snapshot.
    async fn scan(&mut self, range: KeyRange, limit: u32) -> OpResult<Vec<Document>> {
        self.requests.count("scan");
        let limit = if limit == 0 { usize::MAX } else { limit as usize };
        let found = match &mut self.tranx {
            Some(tranx) => {
                // Keys that the transaction has deleted count in its limit, and are not answered.
                let mut most = limit.min(LONGEST_SCAN);
                loop {
                    let mut found = tranx.scan(range.clone(), most).await.map_err(failed)?;
                    if found.complete || found.items.len() >= limit {
                        found.items.truncate(limit);
                        break found;
                    }
                    if most == LONGEST_SCAN {
                        let what = format!("read more than {LONGEST_SCAN} documents of a range in a transaction");
                        return Err(OpError::unsupported(NAME, what));
                    }
                    most = most.saturating_mul(2).min(LONGEST_SCAN);
                }
            }
            None => {
                let snapshot = self.client.snapshot().await.map_err(failed)?;
                snapshot.scan(&range, limit).await.map_err(failed)?
            }
        };
        found.items.iter().map(|(_, value)| decode(value)).collect()
    }

    /// Reads a document, changes it, and writes or deletes it. Returns the document as it is then,
    /// or as it was if it is deleted.
    async fn change(&mut self, collection: &str, filter: &Document, change: Change) -> OpResult<Option<Document>> {
        let key = filter::one(&self.db, collection, filter)?;
        let (mut tranx, is_alone) = self.take();
        let Some(found) = self.read(&mut tranx, &key).await? else {
            self.put_back(tranx, is_alone).await?;
            return Ok(None);
        };
        let answer = match change {
            Change::Update(update) => {
                let changed = change::apply(found, &update).map_err(|what| OpError::unsupported(NAME, what))?;
                tranx.put(key, encode(&changed)?).map_err(failed)?;
                changed
            }
            Change::Remove => {
                tranx.delete(key).map_err(failed)?;
                found
            }
        };
        self.put_back(tranx, is_alone).await?;
        Ok(Some(answer))
    }
}

impl Session for DtranxSession {
    fn begin<'a>(&'a mut self, options: &'a TxOptions) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            options.isolation.map_or(Ok(()), |level| ENTRY.traits.check_isolation(level))?;
            options.durability.map_or(Ok(()), |durability| ENTRY.traits.check_durability(durability))?;
            self.begun = Instant::now();
            let tranx = match &self.refused {
                Some((refusal, since)) => self.client.begin_again(refusal.clone()).tried_since(*since),
                None => self.client.begin(),
            };
            self.tranx = Some(tranx);
            Ok(())
        })
    }

    fn commit(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move {
            match self.tranx.take() {
                Some(tranx) => self.finish(tranx).await,
                None => Ok(()),
            }
        })
    }

    fn rollback(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move {
            self.tranx = None;
            Ok(())
        })
    }

    fn find<'a>(&'a mut self, collection: &'a str, find: Find) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move {
            filter::check_order(&find)?;
            let found = match filter::named(&self.db, collection, &find.filter)? {
                Named::One(key) => {
                    let (mut tranx, is_alone) = self.take();
                    let found = self.read(&mut tranx, &key).await?;
                    self.put_back(tranx, is_alone).await?;
                    found.into_iter().collect()
                }
                Named::Range(range) => self.scan(range, find.limit).await?,
            };
            found.into_iter().map(|document| filter::project(document, &find.projection)).collect()
        })
    }

    fn insert<'a>(&'a mut self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            let (mut tranx, is_alone) = self.take();
            for document in documents {
                let key = key::of_document(&self.db, collection, &document)?;
                if self.read(&mut tranx, &key).await?.is_some() {
                    return Err(OpError::Duplicate);
                }
                tranx.put(key, encode(&document)?).map_err(failed)?;
            }
            self.put_back(tranx, is_alone).await
        })
    }

    fn update<'a>(
        &'a mut self,
        collection: &'a str,
        Update { filter, update }: Update,
    ) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move { Ok(self.change(collection, &filter, Change::Update(update)).await?.is_some()) })
    }

    fn find_and_modify<'a>(
        &'a mut self,
        collection: &'a str,
        find: Find,
        change: Change,
    ) -> BoxFuture<'a, OpResult<Option<Document>>> {
        Box::pin(async move {
            let changed = self.change(collection, &find.filter, change).await?;
            changed.map(|document| filter::project(document, &find.projection)).transpose()
        })
    }

    fn delete<'a>(&'a mut self, collection: &'a str, filter: Document) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move { Ok(self.change(collection, &filter, Change::Remove).await?.is_some()) })
    }

    fn aggregate<'a>(
        &'a mut self,
        _collection: &'a str,
        _pipeline: Vec<Document>,
    ) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move { Err(OpError::unsupported(NAME, "aggregate")) })
    }
}

fn encode(document: &Document) -> OpResult<Vec<u8>> {
    document.to_vec().map_err(|error| failed(error).into())
}

fn decode(value: &[u8]) -> OpResult<Document> {
    Document::from_reader(value).map_err(|error| failed(error).into())
}

/// A refusal in a few words, for counting.
fn reason(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::ReadLocked { .. } | Refusal::WriteLocked { .. } => "locked",
        Refusal::Stale { .. } => "read what has changed",
        Refusal::LockWaitExpired => "waited for a lock",
        Refusal::Overloaded { .. } => "overloaded",
        _ => "refused",
    }
}
