//! Every operation that a transaction has.

use std::time::Duration;

use bson::{Document, doc};
use mongotx::{Collection, Isolation, Result, ReturnDocument, Session, WriteModel};

/// Defines the operations once, as variants and as the list of them all.
macro_rules! operations {
    ($($name:ident,)*) => {
        /// Operations that are interrupted. The names say what is done, to the documents 1 to 6.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Operation {
            $($name,)*
        }

        impl Operation {
            pub(super) const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

operations! {
    InsertOne,
    InsertMany,
    InsertManyRefused,
    InsertRemovedAgain,
    UpdateOne,
    UpdateOneByFilter,
    UpdateOneInTwoStatements,
    UpdateOwn,
    UpdateMany,
    UpdateManyBehindRival,
    ReplaceOne,
    DeleteOne,
    DeleteMany,
    FindOneAndUpdate,
    FindOneAndUpdateAfter,
    FindOneAndReplace,
    FindOneAndDelete,
    Bulk,
    BulkMixed,
    BulkBehindRival,
    BulkWaitingForRival,
    BulkInTwoStatements,
    BulkInTwoStatementsBehindRival,
    BulkUpserts,
    BulkUpsertsOfReplacements,
    BulkUpsertsBehindRival,
    UpsertById,
    UpsertByFilter,
    UpsertReplacement,
    UpsertOfRemoved,
    UniqueInsertOne,
    UniqueInsertOneRefused,
    UniqueInsertManyRefused,
    UniqueUpdate,
    UniqueUpdateRefused,
    UniqueUpdateOwnRefused,
    UniqueUpsert,
    UniqueUpsertRefused,
    UniqueReplaceRefused,
    UniqueUpdateByKey,
    UniqueFindOneAndUpdateByKey,
    UniqueDeleteByKey,
    UniqueBulkByKey,
    UniqueBulkByKeyBehindRival,
    UniqueBulkOfKeys,
    UniqueBulkOfKeysRefused,
    UniqueBulkOfKeysBehindRival,
    UniqueBulkOfReplacements,
    UniqueBulkUpserts,
    UniqueBulkUpsertsRefused,
    UniqueBulkUpsertsByKey,
    Find,
    FindById,
    FindOwn,
    Count,
    Distinct,
    Aggregate,
    RepeatableFind,
    RepeatableFindById,
    RepeatableCount,
    RepeatableAggregate,
    Commit,
    Rollback,
}

use Operation::*;

impl Operation {
    pub(super) fn is_unique(self) -> bool {
        format!("{self:?}").starts_with("Unique")
    }

    pub(super) fn isolation(self) -> Isolation {
        match format!("{self:?}").starts_with("Repeatable") {
            true => Isolation::RepeatableRead,
            false => Isolation::ReadCommitted,
        }
    }

    /// Returns true if another transaction holds document 2.
    pub(super) fn meets_rival(self) -> bool {
        matches!(
            self,
            UpdateManyBehindRival
                | BulkBehindRival
                | BulkWaitingForRival
                | BulkInTwoStatementsBehindRival
                | BulkUpsertsBehindRival
                | UniqueBulkByKeyBehindRival
                | UniqueBulkOfKeysBehindRival
        )
    }

    pub(super) fn lock_wait(self) -> Duration {
        if self == BulkWaitingForRival { Duration::from_millis(50) } else { Duration::ZERO }
    }

    /// The document that the transaction writes next.
    pub(super) fn next(self) -> i32 {
        match self {
            InsertOne | UpsertById | UniqueInsertOne | UniqueInsertOneRefused => 7,
            InsertMany | InsertManyRefused | UniqueInsertManyRefused => 8,
            BulkUpserts | BulkUpsertsOfReplacements | BulkUpsertsBehindRival => 8,
            UniqueBulkUpserts | UniqueBulkUpsertsRefused => 8,
            _ => 3,
        }
    }

    /// Writes that the transaction has made before, acknowledged; made in `expected`, too.
    pub(super) async fn prepare(
        self,
        coll: &Collection<Document>,
        session: &mut Session,
        expected: &mut Vec<Document>,
    ) -> Result<()> {
        let third = doc! {"_id": 3};
        let is_third = |document: &Document| document.get("_id") == Some(&3.into());
        let set = match self {
            InsertRemovedAgain | UpsertOfRemoved => {
                coll.delete_one(third).session(session).await?;
                expected.retain(|document| !is_third(document));
                return Ok(());
            }
            UpdateOwn => doc! {"n": 2},
            UniqueUpdateOwnRefused => doc! {"k": 33},
            _ => return Ok(()),
        };
        coll.update_one(third, doc! {"$set": set.clone()}).session(session).await?;
        expected.iter_mut().filter(|document| is_third(document)).for_each(|document| document.extend(set.clone()));
        Ok(())
    }

    /// Runs the operation. Its answer does not matter: it is interrupted, or found to be at its
    /// end.
    pub(super) async fn run(self, coll: &Collection<Document>, session: &mut Session) {
        let _ = match self {
            Commit => session.commit().await,
            Rollback => session.rollback().await,
            _ if self.is_unique() => self.meet_unique_index(coll, session).await,
            Find | FindById | FindOwn | Count | Distinct | Aggregate => self.read(coll, session).await,
            RepeatableFind | RepeatableFindById | RepeatableCount | RepeatableAggregate => {
                self.read(coll, session).await
            }
            Bulk | BulkMixed | BulkBehindRival | BulkWaitingForRival => self.write_bulk(coll, session).await,
            BulkInTwoStatements | BulkInTwoStatementsBehindRival => self.write_bulk(coll, session).await,
            BulkUpserts | BulkUpsertsOfReplacements | BulkUpsertsBehindRival => self.upsert_bulk(coll, session).await,
            _ => self.write(coll, session).await,
        };
    }

    async fn write(self, coll: &Collection<Document>, session: &mut Session) -> Result<()> {
        let inc = doc! {"$inc": {"n": 1}};
        let third = doc! {"_id": 3};
        match self {
            InsertOne => coll.insert_one(&doc! {"_id": 7, "n": 1}).session(session).await.map(drop),
            InsertMany => insert(coll, session, &[7, 8, 9]).await,
            InsertManyRefused => insert(coll, session, &[7, 8, 1, 9]).await,
            InsertRemovedAgain => insert(coll, session, &[3]).await,
            UpdateOneByFilter => coll.update_one(doc! {"k": 30}, inc).session(session).await.map(drop),
            UpdateOneInTwoStatements => {
                coll.update_one(third, doc! {"$push": {"list": 1}}).session(session).await.map(drop)
            }
            UpdateMany | UpdateManyBehindRival => {
                coll.update_many(doc! {"_id": {"$lte": 6}}, inc).session(session).await.map(drop)
            }
            ReplaceOne => coll.replace_one(third, &doc! {"n": 9}).session(session).await.map(drop),
            DeleteOne => coll.delete_one(third).session(session).await.map(drop),
            DeleteMany => coll.delete_many(doc! {"_id": {"$lte": 6}}).session(session).await.map(drop),
            FindOneAndUpdate => {
                coll.find_one_and_update(doc! {"n": 1}, inc).sort(doc! {"_id": 1}).session(session).await.map(drop)
            }
            FindOneAndUpdateAfter => {
                let action = coll.find_one_and_update(third, doc! {"$push": {"list": 1}});
                action.return_document(ReturnDocument::After).session(session).await.map(drop)
            }
            FindOneAndReplace => coll.find_one_and_replace(third, &doc! {"n": 9}).session(session).await.map(drop),
            FindOneAndDelete => coll.find_one_and_delete(third).session(session).await.map(drop),
            UpsertById => coll.update_one(doc! {"_id": 7}, inc).upsert(true).session(session).await.map(drop),
            UpsertByFilter => coll.update_one(doc! {"k": 77}, inc).upsert(true).session(session).await.map(drop),
            UpsertReplacement => {
                coll.replace_one(doc! {"k": 77}, &doc! {"k": 77}).upsert(true).session(session).await.map(drop)
            }
            UpsertOfRemoved => coll.update_one(third, inc).upsert(true).session(session).await.map(drop),
            _ => coll.update_one(third, inc).session(session).await.map(drop),
        }
    }

    async fn write_bulk(self, coll: &Collection<Document>, session: &mut Session) -> Result<()> {
        let add = |id: i32| WriteModel::UpdateOne {
            filter: doc! {"_id": id},
            update: doc! {"$inc": {"n": 1}}.into(),
            upsert: false,
        };
        let mixed = [
            WriteModel::InsertOne { document: doc! {"_id": 7} },
            add(3),
            WriteModel::DeleteOne { filter: doc! {"_id": 4} },
            WriteModel::ReplaceOne { filter: doc! {"_id": 5}, replacement: doc! {"n": 5}, upsert: false },
        ];
        let push = |id: i32| WriteModel::UpdateOne {
            filter: doc! {"_id": id},
            update: doc! {"$push": {"list": id}}.into(),
            upsert: false,
        };
        match self {
            BulkInTwoStatements | BulkInTwoStatementsBehindRival => {
                coll.bulk_write([1, 2, 3, 4].map(push)).session(session).await.map(drop)
            }
            BulkMixed => coll.bulk_write(mixed).session(session).await.map(drop),
            _ => coll.bulk_write([1, 2, 3, 4].map(add)).session(session).await.map(drop),
        }
    }

    /// Upserts documents that are there and documents that are not, several of each kind in a row.
    async fn upsert_bulk(self, coll: &Collection<Document>, session: &mut Session) -> Result<()> {
        let is_replacement = self == BulkUpsertsOfReplacements;
        let upsert = |id: i32| match is_replacement {
            true => WriteModel::ReplaceOne { filter: doc! {"_id": id}, replacement: doc! {"n": id}, upsert: true },
            false => {
                WriteModel::UpdateOne { filter: doc! {"_id": id}, update: doc! {"$inc": {"n": 1}}.into(), upsert: true }
            }
        };
        coll.bulk_write([7, 8, 9, 1, 2, 3, 10, 11].map(upsert)).session(session).await.map(drop)
    }

    /// Document `id` has the value `10 * id` of the unique key.
    async fn meet_unique_index(self, coll: &Collection<Document>, session: &mut Session) -> Result<()> {
        let set = |k: i32| doc! {"$set": {"k": k}};
        let third = doc! {"_id": 3};
        match self {
            UniqueInsertOne => coll.insert_one(&doc! {"_id": 7, "k": 70}).session(session).await.map(drop),
            UniqueInsertOneRefused => coll.insert_one(&doc! {"_id": 7, "k": 10}).session(session).await.map(drop),
            UniqueInsertManyRefused => {
                let all = [(7, 70), (9, 20), (8, 80)].map(|(id, k)| doc! {"_id": id, "k": k});
                coll.insert_many(&all).session(session).await.map(drop)
            }
            UniqueUpdate => coll.update_one(third, set(33)).session(session).await.map(drop),
            UniqueUpsert => coll.update_one(doc! {"k": 77}, set(77)).upsert(true).session(session).await.map(drop),
            UniqueUpsertRefused => {
                coll.update_one(doc! {"k": 77}, set(40)).upsert(true).session(session).await.map(drop)
            }
            UniqueReplaceRefused => coll.replace_one(third, &doc! {"k": 40}).session(session).await.map(drop),
            UniqueUpdateByKey => {
                coll.update_one(doc! {"k": 30}, doc! {"$inc": {"n": 1}}).session(session).await.map(drop)
            }
            UniqueFindOneAndUpdateByKey => {
                coll.find_one_and_update(doc! {"k": 30}, doc! {"$inc": {"n": 1}}).session(session).await.map(drop)
            }
            UniqueBulkByKey | UniqueBulkByKeyBehindRival => {
                let add = |id: i32| WriteModel::UpdateOne {
                    filter: doc! {"k": 10 * id},
                    update: doc! {"$inc": {"n": 1}}.into(),
                    upsert: false,
                };
                coll.bulk_write([1, 2, 3, 4].map(add)).session(session).await.map(drop)
            }
            UniqueBulkOfKeys | UniqueBulkOfKeysRefused | UniqueBulkOfKeysBehindRival | UniqueBulkOfReplacements => {
                self.change_keys(coll, session).await
            }
            UniqueBulkUpserts | UniqueBulkUpsertsRefused | UniqueBulkUpsertsByKey => {
                self.upsert_keys(coll, session).await
            }
            UniqueDeleteByKey => coll.delete_one(doc! {"k": 30}).session(session).await.map(drop),
            _ => coll.update_one(third, set(40)).session(session).await.map(drop),
        }
    }

    /// Gives the documents 1 to 4 other keys; of the refused ones, the third gets that of document 6.
    async fn change_keys(self, coll: &Collection<Document>, session: &mut Session) -> Result<()> {
        let key = |id: i32| if self == UniqueBulkOfKeysRefused && id == 3 { 60 } else { 10 * id + 1 };
        let change = |id: i32| match self {
            UniqueBulkOfReplacements => {
                WriteModel::ReplaceOne { filter: doc! {"_id": id}, replacement: doc! {"k": key(id)}, upsert: false }
            }
            _ => {
                let update = doc! {"$set": {"k": key(id)}}.into();
                WriteModel::UpdateOne { filter: doc! {"_id": id}, update, upsert: false }
            }
        };
        coll.bulk_write([1, 2, 3, 4].map(change)).session(session).await.map(drop)
    }

    /// Upserts documents that are not there, and then some that are; of the refused ones, the
    /// second has the key of document 6.
    async fn upsert_keys(self, coll: &Collection<Document>, session: &mut Session) -> Result<()> {
        let upsert = |id: i32| {
            let key = if self == UniqueBulkUpsertsRefused && id == 8 { 60 } else { 10 * id };
            let (filter, update) = match self {
                UniqueBulkUpsertsByKey => (doc! {"k": key}, doc! {"$setOnInsert": {"_id": id}, "$inc": {"n": 1}}),
                _ => (doc! {"_id": id}, doc! {"$setOnInsert": {"k": key}, "$inc": {"n": 1}}),
            };
            WriteModel::UpdateOne { filter, update: update.into(), upsert: true }
        };
        coll.bulk_write([7, 8, 9, 1, 2, 3].map(upsert)).session(session).await.map(drop)
    }

    async fn read(self, coll: &Collection<Document>, session: &mut Session) -> Result<()> {
        let some = doc! {"n": 1};
        match self {
            FindById | RepeatableFindById => coll.find_one(doc! {"_id": 3}).session(session).await.map(drop),
            FindOwn => coll.find_one(doc! {"_id": super::FIRST}).session(session).await.map(drop),
            Count | RepeatableCount => coll.count_documents(some).session(session).await.map(drop),
            Distinct => coll.distinct("k", some).session(session).await.map(drop),
            Aggregate | RepeatableAggregate => {
                let pipeline = [doc! {"$match": some}, doc! {"$group": {"_id": 1, "sum": {"$sum": "$n"}}}];
                coll.aggregate(pipeline).session(session).await?.try_collect().await.map(drop)
            }
            _ => coll.find(some).session(session).await?.try_collect().await.map(drop),
        }
    }
}

/// Inserts documents with these `_id`s.
async fn insert(coll: &Collection<Document>, session: &mut Session, ids: &[i32]) -> Result<()> {
    let all: Vec<Document> = ids.iter().map(|id| doc! {"_id": *id, "n": 1}).collect();
    coll.insert_many(&all).session(session).await.map(drop)
}
