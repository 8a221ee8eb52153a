//! Filters that answer otherwise each time they are asked.

use std::time::Duration;

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, Isolation, Session, TransactionOptions, WriteModel};

use crate::quiet;

/// The look at pending documents asks it, and so does the read.
#[tokio::test]
async fn what_a_sample_shows_is_committed() {
    let writer = quiet::connect(ClientOptions { finish_delay: Duration::from_secs(10), ..quiet::options() }).await;
    let reader = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&writer, 1).await;
    let read = quiet::through(&reader, &coll);
    for n in 2..42 {
        coll.update_many(doc! {"_id": 1}, doc! {"$set": {"n": n}}).await.unwrap();
        let shown = read.find_one(doc! {"$sampleRate": 0.5}).await.unwrap();
        assert!(shown.is_none_or(|shown| shown == doc! {"_id": 1, "n": n}), "at {n}");
    }
}

fn begun(client: &Client, isolation: Isolation) -> Session {
    let options = TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    session.begin().unwrap();
    session
}

fn sampled() -> Document {
    doc! {"$expr": {"$lt": [{"$rand": {}}, 0.5]}, "$and": [{"$sampleRate": 0.9999}]}
}

fn push() -> Document {
    doc! {"$push": {"a": 1}}
}

/// A write by `_id` is two statements in a transaction: what locks and what changes.
#[tokio::test]
async fn a_write_changes_what_it_says_by_one_draw() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 40).await;
    let mut tx = begun(&client, Isolation::ReadCommitted);
    let (mut modified, mut shown) = (0, 0);
    for id in 1..=20 {
        let filter = doc! {"_id": id, "$sampleRate": 0.5};
        let done = coll.update_one(filter, push()).session(&mut tx).await.unwrap();
        assert_eq!(done.matched_count, done.modified_count);
        modified += done.modified_count;
    }
    for id in 21..=40 {
        let filter = doc! {"_id": id, "$sampleRate": 0.5};
        shown += u64::from(coll.find_one_and_update(filter, push()).session(&mut tx).await.unwrap().is_some());
    }
    tx.commit().await.unwrap();
    assert_eq!(coll.count_documents(doc! {"a": [1]}).await.unwrap(), modified + shown);
}

#[tokio::test]
async fn writes_of_many_take_the_sample_that_one_draw_takes() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let client = quiet::connect(quiet::options()).await;
        let coll = quiet::collection(&client, 200).await;
        let mut tx = begun(&client, isolation);
        // Of what the transaction has changed itself a sample is smaller: both are of others.
        let removed = quiet::collection(&client, 200).await;
        let changed = coll.update_many(sampled(), push()).session(&mut tx).await.unwrap().modified_count;
        let deleted = removed.delete_many(sampled()).session(&mut tx).await.unwrap();
        let left = removed.count_documents(doc! {}).session(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        // Chance takes fewer than 60 of 200 once in a hundred million times; three draws take 25.
        assert!((60..=140).contains(&changed) && (60..=140).contains(&deleted), "{changed}, {deleted}");
        assert_eq!(coll.count_documents(doc! {"a": [1]}).await.unwrap(), changed);
        assert_eq!((left, removed.count_documents(doc! {}).await.unwrap()), (200 - deleted, 200 - deleted));
    }
}

#[tokio::test]
async fn writes_of_a_bulk_are_drawn_one_by_one() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 40).await;
    let filter = |id: i32| doc! {"_id": id, "$sampleRate": 0.5};
    let write = |id: i32| WriteModel::UpdateOne { filter: filter(id), update: push().into(), upsert: false };
    let mut tx = begun(&client, Isolation::ReadCommitted);
    let done = coll.bulk_write((1..=40).map(write)).session(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(done.matched_count, done.modified_count);
    assert_eq!(coll.count_documents(doc! {"a": [1]}).await.unwrap(), done.modified_count);
}

/// What was drawn, and what was not, is not asked again by chance at the commit: other documents
/// may change.
#[tokio::test]
async fn single_writes_by_chance_are_validated_by_what_chance_was_asked_of() {
    let (client, rival) = (quiet::connect(quiet::options()).await, quiet::connect(quiet::options()).await);
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let coll = quiet::collection(&client, 30).await;
        let others = quiet::through(&rival, &coll);
        let mut tx = begun(&client, isolation);
        let (mut modified, mut shown) = (0, 0);
        for id in 1..=10 {
            let filter = doc! {"_id": id, "$sampleRate": 0.5};
            modified += coll.update_one(filter, push()).session(&mut tx).await.unwrap().modified_count;
        }
        for id in 11..=20 {
            let filter = doc! {"_id": id, "$sampleRate": 0.5};
            shown += u64::from(coll.find_one_and_update(filter, push()).session(&mut tx).await.unwrap().is_some());
        }
        others.update_many(doc! {"_id": {"$gt": 20}}, doc! {"$inc": {"n": 1}}).await.unwrap();
        others.update_one(doc! {"_id": 30}, doc! {"$inc": {"n": 1}}).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(coll.count_documents(doc! {"a": [1]}).await.unwrap(), modified + shown, "{isolation:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_drawn_once_is_refused_and_the_transaction_goes_on() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 2).await;
    let mut tx = begun(&client, Isolation::ReadCommitted);
    let either = doc! {"$or": [{"$sampleRate": 0.5}, {"n": 1}]};
    let refused = coll.update_many(either, push()).session(&mut tx).await.unwrap_err();
    assert!(refused.to_string().contains("$rand or $sampleRate within $or"), "{refused}");
    let upsert = coll.update_one(doc! {"n": 9, "$sampleRate": 0.5}, push()).upsert(true).session(&mut tx).await;
    assert!(upsert.unwrap_err().to_string().contains("an upsert in a transaction cannot have $rand"));
    coll.update_one(doc! {"_id": 1}, push()).session(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(coll.count_documents(doc! {"a": [1]}).await.unwrap(), 1);
}
