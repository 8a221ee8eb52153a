//! Upserts that lose a race to another one: they match again and update, as the server's own do. A
//! real duplicate stays one.

use std::{future::Future, time::Duration};

use bson::{Document, doc};
use futures_util::future::join_all;
use mongotx::{ClientOptions, Collection, ErrorKind, IndexModel, Result, ReturnDocument, Session, Step};

use crate::{
    common::hooks::Gate,
    quiet::{collection, connect, options, through},
};

/// A collection with a unique index on `k`, and a client that stops before it locks for the nth
/// time.
async fn scene(nth: usize) -> (Gate, Session, Collection<Document>, Collection<Document>) {
    let (gate, hook) = Gate::at(Step::BeforeLock, nth, false);
    let upserter = connect(ClientOptions { hook: Some(hook), ..options() }).await;
    let rival = connect(options()).await;
    let rivals = collection(&rival, 0).await;
    rivals.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    let mut session = upserter.session();
    session.begin().unwrap();
    (gate, session, through(&upserter, &rivals), rivals)
}

/// Runs `upsert`, and `{_id: 1, k: 1, n: 10}` is inserted when it stands before the gate.
async fn overtaken<T>(gate: &Gate, rivals: &Collection<Document>, upsert: impl Future<Output = Result<T>>) -> T {
    let rival = async {
        gate.reached().await;
        rivals.insert_one(&doc! {"_id": 1, "k": 1, "n": 10}).await.unwrap();
        gate.open();
    };
    tokio::join!(upsert, rival).0.unwrap()
}

async fn n_of_all(coll: &Collection<Document>) -> Vec<i32> {
    let all = coll.find(doc! {}).await.unwrap().try_collect().await.unwrap();
    all.iter().map(|document| document.get_i32("n").unwrap()).collect()
}

fn add() -> Document {
    doc! {"$inc": {"n": 1}}
}

#[tokio::test]
async fn an_upsert_in_a_transaction_updates_what_a_rival_has_just_inserted() {
    let (gate, mut session, coll, rivals) = scene(1).await;
    let upsert = async { coll.update_one(doc! {"k": 1}, add()).upsert(true).session(&mut session).await };
    let done = overtaken(&gate, &rivals, upsert).await;
    assert_eq!((done.matched_count, done.modified_count, done.upserted_id), (1, 1, None));
    session.commit().await.unwrap();
    assert_eq!(n_of_all(&rivals).await, [11]);
}

#[tokio::test]
async fn an_upsert_of_an_id_in_a_transaction_updates_what_a_rival_has_just_inserted() {
    // The first two prepared writes look for the document.
    let (gate, mut session, coll, rivals) = scene(3).await;
    let upsert = async { coll.update_one(doc! {"_id": 1}, add()).upsert(true).session(&mut session).await };
    assert_eq!(overtaken(&gate, &rivals, upsert).await.matched_count, 1);
    session.commit().await.unwrap();
    assert_eq!(n_of_all(&rivals).await, [11]);
}

#[tokio::test]
async fn a_replacing_upsert_replaces_what_a_rival_has_just_inserted() {
    let (gate, mut session, coll, rivals) = scene(1).await;
    let replacement = doc! {"k": 1, "n": 5};
    let upsert = async { coll.replace_one(doc! {"k": 1}, &replacement).upsert(true).session(&mut session).await };
    assert_eq!(overtaken(&gate, &rivals, upsert).await.matched_count, 1);
    session.commit().await.unwrap();
    assert_eq!(n_of_all(&rivals).await, [5]);
}

#[tokio::test]
async fn an_upsert_by_find_and_modify_changes_what_a_rival_has_just_inserted() {
    let (gate, mut session, coll, rivals) = scene(1).await;
    let upsert = async {
        let ask = coll.find_one_and_update(doc! {"k": 1}, add()).upsert(true).return_document(ReturnDocument::After);
        ask.session(&mut session).await
    };
    assert_eq!(overtaken(&gate, &rivals, upsert).await, Some(doc! {"_id": 1, "k": 1, "n": 11}));
    session.commit().await.unwrap();
    assert_eq!(n_of_all(&rivals).await, [11]);
}

