//! Transactions by the official driver's own sessions, over the network.

use crate::common;

use bson::{Document, doc};
use common::{driver, gateway, soon};
use mongodb::{Client, Collection};
use mongotx_gateway::{Gateway, Limits};

async fn connected(test: &str) -> (Gateway, Client, Collection<Document>) {
    let (gateway, address) = gateway(Limits::default()).await;
    let client = driver(address, "").await;
    let collection = client.database(&local_mongod::unique_db(test)).collection("c");
    (gateway, client, collection)
}

#[tokio::test]
async fn a_commit_is_visible_and_an_abort_is_not() {
    let (_gateway, client, collection) = connected("gw_driver").await;
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    collection.insert_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    assert_eq!(collection.count_documents(doc! {}).await.unwrap(), 0);
    assert_eq!(collection.count_documents(doc! {}).session(&mut session).await.unwrap(), 1);
    soon(session.commit_transaction()).await.unwrap();
    session.commit_transaction().await.unwrap();
    assert_eq!(collection.count_documents(doc! {}).await.unwrap(), 1);
    session.start_transaction().await.unwrap();
    collection.delete_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    soon(session.abort_transaction()).await.unwrap();
    assert_eq!(collection.count_documents(doc! {}).await.unwrap(), 1);
}

#[tokio::test]
async fn a_conflict_has_the_label_that_retry_loops_know() {
    let (_gateway, client, collection) = connected("gw_driver_conflict").await;
    collection.insert_one(doc! {"_id": 1}).await.unwrap();
    let update = || collection.update_one(doc! {"_id": 1}, doc! {"$inc": {"a": 1}});
    let (mut one, mut two) = (client.start_session().await.unwrap(), client.start_session().await.unwrap());
    one.start_transaction().await.unwrap();
    two.start_transaction().await.unwrap();
    update().session(&mut one).await.unwrap();
    let refused = update().session(&mut two).await.unwrap_err();
    assert!(refused.contains_label("TransientTransactionError"), "{refused:?}");
    two.abort_transaction().await.unwrap();
    one.commit_transaction().await.unwrap();
    assert_eq!(collection.find_one(doc! {}).await.unwrap(), Some(doc! {"_id": 1, "a": 1}));
}

#[tokio::test]
async fn the_drivers_own_retry_loop_brings_two_rivals_through() {
    let (_gateway, client, collection) = connected("gw_driver_loop").await;
    collection.insert_one(doc! {"_id": 1, "a": 0}).await.unwrap();
    let add = async |client: Client, collection: Collection<Document>| {
        let mut session = client.start_session().await.unwrap();
        for _ in 0..5 {
            session
                .start_transaction()
                .and_run2(async |session| {
                    collection.update_one(doc! {"_id": 1}, doc! {"$inc": {"a": 1}}).session(session).await.map(drop)
                })
                .await
                .unwrap();
        }
    };
    soon(async { tokio::join!(add(client.clone(), collection.clone()), add(client.clone(), collection.clone())) })
        .await;
    assert_eq!(collection.find_one(doc! {}).await.unwrap(), Some(doc! {"_id": 1, "a": 10}));
}

#[tokio::test]
async fn cursors_in_a_transaction_see_its_own_writes_batch_by_batch() {
    let (_gateway, client, collection) = connected("gw_driver_cursor").await;
    collection.insert_many((0..5).map(|n| doc! {"_id": n})).await.unwrap();
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    collection.insert_one(doc! {"_id": 5}).session(&mut session).await.unwrap();
    let mut cursor = collection.find(doc! {}).sort(doc! {"_id": 1}).batch_size(2).session(&mut session).await.unwrap();
    let mut found = Vec::new();
    while let Some(document) = soon(cursor.next(&mut session)).await {
        found.push(document.unwrap().get_i32("_id").unwrap());
    }
    assert_eq!(found, [0, 1, 2, 3, 4, 5]);
    session.abort_transaction().await.unwrap();
}

#[tokio::test]
async fn a_duplicate_key_is_a_write_error_as_without_a_transaction() {
    let (_gateway, client, collection) = connected("gw_driver_duplicate").await;
    collection.insert_one(doc! {"_id": 1}).await.unwrap();
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let refused = collection.insert_one(doc! {"_id": 1}).session(&mut session).await.unwrap_err();
    let kind = refused.kind.as_ref();
    let mongodb::error::ErrorKind::Write(mongodb::error::WriteFailure::WriteError(write)) = kind else {
        panic!("{refused:?}")
    };
    assert_eq!(write.code, 11_000);
    let over = collection.find_one(doc! {}).session(&mut session).await.unwrap_err();
    assert!(over.contains_label("TransientTransactionError"), "{over:?}");
}
