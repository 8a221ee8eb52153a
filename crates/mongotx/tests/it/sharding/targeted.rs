//! Every command about a known document carries the shard key, whichever part of the library sends
//! it.

use std::time::Duration;

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, Isolation, Outcome, Session, Step, TransactionOptions, WriteModel};

use crate::sharding::{
    place::{Gate, LIMIT, Place, at, begin, document, one},
    wire::Wire,
};

/// Writes in every way there is. Where a filter names no key, the library reads it.
async fn write_everything(place: &Place, client: &Client, session: &mut Session) {
    let coll = place.collection(client);
    let plus = doc! {"$inc": {"n": 1}};
    coll.insert_one(&document(10, 1, 7)).session(session).await.unwrap();
    coll.insert_many([&document(11, 1, 7), &document(12, 2, 8)]).session(session).await.unwrap();
    coll.update_one(doc! {"_id": 1}, plus.clone()).session(session).await.unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$push": {"list": 1}}).session(session).await.unwrap();
    coll.update_one(one(2, 2, 7), plus.clone()).session(session).await.unwrap();
    coll.update_many(doc! {"tag": {"$in": [2, 3, 4, 10]}}, plus.clone()).session(session).await.unwrap();
    let mut changed = document(3, 0, 7);
    changed.insert("n", 30);
    coll.replace_one(doc! {"_id": 3}, &changed).session(session).await.unwrap();
    coll.delete_one(doc! {"_id": 5}).session(session).await.unwrap();
    coll.insert_one(&document(5, 2, 7)).session(session).await.unwrap();
    coll.delete_many(doc! {"tag": {"$in": [6, 11, 12]}}).session(session).await.unwrap();
    coll.find_one_and_update(doc! {"_id": 4}, plus.clone()).session(session).await.unwrap();
    let upsert = coll.update_one(one(20, 4, 9), plus.clone()).upsert(true).session(session).await.unwrap();
    assert!(upsert.upserted_id.is_some());
    let stages = vec![doc! {"$set": {"n": {"$add": ["$region", 1]}}}];
    coll.update_one(one(21, 4, 9), stages).upsert(true).session(session).await.unwrap();
    coll.replace_one(one(22, 4, 9), &document(22, 4, 9)).upsert(true).session(session).await.unwrap();
    // The `_id` of a document that the transaction has removed.
    coll.delete_one(doc! {"_id": 20}).session(session).await.unwrap();
    coll.update_one(one(20, 4, 9), doc! {"$set": {"n": 8}}).upsert(true).session(session).await.unwrap();
    let bulk = [WriteModel::DeleteOne { filter: doc! {"_id": 22} }];
    coll.bulk_write(bulk).session(session).await.unwrap();
}

fn written() -> Vec<(i32, i32)> {
    vec![(1, 1), (2, 2), (3, 30), (4, 2), (5, 0), (10, 1), (20, 8), (21, 5)]
}

fn untouched() -> Vec<(i32, i32)> {
    (1..=6).map(|id| (id, 0)).collect()
}

#[tokio::test]
async fn transaction_that_commits_is_targeted() {
    let place = Place::new("shard_commit").await;
    let client = place.client().await;
    let wire = Wire::tap(&place.db).await;
    let mut session = begin(&client);
    write_everything(&place, &client, &mut session).await;
    session.commit().await.unwrap();
    assert!(client.flush(LIMIT).await);
    let counts = wire.targeted().await;
    assert!(counts["update _xTxId"] >= 20 && counts["remove _xTxId"] >= 1, "{counts:?}");
    assert_eq!(place.clean().await, written());
}

#[tokio::test]
async fn transaction_that_is_rolled_back_is_targeted() {
    let place = Place::new("shard_back").await;
    let client = place.client().await;
    let mut session = begin(&client);
    write_everything(&place, &client, &mut session).await;
    let wire = Wire::tap(&place.db).await;
    session.rollback().await.unwrap();
    assert!(client.flush(LIMIT).await);
    let counts = wire.targeted().await;
    assert_eq!((counts["update _xTxId"], counts["remove _xTxId"]), (1, 1), "{counts:?}");
    assert_eq!(place.clean().await, untouched());
}