#[tokio::test]
async fn an_upsert_of_many_updates_what_a_rival_has_just_inserted() {
    let (gate, mut session, coll, rivals) = scene(1).await;
    let upsert = async { coll.update_many(doc! {"k": 1}, add()).upsert(true).session(&mut session).await };
    assert_eq!(overtaken(&gate, &rivals, upsert).await.matched_count, 1);
    session.commit().await.unwrap();
    assert_eq!(n_of_all(&rivals).await, [11]);
}

#[tokio::test]
async fn a_real_duplicate_stays_one_and_the_transaction_goes_on() {
    let (gate, mut session, coll, rivals) = scene(1).await;
    gate.open();
    rivals.insert_one(&doc! {"_id": 1, "k": 1, "n": 10}).await.unwrap();
    let filter = || doc! {"k": 1, "n": 3};
    let refused = coll.update_one(filter(), doc! {"$set": {"m": 1}}).upsert(true).session(&mut session).await;
    let refused = refused.unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::Invalid, Some(11000)), "{refused}");
    assert!(refused.labels().is_empty(), "{refused}");
    let set = doc! {"$set": {"m": 1}};
    let refused = coll.find_one_and_update(filter(), set).upsert(true).session(&mut session).await.unwrap_err();
    assert_eq!(refused.code(), Some(11000), "{refused}");
    coll.update_one(doc! {"k": 2}, add()).upsert(true).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    assert_eq!(n_of_all(&rivals).await, [10, 1]);
    let refused = rivals.update_one(filter(), add()).upsert(true).await.unwrap_err();
    assert_eq!(refused.code(), Some(11000), "{refused}");
}

/// The server's guarantee for single statements: every one is carried out, on one document.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upserts_of_one_unique_value_at_once_all_succeed() {
    const CLIENTS: usize = 12;
    let first = connect(options()).await;
    let coll = collection(&first, 0).await;
    coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    let mut all = Vec::new();
    for _ in 0..CLIENTS {
        let patient = ClientOptions { write_wait: Duration::from_secs(120), ..options() };
        all.push(through(&connect(patient).await, &coll));
    }
    for k in 0..3 {
        let each = all.iter().enumerate().map(|(nth, coll)| async move {
            match nth % 3 {
                0 => coll.update_one(doc! {"k": k}, add()).upsert(true).await.map(drop),
                1 => coll.find_one_and_update(doc! {"k": {"$eq": k}}, add()).upsert(true).await.map(drop),
                _ => coll.update_one(doc! {"_id": format!("id {k}")}, add()).upsert(true).await.map(drop),
            }
        });
        for done in join_all(each).await {
            done.unwrap();
        }
        let n = async |filter| coll.find_one(filter).await.unwrap().unwrap().get_i32("n").unwrap();
        assert_eq!(n(doc! {"k": k}).await, 8);
        assert_eq!(n(doc! {"_id": format!("id {k}")}).await, 4);
        coll.delete_one(doc! {"_id": format!("id {k}")}).await.unwrap();
    }
}

/// At each moment one document matches, and another one as soon as a rival commits.
#[tokio::test]
async fn an_update_of_many_does_not_insert_beside_a_document_that_comes_to_match() {
    let rival = connect(options()).await;
    let rivals = collection(&rival, 0).await;
    rivals.insert_many(&[doc! {"_id": 1, "k": 1}, doc! {"_id": 2, "k": 2}]).await.unwrap();
    let mut session = rival.session();
    session.begin().unwrap();
    for (id, k) in [(1, 2), (2, 1)] {
        rivals.update_one(doc! {"_id": id}, doc! {"$set": {"k": k}}).session(&mut session).await.unwrap();
    }
    let client = connect(options()).await;
    let coll = through(&client, &rivals);
    let before = client.metrics().commands_sent();
    let update = coll.update_many(doc! {"k": 1}, doc! {"$push": {"log": 1}}).upsert(true);
    let commit = async {
        // It has selected the document, and asks again and again whether the rival is decided.
        while client.metrics().commands_sent() < before + 20 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        session.commit().await.unwrap();
    };
    let (done, ()) = tokio::join!(update.into_future(), commit);
    let done = done.unwrap();
    assert_eq!((done.matched_count, done.upserted_id), (1, None));
    let all = rivals.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    assert_eq!(all, [doc! {"_id": 1, "k": 2}, doc! {"_id": 2, "k": 1, "log": [1]}]);
}
