//! Repeatable read of a transaction that writes nothing: what it read together must have been true
//! together.

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, Isolation, TransactionOptions};

#[tokio::test]
async fn commit_of_a_reader_whose_locks_were_taken_away_is_expired() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let db = local_mongod::unique_db("reader");
    let options = || ClientOptions { tx_database: db.clone(), sweep: false, ..crate::quiet::at_read_committed() };
    let reader = Client::connect_with(&server.uri(), options()).await.unwrap();
    let rival = Client::connect_with(&server.uri(), options()).await.unwrap();
    let coll: Collection<Document> = rival.database(&db).collection("a");
    coll.insert_many(&[doc! {"_id": 1, "n": 10}, doc! {"_id": 2, "n": 0}]).await.unwrap();

    let repeatable = TransactionOptions { isolation: Some(Isolation::RepeatableRead), ..TransactionOptions::default() };
    let mut session = reader.session_with(repeatable);
    session.begin().unwrap();
    let read: Collection<Document> = reader.database(&db).collection("a");
    let first = read.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap().unwrap();
    assert_eq!(first, doc! {"_id": 1, "n": 10});

    // The update by which a rival fences when the reader's lease has ended.
    let id = bson::oid::ObjectId::from_bytes(session.id().unwrap().client.0);
    let records = server.client().await.unwrap().database(&db).collection::<Document>("txs");
    records.update_one(doc! {"_id": id}, doc! {"$set": {"fenced": true}}).await.unwrap();
    let mut moving = rival.session();
    moving.begin().unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": -10}}).session(&mut moving).await.unwrap();
    coll.update_one(doc! {"_id": 2}, doc! {"$inc": {"n": 10}}).session(&mut moving).await.unwrap();
    moving.commit().await.unwrap();

    let second = match read.find_one(doc! {"_id": 2}).session(&mut session).await {
        Ok(second) => second.unwrap(),
        Err(error) => return assert_eq!(error.kind(), ErrorKind::Expired),
    };
    match session.commit().await {
        Ok(()) => panic!("committed, having read {first} and {second}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Expired),
    }
}
