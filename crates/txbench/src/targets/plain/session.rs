//! Operations of the plain driver, each for itself.

use async_trait::async_trait;
use bson::{Bson, Document, doc};
use futures_util::TryStreamExt;
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

#[async_trait]
impl Session for PlainSession {
    async fn begin(&mut self, options: &TxOptions) -> OpResult<()> {
        self.concern = self.concerns.of(options.durability);
        Ok(())
    }

    async fn commit(&mut self) -> OpResult<()> {
        Ok(())
    }

    async fn rollback(&mut self) -> OpResult<()> {
        Ok(())
    }

    async fn find(&mut self, collection: &str, find: Find) -> OpResult<Vec<Document>> {
        let collection = self.collection(collection);
        let found = collection.find(find.filter).projection(find.projection).sort(find.sort);
        Ok(found.limit(i64::from(find.limit)).await?.try_collect().await?)
    }

    async fn find_one(&mut self, collection: &str, find: Find) -> OpResult<Option<Document>> {
        Ok(self.collection(collection).find_one(find.filter).projection(find.projection).sort(find.sort).await?)
    }

    async fn insert(&mut self, collection: &str, documents: Vec<Document>) -> OpResult<()> {
        let inserted = self.collection(collection).insert_many(documents).write_concern(self.concern.clone()).await;
        inserted.map(|_| ()).map_err(write_error)
    }

    async fn update(&mut self, collection: &str, Update { filter, update }: Update) -> OpResult<bool> {
        let updated = self.collection(collection).update_one(filter, update).write_concern(self.concern.clone()).await;
        Ok(updated.map_err(write_error)?.matched_count > 0)
    }

    async fn update_each(&mut self, collection: &str, updates: Vec<Update>) -> OpResult<u64> {
        let updates = updates.into_iter().map(|Update { filter, update }| Bson::from(doc! {"q": filter, "u": update}));
        let concern = bson::serialize_to_bson(&self.concern).map_err(mongodb::error::Error::from)?;
        let command = doc! {"update": collection, "updates": updates.collect::<Vec<Bson>>(), "writeConcern": concern};
        matched(&self.db.run_command(command).await.map_err(write_error)?)
    }

    async fn find_and_modify(&mut self, collection: &str, find: Find, change: Change) -> OpResult<Option<Document>> {
        let collection = self.collection(collection);
        let concern = self.concern.clone();
        let changed = match change {
            Change::Update(update) => {
                let update = collection.find_one_and_update(find.filter, update).return_document(ReturnDocument::After);
                update.projection(find.projection).sort(find.sort).write_concern(concern).await
            }
            Change::Remove => {
                let remove = collection.find_one_and_delete(find.filter);
                remove.projection(find.projection).sort(find.sort).write_concern(concern).await
            }
        };
        changed.map_err(write_error)
    }

    async fn delete(&mut self, collection: &str, filter: Document) -> OpResult<bool> {
        let deleted = self.collection(collection).delete_one(filter).write_concern(self.concern.clone()).await;
        Ok(deleted.map_err(write_error)?.deleted_count > 0)
    }

    async fn aggregate(&mut self, collection: &str, pipeline: Vec<Document>) -> OpResult<Vec<Document>> {
        Ok(self.collection(collection).aggregate(pipeline).await?.try_collect().await?)
    }
}