#[tokio::test]
async fn pending_insert_has_the_key_and_nothing_else_beside_its_id() {
    let place = Place::new("shard_insert").await;
    let client = place.client().await;
    let mut session = begin(&client);
    let coll = place.collection(&client);
    coll.insert_one(&document(10, 1, 7)).session(&mut session).await.unwrap();
    coll.insert_one(&doc! {"_id": 11, "n": 1}).session(&mut session).await.unwrap();
    coll.update_one(one(12, 3, 5), doc! {"$set": {"n": 1}}).upsert(true).session(&mut session).await.unwrap();
    for (id, safe) in [
        (10, doc! {"_id": 10, "region": 1, "owner": {"id": 7}}),
        (11, doc! {"_id": 11}),
        (12, doc! {"_id": 12, "region": 3, "owner": {"id": 5}}),
    ] {
        let mut stored = place.stored_one(id).await.unwrap();
        stored = stored.into_iter().filter(|(field, _)| field == "_id" || !field.starts_with('_')).collect();
        assert_eq!(stored, safe);
    }
    session.commit().await.unwrap();
    assert!(client.flush(LIMIT).await);
    assert_eq!(place.stored_one(10).await, Some(document(10, 1, 7)));
    let upserted = doc! {"_id": 12, "owner": {"id": 5}, "region": 3, "n": 1};
    let stored = place.stored_one(12).await.unwrap();
    assert!(upserted.iter().all(|(field, value)| stored.get(field) == Some(value)) && stored.len() == 4, "{stored}");
}

fn begin_repeatable(client: &Client) -> Session {
    let mut session = client.session();
    let options = TransactionOptions { isolation: Some(Isolation::RepeatableRead), ..TransactionOptions::default() };
    session.begin_with(options).unwrap();
    session
}

#[tokio::test]
async fn read_locks_are_targeted() {
    let place = Place::new("shard_read").await;
    let client = place.client().await;
    let wire = Wire::tap(&place.db).await;
    let mut session = begin_repeatable(&client);
    let coll = place.collection(&client);
    for _ in 0..2 {
        coll.find_one(one(1, 1, 7)).session(&mut session).await.unwrap().unwrap();
        let found = coll.find(doc! {"n": 0}).session(&mut session).await.unwrap();
        assert_eq!(found.try_collect().await.unwrap().len(), 6);
    }
    coll.update_one(one(2, 2, 7), doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    assert!(client.flush(LIMIT).await);
    let counts = wire.targeted().await;
    assert!(counts["update _xTxId _sTxIds"] + counts["update _sTxIds"] >= 2, "{counts:?}");
    assert_eq!(place.clean().await[1], (2, 1));
}

/// Committed, and held before anything is finished.
async fn unfinished(place: &Place) -> (Client, std::sync::Arc<Gate>) {
    let gate = Gate::before(Step::BeforeFinish);
    let client = place.client_with(ClientOptions { hook: Some(gate.clone()), ..place.options() }).await;
    let mut session = begin(&client);
    write_everything(place, &client, &mut session).await;
    session.commit().await.unwrap();
    (client, gate)
}

#[tokio::test]
async fn repairs_by_whoever_meets_a_lock_are_targeted() {
    let place = Place::new("shard_met").await;
    let (owner, gate) = unfinished(&place).await;
    let rival = place.client().await;
    let coll = place.collection(&rival);
    let wire = Wire::tap(&place.db).await;
    // Met by a read, by writes inside and outside a transaction, and by inserts with the same
    // `_id`.
    let filter = Document::from_iter(one(1, 1, 7).into_iter().chain(doc! {"n": {"$gte": 0}}));
    assert_eq!(coll.find_one(filter).await.unwrap().unwrap().get_i32("n").unwrap(), 1);
    let mut session = begin(&rival);
    for filter in [doc! {"_id": 2}, one(3, 0, 7), doc! {"n": 2, "tag": 4}] {
        let done = coll.update_one(filter, doc! {"$inc": {"n": 100}}).session(&mut session).await.unwrap();
        assert_eq!(done.matched_count, 1);
    }
    coll.insert_one(&document(6, 0, 7)).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    coll.update_one(one(5, 2, 7), doc! {"$inc": {"n": 100}}).await.unwrap();
    assert!(coll.insert_one(&document(10, 1, 7)).await.unwrap_err().code() == Some(11000));
    assert!(coll.insert_one(&document(21, 5, 5)).await.unwrap_err().code() == Some(11000));
    coll.insert_one(&document(22, 4, 9)).await.unwrap();
    coll.delete_one(one(20, 4, 9)).await.unwrap();
    assert!(rival.flush(LIMIT).await);
    gate.open();
    assert!(owner.flush(LIMIT).await);
    let counts = wire.targeted().await;
    assert!(counts["update _xTxId"] >= 8, "{counts:?}");
    let left = vec![(1, 1), (2, 102), (3, 130), (4, 102), (5, 100), (6, 0), (10, 1), (21, 5), (22, 0)];
    assert_eq!(place.clean().await, left);
}

/// A client that dies: its runtime ends under it, and with it its signs of life.
async fn die(place: &Place, commits: bool) {
    let gate = Gate::before(Step::BeforeFinish);
    let lease = Duration::from_millis(300);
    let options = ClientOptions { hook: Some(gate), lease, ..place.options() };
    let place = Place::clone_of(place);
    let life = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let client = place.client_with(options).await;
            let mut session = begin_repeatable(&client);
            let found = place.collection(&client).find(doc! {"n": 0}).session(&mut session).await.unwrap();
            assert_eq!(found.try_collect().await.unwrap().len(), 6);
            write_everything(&place, &client, &mut session).await;
            if commits {
                session.commit().await.unwrap();
            }
            // Dropped, it would be rolled back.
            std::mem::forget(session);
        });
        runtime.shutdown_background();
    });
    tokio::task::spawn_blocking(|| life.join().unwrap()).await.unwrap();
}

