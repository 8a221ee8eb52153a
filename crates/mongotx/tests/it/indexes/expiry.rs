//! TTL indexes: the server removes a document only when no transaction holds it.
//! `outlived.rs` has the race of the two.

use std::time::Duration;

use bson::{DateTime, doc};
use mongotx::IndexModel;

use crate::indexes::Place;

/// A server that looks for expired documents every second.
async fn eager() -> (local_mongod::Server, Place) {
    let server = local_mongod::ServerOptions::standalone()
        .arg("--setParameter")
        .arg("ttlMonitorSleepSecs=1")
        .start()
        .await
        .unwrap();
    let client = mongotx::Client::connect_with(&server.uri(), crate::quiet::at_read_committed()).await.unwrap();
    let db = server.client().await.unwrap().database("expiry");
    let coll = client.database("expiry").collection("c");
    let plain = db.collection("c");
    (server, Place { client, coll, plain, db })
}

#[tokio::test]
async fn expired_document_that_a_transaction_holds_is_not_removed() {
    let (_server, place) = eager().await;
    place.coll.create_index(IndexModel::new(doc! {"at": 1}).expire_after(Duration::ZERO)).await.unwrap();
    let later = DateTime::from_millis(DateTime::now().timestamp_millis() + 3_600_000);
    place.coll.insert_one(&doc! {"_id": "held", "at": later}).await.unwrap();
    place.coll.insert_one(&doc! {"_id": "read", "at": later}).await.unwrap();
    let mut session = place.client.session();
    let options =
        mongotx::TransactionOptions { isolation: Some(mongotx::Isolation::RepeatableRead), ..Default::default() };
    session.begin_with(options).unwrap();
    place.coll.update_one(doc! {"_id": "held"}, doc! {"$set": {"n": 1}}).session(&mut session).await.unwrap();
    place.coll.find_one(doc! {"_id": "read"}).session(&mut session).await.unwrap();
    // Both expire while they are held; a third one, which is free, shows when the server has
    // looked.
    let past = DateTime::from_millis(0);
    place.plain.update_many(doc! {}, doc! {"$set": {"at": past}}).await.unwrap();
    place.plain.insert_one(doc! {"_id": "free", "at": past}).await.unwrap();
    let gone = async |id: &str| place.plain.find_one(doc! {"_id": id}).await.unwrap().is_none();
    for id in ["free", "free again"] {
        place.plain.update_one(doc! {"_id": id}, doc! {"$set": {"at": past}}).upsert(true).await.unwrap();
        until(async || gone(id).await).await;
    }
    assert!(!gone("held").await && !gone("read").await);
    session.commit().await.unwrap();
    // The document that was read is free, and is removed; the one that was written has the time
    // that it was written with.
    until(async || gone("read").await).await;
    assert_eq!(
        place.coll.find_one(doc! {"_id": "held"}).await.unwrap(),
        Some(doc! {"_id": "held", "at": later, "n": 1})
    );
}

/// One document, under `_id`s that are equal to the server: nothing is missing when a transaction
/// ends.
#[tokio::test]
async fn equal_numbers_and_strings_are_one_document() {
    let place = Place::new("expiry_equal").await;
    let insensitive = doc! {"locale": "en", "strength": 2};
    let database = place.client.database(place.db.name());
    database.create_collection("words").option("collation", insensitive).await.unwrap();
    let words = database.collection::<bson::Document>("words");
    for coll in [&place.coll, &words] {
        coll.create_index(IndexModel::new(doc! {"at": 1}).expire_after(Duration::ZERO)).await.unwrap();
        coll.insert_many(&[doc! {"_id": 1, "n": 0}, doc! {"_id": 2, "n": 0}, doc! {"_id": "a", "n": 0}]).await.unwrap();
    }
    for (coll, other) in [(&place.coll, "a"), (&words, "A")] {
        let mut session = place.begin();
        for id in [bson::Bson::Int32(1), bson::Bson::Int64(1), bson::Bson::Double(1.0), "a".into(), other.into()] {
            let done = coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
            assert_eq!(done.modified_count, 1);
        }
        coll.update_one(doc! {"_id": 2}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        assert_eq!(coll.delete_one(doc! {"_id": 2_i64}).session(&mut session).await.unwrap(), 1);
        session.commit().await.unwrap();
        let found = coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
        assert_eq!(found, [doc! {"_id": 1, "n": 3}, doc! {"_id": "a", "n": 2}]);
    }
}

async fn until(condition: impl AsyncFn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !condition().await {
        assert!(std::time::Instant::now() < deadline, "the server did not remove what has expired");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
