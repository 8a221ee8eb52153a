//! A client's operations on versions of documents, in its transaction or each in one of its own.
//!
//! An operation outside a transaction begins one, and commits it with its answer. Reading at the
//! transaction's time is in `reading.rs`, writing in `writing.rs`, the commit in `commit.rs`,
//! the collections in `store.rs`.

use std::{collections::HashSet, sync::Arc, time::Instant};

use bson::{Bson, Document, doc};
use futures_util::future::BoxFuture;

use super::{
    ENTRY,
    commit::{commit, rollback},
    format::{Key, Version, split, with_id},
    names::{self, ById},
    reading::Reader,
    store::Store,
    visible::Viewer,
    writing::{Next, Seen, Tx, Written, body_of},
};
use crate::{
    error::{OpError, OpResult},
    targets::{Change, Find, Session, TxOptions, Update, change::apply, driver::Concerns},
};

/// Number of times that a write is repeated because a rival has committed between the read and the
/// write.
const ATTEMPTS: usize = 5;

pub(super) struct MvccSession {
    store: Arc<Store>,
    concerns: Concerns,
    tx: Option<Tx>,
}

/// A write in the open transaction, or in one of its own where there is none.
macro_rules! write {
    ($self:ident, $work:ident => $operation:expr) => {{
        let alone = $self.tx.is_none();
        let concern = $self.concerns.of(None);
        let mut $work = Work { store: &$self.store, tx: $self.tx.get_or_insert_with(|| Tx::new(concern, false)) };
        let answer = $operation.await;
        $self.ended(answer, alone).await
    }};
}

impl MvccSession {
    pub(super) fn new(store: Arc<Store>, concerns: Concerns) -> Self {
        Self { store, concerns, tx: None }
    }

    /// Ends a transaction of one operation, and every transaction that has failed.
    async fn ended<T>(&mut self, answer: OpResult<T>, alone: bool) -> OpResult<T> {
        match &answer {
            Ok(_) if alone => self.commit().await?,
            Ok(_) => {}
            Err(_) => self.rollback().await?,
        }
        answer
    }
}

impl Session for MvccSession {
    fn begin<'a>(&'a mut self, options: &'a TxOptions) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            self.rollback().await?;
            if let Some(level) = options.isolation {
                ENTRY.traits.check_isolation(level)?;
            }
            self.tx = Some(Tx::new(self.concerns.of(options.durability), options.no_lost_updates));
            Ok(())
        })
    }

    fn commit(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move {
            match self.tx.take() {
                Some(tx) => commit(&self.store, tx).await,
                None => Ok(()),
            }
        })
    }

    fn rollback(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move {
            if let Some(tx) = self.tx.take() {
                rollback(&self.store, tx).await;
            }
            Ok(())
        })
    }

    fn find<'a>(&'a mut self, collection: &'a str, find: Find) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move {
            let at = Instant::now();
            let viewer = Viewer { collection, own: self.tx.as_ref().map(|tx| tx.id), writes: false };
            let found = Reader { store: &self.store, viewer }.find(&find).await;
            let Some(tx) = &mut self.tx else { return Ok(documents(found?, &find)) };
            let found = match found {
                Ok(found) => found,
                Err(error) => return self.ended(Err(error), false).await,
            };
            if find.projection.is_empty() && matches!(names::by_id(&find.filter), Some(ById::Keys(_))) {
                found.iter().for_each(|version| tx.note_read(collection, Seen { version: version.clone(), at }));
            }
            Ok(documents(found, &find))
        })
    }

    fn insert<'a>(&'a mut self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move { write!(self, work => work.insert(collection, documents)) })
    }

    fn update<'a>(&'a mut self, collection: &'a str, update: Update) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move { write!(self, work => work.update(collection, update)) })
    }

    fn update_each<'a>(&'a mut self, collection: &'a str, updates: Vec<Update>) -> BoxFuture<'a, OpResult<u64>> {
        Box::pin(async move { write!(self, work => work.update_each(collection, updates)) })
    }

    fn find_and_modify<'a>(
        &'a mut self,
        collection: &'a str,
        find: Find,
        change: Change,
    ) -> BoxFuture<'a, OpResult<Option<Document>>> {
        Box::pin(async move { write!(self, work => work.find_and_modify(collection, &find, &change)) })
    }

    fn delete<'a>(&'a mut self, collection: &'a str, filter: Document) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move {
            let find = Find::new(filter);
            let removed = write!(self, work => work.change(collection, &find, &Change::Remove));
            removed.map(|removed| removed.is_some())
        })
    }

    fn aggregate<'a>(
        &'a mut self,
        _collection: &'a str,
        _pipeline: Vec<Document>,
    ) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move { Err(OpError::unsupported("mvcc", "aggregate")) })
    }
}