async fn is_swept(name: &str, commits: bool, left: Vec<(i32, i32)>) {
    let place = Place::new(name).await;
    die(&place, commits).await;
    let sweeper = place.client().await;
    let wire = Wire::tap(&place.db).await;
    let mut swept = sweeper.sweep().await.unwrap();
    let until = std::time::Instant::now() + LIMIT;
    while swept.repaired == 0 && std::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(50)).await;
        swept = sweeper.sweep().await.unwrap();
    }
    let counts = wire.targeted().await;
    assert!(counts["update _xTxId"] + counts["remove _xTxId"] >= 8, "{counts:?}");
    assert!(commits || counts["update _sTxIds"] >= 1, "{counts:?}");
    assert_eq!(place.clean().await, left);
}

#[tokio::test]
async fn sweeps_after_a_commit_are_targeted() {
    is_swept("shard_swept", true, written()).await;
}

#[tokio::test]
async fn sweeps_of_what_was_undecided_are_targeted() {
    is_swept("shard_swept_back", false, untouched()).await;
}

#[tokio::test]
async fn aborting_is_targeted() {
    let place = Place::new("shard_abort").await;
    let (client, rival) = (place.client().await, place.client().await);
    let mut session = begin(&client);
    write_everything(&place, &client, &mut session).await;
    let wire = Wire::tap(&place.db).await;
    assert_eq!(rival.abort(session.id().unwrap()).await.unwrap(), Outcome::RolledBack);
    let counts = wire.targeted().await;
    assert!(counts["update _xTxId"] >= 5 && counts["remove _xTxId"] >= 3, "{counts:?}");
    assert_eq!(place.clean().await, untouched());
    assert!(session.commit().await.is_err());
}

#[tokio::test]
async fn query_by_the_key_alone_finds_what_a_transaction_has_written() {
    let place = Place::new("shard_query").await;
    let client = place.client().await;
    let mut session = begin(&client);
    write_everything(&place, &client, &mut session).await;
    let coll = place.collection(&client);
    assert_eq!(coll.count_documents(at(4, 9)).session(&mut session).await.unwrap(), 2);
    assert_eq!(coll.count_documents(at(4, 9)).await.unwrap(), 0);
    assert_eq!(coll.find(at(1, 7)).await.unwrap().try_collect().await.unwrap().len(), 2);
    session.rollback().await.unwrap();
}
