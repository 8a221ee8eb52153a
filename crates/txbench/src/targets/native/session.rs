//! Operations in a transaction of the server's. Outside one they are the plain driver's.

use bson::{Bson, Document, doc};
use futures_util::TryStreamExt;
use futures_util::future::BoxFuture;
use mongodb::{
    ClientSession, Collection, Database,
    error::Error,
    options::{ReadConcern, ReturnDocument},
};

use super::{commit::commit, errors::op_error};
use crate::{
    error::{OpError, OpResult},
    targets::{
        Change, Find, Isolation, Session, TxOptions, Update,
        driver::{Concerns, matched},
        plain::PlainSession,
    },
};

pub(in crate::targets) struct NativeSession {
    session: ClientSession,
    db: Database,
    concerns: Concerns,
    isolation: Isolation,
    /// True if a transaction is open.
    open: bool,
    /// Session for operations outside a transaction.
    plain: PlainSession,
}

impl NativeSession {
    pub(in crate::targets) fn new(
        session: ClientSession,
        db: Database,
        concerns: Concerns,
        isolation: Isolation,
    ) -> Self {
        Self { session, plain: PlainSession::new(db.clone(), concerns), db, concerns, isolation, open: false }
    }

    fn collection(&self, name: &str) -> Collection<Document> {
        self.db.collection(name)
    }

    /// Ends the transaction after an error: the server has aborted it already where the error came
    /// from there, and must not keep its locks where not.
    async fn fail(&mut self, error: Error) -> OpError {
        self.open = false;
        let _ = self.session.abort_transaction().await;
        op_error(error)
    }

    /// Settles the answer to an operation: an error ends the transaction.
    async fn settled<T>(&mut self, answer: Result<T, Error>) -> OpResult<T> {
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.fail(error).await),
        }
    }
}

impl Session for NativeSession {
    fn begin<'a>(&'a mut self, options: &'a TxOptions) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            let read = match options.isolation.unwrap_or(self.isolation) {
                Isolation::ReadCommitted => ReadConcern::local(),
                Isolation::RepeatableRead | Isolation::Snapshot => ReadConcern::snapshot(),
                // The gateway's: the server itself has no such level, and its target does not offer
                // it.
                Isolation::Serializable => ReadConcern::linearizable(),
            };
            let write = self.concerns.of(options.durability);
            self.session.start_transaction().read_concern(read).write_concern(write).await?;
            self.open = true;
            Ok(())
        })
    }

    fn commit(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move {
            match std::mem::take(&mut self.open) {
                true => commit(&mut self.session).await,
                false => Ok(()),
            }
        })
    }

    fn rollback(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move {
            if std::mem::take(&mut self.open) {
                // An abort that does not arrive is one that the server makes by itself, when the
                // transaction's time is up.
                let _ = self.session.abort_transaction().await;
            }
            Ok(())
        })
    }

    fn find<'a>(&'a mut self, collection: &'a str, find: Find) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move {
            if !self.open {
                return self.plain.find(collection, find).await;
            }
            let Find { filter, projection, sort, limit, for_update: _ } = find;
            let collection = self.collection(collection);
            let action = collection.find(filter).projection(projection).sort(sort);
            let found = match action.limit(i64::from(limit)).session(&mut self.session).await {
                Ok(mut cursor) => cursor.stream(&mut self.session).try_collect().await,
                Err(error) => Err(error),
            };
            self.settled(found).await
        })
    }

    fn find_one<'a>(&'a mut self, collection: &'a str, find: Find) -> BoxFuture<'a, OpResult<Option<Document>>> {
        Box::pin(async move {
            if !self.open {
                return self.plain.find_one(collection, find).await;
            }
            let collection = self.collection(collection);
            let action = collection.find_one(find.filter).projection(find.projection).sort(find.sort);
            let found = action.session(&mut self.session).await;
            self.settled(found).await
        })
    }

    fn insert<'a>(&'a mut self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            if !self.open {
                return self.plain.insert(collection, documents).await;
            }
            let inserted = self.collection(collection).insert_many(documents).session(&mut self.session).await;
            self.settled(inserted.map(|_| ())).await
        })
    }

    fn update<'a>(&'a mut self, collection: &'a str, update: Update) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move {
            if !self.open {
                return self.plain.update(collection, update).await;
            }
            let Update { filter, update } = update;
            let updated = self.collection(collection).update_one(filter, update).session(&mut self.session).await;
            Ok(self.settled(updated).await?.matched_count > 0)
        })
    }

    fn update_each<'a>(&'a mut self, collection: &'a str, updates: Vec<Update>) -> BoxFuture<'a, OpResult<u64>> {
        Box::pin(async move {
            if !self.open {
                return self.plain.update_each(collection, updates).await;
            }
            let updates =
                updates.into_iter().map(|Update { filter, update }| Bson::from(doc! {"q": filter, "u": update}));
            let command = doc! {"update": collection, "updates": updates.collect::<Vec<Bson>>()};
            let answer = self.db.run_command(command).session(&mut self.session).await;
            let answer = self.settled(answer).await?;
            match matched(&answer) {
                Ok(matched) => Ok(matched),
                Err(error) => {
                    self.rollback().await?;
                    Err(error)
                }
            }
        })
    }

    fn find_and_modify<'a>(
        &'a mut self,
        collection: &'a str,
        find: Find,
        change: Change,
    ) -> BoxFuture<'a, OpResult<Option<Document>>> {
        Box::pin(async move {
            if !self.open {
                return self.plain.find_and_modify(collection, find, change).await;
            }
            let Find { filter, projection, sort, .. } = find;
            let collection = self.collection(collection);
            let session = &mut self.session;
            let changed = match change {
                Change::Update(update) => {
                    let update = collection.find_one_and_update(filter, update).return_document(ReturnDocument::After);
                    update.projection(projection).sort(sort).session(session).await
                }
                Change::Remove => {
                    collection.find_one_and_delete(filter).projection(projection).sort(sort).session(session).await
                }
            };
            self.settled(changed).await
        })
    }

    fn delete<'a>(&'a mut self, collection: &'a str, filter: Document) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move {
            if !self.open {
                return self.plain.delete(collection, filter).await;
            }
            let deleted = self.collection(collection).delete_one(filter).session(&mut self.session).await;
            Ok(self.settled(deleted).await?.deleted_count > 0)
        })
    }

    fn aggregate<'a>(
        &'a mut self,
        collection: &'a str,
        pipeline: Vec<Document>,
    ) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move {
            if !self.open {
                return self.plain.aggregate(collection, pipeline).await;
            }
            let found = match self.collection(collection).aggregate(pipeline).session(&mut self.session).await {
                Ok(mut cursor) => cursor.stream(&mut self.session).try_collect().await,
                Err(error) => Err(error),
            };
            self.settled(found).await
        })
    }
}
