//! Changes of the same client to fields that nothing was read of (decision 0069).

use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

use bson::{Document, doc};
use mongotx::{IndexModel, Isolation, Session, WriteModel};

use super::{ASKED, CONFLICT, Stage, begun, commit_change, connect};
use crate::quiet;

/// Reads of `k` alone rest on `k`, and on the fields of indexes.
#[tokio::test]
async fn decisions_about_other_fields_are_no_matter() {
    let stage = Stage::start().await;
    let change = async |update: Document| {
        let mut session = begun(&stage.client, Isolation::ReadCommitted);
        for id in [1, 3] {
            stage.coll.update_one(doc! {"_id": id}, update.clone()).session(&mut session).await.unwrap();
        }
        session.commit().await.unwrap();
    };
    stage.unasked_beside(async || change(doc! {"$inc": {"n": 1}}).await).await;
    let session = stage.reading().await;
    change(doc! {"$inc": {"n": 1}}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "it has read whole documents");
    let session = stage.reading_keys(None).await;
    change(doc! {"$set": {"n": 0, "k": 5}}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "what was read");
    change(doc! {"$set": {"k": 3}}).await;
    stage.always_asked_beside(async || change(doc! {"$rename": {"n": "m"}, "$set": {"k": 3}}).await).await;
    stage.always_asked_beside(async || change(doc! {"$set": {"m": 1, "k": 3}}).await).await;

    stage.coll.create_index(IndexModel::new(doc! {"k": 1, "n": 1})).await.unwrap();
    stage.always_asked_beside(async || change(doc! {"$inc": {"n": 1}}).await).await;
}

/// Updates of many, of a bulk, and those that show the document name the fields that they change.
#[tokio::test]
async fn each_statement_says_which_fields_it_changes() {
    let stage = Stage::start().await;
    let (coll, add) = (&stage.coll, doc! {"$inc": {"n": 1}});
    let of_many = async |session: &mut Session| {
        coll.update_many(doc! {"_id": {"$lte": 3}}, add.clone()).session(session).await.unwrap();
    };
    let shown = async |session: &mut Session| {
        for id in [1, 3] {
            // The long way: it locks first, and shows the document as it was.
            let update = doc! {"$push": {"list": 1}, "$inc": {"n": 1}};
            assert!(coll.find_one_and_update(doc! {"_id": id}, update).session(&mut *session).await.unwrap().is_some());
        }
    };
    let of_bulk = async |session: &mut Session| {
        let one =
            |id: i32| WriteModel::UpdateOne { filter: doc! {"_id": id}, update: add.clone().into(), upsert: false };
        coll.bulk_write(vec![one(1), one(3)]).session(session).await.unwrap();
    };
    for _ in 0..3 {
        stage.unasked_beside(async || stage.decide(of_many).await).await;
        stage.unasked_beside(async || stage.decide(shown).await).await;
        stage.unasked_beside(async || stage.decide(of_bulk).await).await;
    }
}

/// The index decides which documents a scan may miss.
#[tokio::test]
async fn an_index_that_another_client_makes_is_seen() {
    let stage = Stage::start().await;
    let other = connect(&stage.server).await;
    stage.until_unasked(async || stage.reading_keys(None).await).await;
    let session = stage.reading_keys(None).await;
    quiet::through(&other, &stage.coll).create_index(IndexModel::new(doc! {"k": 1, "n": 1})).await.unwrap();
    assert_eq!(stage.commit(session).await, ASKED);
    stage.always_asked(async || stage.reading_keys(None).await).await;
}

