//! Operations of the plain driver, each for itself: begin and commit do nothing, and nothing is
//! taken back.

use bson::{Bson, Document, doc};
use futures_util::TryStreamExt;
use futures_util::future::BoxFuture;
use mongodb::{
    Collection, Database,
    options::{ReturnDocument, WriteConcern},
};

use crate::{
    error::OpResult,
    targets::{
        Change, Find, Session, TxOptions, Update,
        driver::{Concerns, matched, write_error},
    },
};

pub(crate) struct PlainSession {
    db: Database,
    concerns: Concerns,
    concern: WriteConcern,
}

impl PlainSession {
    pub(crate) fn new(db: Database, concerns: Concerns) -> Self {
        Self { db, concerns, concern: concerns.of(None) }
    }

    fn collection(&self, name: &str) -> Collection<Document> {
        self.db.collection(name)
    }
}

impl Session for PlainSession {
    fn begin<'a>(&'a mut self, options: &'a TxOptions) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            self.concern = self.concerns.of(options.durability);
            Ok(())
        })
    }

    fn commit(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move { Ok(()) })
    }

    fn rollback(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move { Ok(()) })
    }

    fn find<'a>(&'a mut self, collection: &'a str, find: Find) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move {
            let collection = self.collection(collection);
            let found = collection.find(find.filter).projection(find.projection).sort(find.sort);
            Ok(found.limit(i64::from(find.limit)).await?.try_collect().await?)
        })
    }

    fn find_one<'a>(&'a mut self, collection: &'a str, find: Find) -> BoxFuture<'a, OpResult<Option<Document>>> {
        Box::pin(async move {
            Ok(self.collection(collection).find_one(find.filter).projection(find.projection).sort(find.sort).await?)
        })
    }

    fn insert<'a>(&'a mut self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            let inserted = self.collection(collection).insert_many(documents).write_concern(self.concern.clone()).await;
            inserted.map(|_| ()).map_err(write_error)
        })
    }

    fn update<'a>(
        &'a mut self,
        collection: &'a str,
        Update { filter, update }: Update,
    ) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move {
            let updated =
                self.collection(collection).update_one(filter, update).write_concern(self.concern.clone()).await;
            Ok(updated.map_err(write_error)?.matched_count > 0)
        })
    }

    fn update_each<'a>(&'a mut self, collection: &'a str, updates: Vec<Update>) -> BoxFuture<'a, OpResult<u64>> {
        Box::pin(async move {
            let updates =
                updates.into_iter().map(|Update { filter, update }| Bson::from(doc! {"q": filter, "u": update}));
            let concern = bson::serialize_to_bson(&self.concern).map_err(mongodb::error::Error::from)?;
            let command =
                doc! {"update": collection, "updates": updates.collect::<Vec<Bson>>(), "writeConcern": concern};
            matched(&self.db.run_command(command).await.map_err(write_error)?)
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
            let concern = self.concern.clone();
            let changed = match change {
                Change::Update(update) => {
                    let update =
                        collection.find_one_and_update(find.filter, update).return_document(ReturnDocument::After);
                    update.projection(find.projection).sort(find.sort).write_concern(concern).await
                }
                Change::Remove => {
                    let remove = collection.find_one_and_delete(find.filter);
                    remove.projection(find.projection).sort(find.sort).write_concern(concern).await
                }
            };
            changed.map_err(write_error)
        })
    }

    fn delete<'a>(&'a mut self, collection: &'a str, filter: Document) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move {
            let deleted = self.collection(collection).delete_one(filter).write_concern(self.concern.clone()).await;
            Ok(deleted.map_err(write_error)?.deleted_count > 0)
        })
    }

    fn aggregate<'a>(
        &'a mut self,
        collection: &'a str,
        pipeline: Vec<Document>,
    ) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move { Ok(self.collection(collection).aggregate(pipeline).await?.try_collect().await?) })
    }
}
