//! The operations of a session by the library: in the open transaction, or alone where there is
//! none.

use ::mongotx::{
    Collection, Database, Error, ErrorKind, ReturnDocument, Session as Inner, TransactionOptions, WriteModel,
    error::TRANSIENT_TRANSACTION_ERROR,
};
use bson::{Document, doc};
use futures_util::future::BoxFuture;

use super::{Concerns, library_isolation};
use crate::{
    error::{BenchError, OpError, OpResult},
    targets::{Change, Durability, Find, Session, TxOptions, Update, driver::DUPLICATE_KEY},
};

pub(super) struct MongoTxSession {
    session: Inner,
    db: Database,
    options: TransactionOptions,
    concerns: Concerns,
    /// Durability of commits, unless a transaction has its own, and of the open transaction.
    durability: Durability,
    asked: Durability,
}

impl MongoTxSession {
    /// A session with the options that [`Concerns`] has made for this durability.
    pub(super) fn new(
        session: Inner,
        db: Database,
        options: TransactionOptions,
        concerns: Concerns,
        durability: Durability,
    ) -> Self {
        Self { session, db, options, concerns, durability, asked: durability }
    }

    fn collection(&self, name: &str) -> Collection<Document> {
        self.db.collection(name)
    }

    /// Settles the answer to an operation in a transaction. The library lets the application go on
    /// after a duplicate value; here that ends the transaction, as with other targets.
    async fn settled<T>(&mut self, answer: Result<T, Error>) -> OpResult<T> {
        let answer = answer.map_err(op_error);
        if matches!(answer, Err(OpError::Duplicate)) && self.session.is_open() {
            self.session.rollback().await.map_err(op_error)?;
        }
        answer
    }
}

/// An action in the open transaction, or alone where there is none.
macro_rules! run {
    ($self:ident, $action:expr) => {
        match $self.session.is_open() {
            true => {
                let answer = $action.session(&mut $self.session).await;
                $self.settled(answer).await
            }
            false => $action.await.map_err(op_error),
        }
    };
}

impl Session for MongoTxSession {
    fn begin<'a>(&'a mut self, options: &'a TxOptions) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            let mut chosen = self.options.clone();
            self.asked = options.durability.unwrap_or(self.durability);
            chosen.concern = self.concerns.of(self.asked)?;
            if let Some(isolation) = options.isolation {
                chosen.isolation = Some(library_isolation(isolation));
            }
            self.session.begin_with(chosen).map_err(op_error)
        })
    }

    fn commit(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move {
            self.session.commit().await.map_err(|error| match error.kind() {
                ErrorKind::Indeterminate => {
                    let what = format!("the commit is not confirmed as asked, {}: {error}", self.asked);
                    OpError::Unknown(BenchError::Failed(what))
                }
                _ => op_error(error),
            })
        })
    }

    fn rollback(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move {
            match self.session.is_open() {
                true => self.session.rollback().await.map_err(op_error),
                false => Ok(()),
            }
        })
    }

    fn find<'a>(&'a mut self, collection: &'a str, find: Find) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move {
            let collection = self.collection(collection);
            let mut action = collection.find(find.filter).limit(find.limit.into());
            if !find.projection.is_empty() {
                action = action.projection(find.projection);
            }
            if !find.sort.is_empty() {
                action = action.sort(find.sort);
            }
            run!(self, action)?.try_collect().await.map_err(op_error)
        })
    }

    fn find_one<'a>(&'a mut self, collection: &'a str, find: Find) -> BoxFuture<'a, OpResult<Option<Document>>> {
        Box::pin(async move {
            let collection = self.collection(collection);
            if find.for_update && self.session.is_open() && find.sort.is_empty() && find.projection.is_empty() {
                // Locks the document and changes nothing.
                let same = vec![doc! {"$replaceWith": "$$ROOT"}];
                return run!(self, collection.find_one_and_update(find.filter, same));
            }
            let mut action = collection.find_one(find.filter);
            if !find.projection.is_empty() {
                action = action.projection(find.projection);
            }
            if !find.sort.is_empty() {
                action = action.sort(find.sort);
            }
            run!(self, action)
        })
    }

    fn insert<'a>(&'a mut self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            let collection = self.collection(collection);
            match documents.as_slice() {
                [one] => run!(self, collection.insert_one(one)).map(|_| ()),
                many => run!(self, collection.insert_many(many)).map(|_| ()),
            }
        })
    }

    fn update<'a>(
        &'a mut self,
        collection: &'a str,
        Update { filter, update }: Update,
    ) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move {
            let collection = self.collection(collection);
            Ok(run!(self, collection.update_one(filter, update))?.matched_count > 0)
        })
    }

    fn update_each<'a>(&'a mut self, collection: &'a str, updates: Vec<Update>) -> BoxFuture<'a, OpResult<u64>> {
        Box::pin(async move {
            let collection = self.collection(collection);
            let models = updates.into_iter().map(|Update { filter, update }| WriteModel::UpdateOne {
                filter,
                update: update.into(),
                upsert: false,
            });
            Ok(run!(self, collection.bulk_write(models))?.matched_count)
        })
    }

    fn find_and_modify<'a>(
        &'a mut self,
        collection: &'a str,
        find: Find,
        change: Change,
    ) -> BoxFuture<'a, OpResult<Option<Document>>> {
        Box::pin(async move {
            let collection = self.collection(collection);
            let Find { filter, projection, sort, .. } = find;
            match change {
                Change::Update(update) => {
                    let action = collection.find_one_and_update(filter, update).return_document(ReturnDocument::After);
                    let action = if projection.is_empty() { action } else { action.projection(projection) };
                    let action = if sort.is_empty() { action } else { action.sort(sort) };
                    run!(self, action)
                }
                Change::Remove => {
                    let action = collection.find_one_and_delete(filter);
                    let action = if projection.is_empty() { action } else { action.projection(projection) };
                    let action = if sort.is_empty() { action } else { action.sort(sort) };
                    run!(self, action)
                }
            }
        })
    }

    fn delete<'a>(&'a mut self, collection: &'a str, filter: Document) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move {
            let collection = self.collection(collection);
            Ok(run!(self, collection.delete_one(filter))? > 0)
        })
    }

    fn aggregate<'a>(
        &'a mut self,
        collection: &'a str,
        pipeline: Vec<Document>,
    ) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move {
            let collection = self.collection(collection);
            run!(self, collection.aggregate(pipeline))?.try_collect().await.map_err(op_error)
        })
    }
}

/// The meaning of a library error for a workload.
fn op_error(error: Error) -> OpError {
    match error.kind() {
        ErrorKind::Conflict => OpError::Conflict("write conflict"),
        ErrorKind::Expired => OpError::Conflict("expired"),
        ErrorKind::Indeterminate => OpError::Unknown(BenchError::from(error)),
        _ if error.code() == Some(DUPLICATE_KEY) => OpError::Duplicate,
        _ if error.contains_label(TRANSIENT_TRANSACTION_ERROR) => OpError::Conflict("server not reached"),
        _ => OpError::from(error),
    }
}