/// Inserts and removals, and changes that do not name their fields, have to do with all fields.
#[tokio::test]
async fn decisions_that_are_not_about_fields_are_asked_for() {
    let stage = Stage::start().await;
    let coll = &stage.coll;
    stage.until_unasked(async || stage.reading_keys(None).await).await;
    let replace = async |session: &mut Session| {
        coll.replace_one(doc! {"_id": 1}, &doc! {"k": 1, "n": 7}).session(session).await.unwrap();
    };
    stage.always_asked_beside(async || stage.decide(replace).await).await;
    let run_stages = async |session: &mut Session| {
        coll.update_one(doc! {"_id": 1}, vec![doc! {"$set": {"n": 8}}]).session(session).await.unwrap();
    };
    stage.always_asked_beside(async || stage.decide(run_stages).await).await;
    // After an update of another field.
    let id = AtomicI32::new(1_000);
    let update_and_insert = async |session: &mut Session| {
        coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut *session).await.unwrap();
        let document = doc! {"_id": id.fetch_add(1, SeqCst), "k": 1_000};
        coll.insert_one(&document).session(session).await.unwrap();
    };
    stage.always_asked_beside(async || stage.decide(update_and_insert).await).await;

    let session = stage.reading_keys(None).await;
    stage
        .decide(async |session: &mut Session| {
            assert_eq!(coll.delete_one(doc! {"k": 4}).session(session).await.unwrap(), 1);
        })
        .await;
    assert_eq!(stage.commit(session).await, CONFLICT, "a deletion");
    let session = stage.reading_keys(None).await;
    stage
        .decide(async |session: &mut Session| {
            let update = doc! {"$set": {"n": 1}, "$setOnInsert": {"k": 99}};
            let made = coll.update_one(doc! {"_id": 99}, update).upsert(true).session(session).await.unwrap();
            assert!(made.upserted_id.is_some());
        })
        .await;
    assert_eq!(stage.commit(session).await, CONFLICT, "an upsert");
}

/// The set of matching documents may depend on any field.
#[tokio::test]
async fn counts_by_chance_rest_on_whole_documents() {
    let stage = Stage::start().await;
    let by_chance = doc! {"n": 0, "$expr": {"$lt": [{"$rand": {}}, 2]}};
    let mut session = begun(&stage.client, Isolation::Snapshot);
    assert_eq!(stage.coll.count_documents(by_chance).session(&mut session).await.unwrap(), 20);
    commit_change(&stage.client, &stage.coll, &[1]).await;
    assert_eq!(stage.commit(session).await, CONFLICT);
}

/// The first documents of an answer depend on the way in which the server finds them, and the query
/// does not say that there are no more.
#[tokio::test]
async fn answers_that_are_cut_off_rest_on_all_fields() {
    let stage = Stage::start().await;
    for limit in [1, 3] {
        let reading = async || stage.reading_keys(Some(limit)).await;
        stage.until_unasked(reading).await;
        for _ in 0..3 {
            let session = reading().await;
            commit_change(&stage.client, &stage.coll, &[1, 3]).await;
            assert_eq!(stage.commit(session).await, ASKED);
        }
    }
}

impl Stage {
    /// A transaction that has read `k` of the document 1, and of the first few with some keys, or
    /// of all.
    async fn reading_keys(&self, limit: Option<u64>) -> Session {
        let mut session = begun(&self.client, Isolation::Snapshot);
        let key = doc! {"k": 1};
        let one = self.coll.find_one(doc! {"_id": 1}).projection(key.clone()).session(&mut session).await.unwrap();
        assert!(one.is_some());
        let some = self.coll.find(doc! {"k": {"$in": [3, 4, 99]}}).projection(key).limit(limit.unwrap_or(0));
        some.session(&mut session).await.unwrap().try_collect().await.unwrap();
        session
    }

    /// Commits a transaction of the same client that runs this.
    async fn decide(&self, run: impl AsyncFnOnce(&mut Session)) {
        let mut session = begun(&self.client, Isolation::ReadCommitted);
        run(&mut session).await;
        session.commit().await.unwrap();
    }

    /// Such a transaction is committed beside a change, and has read nothing again.
    async fn unasked_beside(&self, change: impl AsyncFn()) {
        let transaction = async || {
            let session = self.reading_keys(None).await;
            change().await;
            session
        };
        self.until_unasked(transaction).await;
    }

    /// Such transactions are committed, beside a change that leaves what they have read as it is,
    /// and each has read again.
    async fn always_asked_beside(&self, change: impl AsyncFn()) {
        for _ in 0..3 {
            let session = self.reading_keys(None).await;
            change().await;
            assert_eq!(self.commit(session).await, ASKED);
        }
    }
}