fn documents(found: Vec<Version>, find: &Find) -> Vec<Document> {
    let mut documents: Vec<Document> = found.into_iter().filter_map(Version::into_document).collect();
    if names::hides_id(&find.projection) {
        documents.iter_mut().for_each(|document| drop(document.remove("_id")));
    }
    documents
}

/// A write operation at work.
struct Work<'a> {
    store: &'a Store,
    tx: &'a mut Tx,
}

/// A document before and after a change.
struct Changed {
    before: Document,
    after: Option<Document>,
}

impl Work<'_> {
    fn reader<'s>(&'s self, collection: &'s str, writes: bool) -> Reader<'s> {
        Reader { store: self.store, viewer: Viewer { collection, own: Some(self.tx.id), writes } }
    }

    async fn update(&mut self, collection: &str, Update { filter, update }: Update) -> OpResult<bool> {
        Ok(self.change(collection, &Find::new(filter), &Change::Update(update)).await?.is_some())
    }

    async fn find_and_modify(&mut self, collection: &str, find: &Find, change: &Change) -> OpResult<Option<Document>> {
        let Some(changed) = self.change(collection, find, change).await? else { return Ok(None) };
        let document = changed.after.unwrap_or(changed.before);
        names::project(&document, &find.projection).map(Some).map_err(|what| OpError::unsupported("mvcc", what))
    }

    /// Changes the first document that matches.
    async fn change(&mut self, collection: &str, find: &Find, change: &Change) -> OpResult<Option<Changed>> {
        for _ in 0..ATTEMPTS {
            let Some(seen) = self.first(collection, find).await? else { return Ok(None) };
            let key = Key::of(&seen.version.id.key);
            let Some(changed) = changed(&seen.version, change)? else { return Ok(None) };
            let body = changed.after.clone().map(body_of).transpose()?;
            if self.tx.own(collection, &key).is_some() {
                self.tx.rewrite(self.store, collection, &key, body).await?;
                return Ok(Some(changed));
            }
            if let Written::All = self.tx.write(self.store, collection, vec![Next::after(&seen, body)]).await? {
                return Ok(Some(changed));
            }
            // A rival that is at work is a conflict, found here; after one that has committed it is
            // tried again.
            self.reader(collection, true).latest(&[seen.version.id.key], &doc! {"_lock": 1}).await?;
            if self.tx.depends_on(collection, &key) {
                break;
            }
        }
        Err(OpError::Conflict("write conflict"))
    }

    /// The first document that matches, as the transaction sees it.
    async fn first(&mut self, collection: &str, find: &Find) -> OpResult<Option<Seen>> {
        let at = Instant::now();
        if let Some(ById::Keys(keys)) = names::by_id(&find.filter)
            && let [key] = keys.as_slice()
        {
            return self.by_key(collection, key).await;
        }
        let find = Find { projection: Document::new(), limit: 1, ..find.clone() };
        let found = self.reader(collection, false).find(&find).await?.pop();
        Ok(found.map(|version| Seen { version, at }))
    }

    /// The document with this key. One of the transaction's own, or one that was read before, needs
    /// no command.
    async fn by_key(&mut self, collection: &str, key: &Bson) -> OpResult<Option<Seen>> {
        let (at, place) = (Instant::now(), Key::of(key));
        if let Some(own) = self.tx.own(collection, &place) {
            let version = Version { id: own.id.clone(), lock: None, body: own.body.clone() };
            return Ok(version.body.is_some().then_some(Seen { version, at }));
        }
        if let Some(seen) = self.tx.take_read(collection, &place) {
            return Ok(Some(seen));
        }
        let mut latest = self.reader(collection, true).latest(std::slice::from_ref(key), &Document::new()).await?;
        let found = latest.remove(&place).filter(|version| version.body.is_some());
        Ok(found.map(|version| Seen { version, at }))
    }

    /// Updates of different documents by their keys are one read and one write; others are made one
    /// by one.
    async fn update_each(&mut self, collection: &str, updates: Vec<Update>) -> OpResult<u64> {
        let mut keys: Vec<Bson> = Vec::new();
        for update in &updates {
            match names::by_id(&update.filter) {
                Some(ById::Keys(mut one)) if one.len() == 1 => keys.append(&mut one),
                _ => return self.one_by_one(collection, updates).await,
            }
        }
        let mut places: Vec<Key> = keys.iter().map(Key::of).collect();
        places.sort_unstable();
        places.dedup();
        let own = places.iter().any(|place| self.tx.own(collection, place).is_some());
        if own || places.len() < updates.len() {
            return self.one_by_one(collection, updates).await;
        }
        let at = Instant::now();
        let mut latest = self.reader(collection, true).latest(&keys, &Document::new()).await?;
        let mut next = Vec::new();
        let mut rest = Vec::new();
        for (key, update) in keys.iter().zip(updates) {
            let Some(version) = latest.remove(&Key::of(key)) else { continue };
            let seen = Seen { version, at };
            let Some(changed) = changed(&seen.version, &Change::Update(update.update.clone()))? else { continue };
            next.push(Next::after(&seen, changed.after.map(body_of).transpose()?));
            rest.push(update);
        }
        match self.tx.write(self.store, collection, next).await? {
            Written::All => Ok(rest.len() as u64),
            Written::Some(count) => Ok(count as u64 + self.one_by_one(collection, rest.split_off(count)).await?),
        }
    }

    async fn one_by_one(&mut self, collection: &str, updates: Vec<Update>) -> OpResult<u64> {
        let mut matched = 0;
        for update in updates {
            matched += u64::from(self.update(collection, update).await?);
        }
        Ok(matched)
    }

    /// Versions make `_id` alone not unique: one command looks for versions that are there, another
    /// one writes.
    async fn insert(&mut self, collection: &str, documents: Vec<Document>) -> OpResult<()> {
        let new = documents.into_iter().map(|mut document| split(&mut document));
        let mut new: Vec<(Bson, Document)> = new.collect::<Result<_, _>>()?;
        let places: HashSet<Key> = new.iter().map(|(key, _)| Key::of(key)).collect();
        if places.len() < new.len() {
            return Err(OpError::Duplicate);
        }
        for _ in 0..ATTEMPTS {
            let keys: Vec<Bson> = new.iter().map(|(key, _)| key.clone()).collect();
            let at = Instant::now();
            let mut latest = self.reader(collection, true).latest(&keys, &doc! {"_lock": 1, "_gone": 1}).await?;
            let mut next = Vec::new();
            let mut again = Vec::new();
            for (key, body) in &new {
                let place = Key::of(key);
                match (latest.remove(&place), self.tx.own(collection, &place).map(|own| own.body.is_some())) {
                    (_, Some(true)) | (Some(Version { body: Some(_), .. }), None) => return Err(OpError::Duplicate),
                    (_, Some(false)) => again.push((place, body.clone())),
                    (Some(version), None) => next.push(Next::after(&Seen { version, at }, Some(body.clone()))),
                    (None, None) => next.push(Next::first(key.clone(), body.clone(), at)),
                }
            }
            for (place, body) in again {
                self.tx.rewrite(self.store, collection, &place, Some(body)).await?;
            }
            match self.tx.write(self.store, collection, next).await? {
                Written::All => return Ok(()),
                // Documents that it has inserted by now are not to be inserted again.
                Written::Some(_) => new.retain(|(key, _)| self.tx.own(collection, &Key::of(key)).is_none()),
            }
        }
        Err(OpError::Conflict("write conflict"))
    }
}

/// The change of a version; `None` where there is no document.
fn changed(version: &Version, change: &Change) -> OpResult<Option<Changed>> {
    let Some(body) = version.body.clone() else { return Ok(None) };
    let before = with_id(version.id.key.clone(), body);
    let after = match change {
        Change::Remove => None,
        Change::Update(update) => {
            Some(apply(before.clone(), update).map_err(|what| OpError::unsupported("mvcc", what))?)
        }
    };
    Ok(Some(Changed { before, after }))
}
