//! Reads that each commit sends again, whatever has changed.

use std::time::Instant;

use bson::{Document, doc};
use local_mongod::ServerOptions;
use mongotx::{IndexModel, Isolation, Session};

use super::{LONG, Stage, begun, connect};
use crate::quiet;

#[tokio::test]
async fn what_the_server_removes_by_itself_is_asked_for() {
    let stage = Stage::start().await;
    stage.until_unasked(async || stage.reading().await).await;
    stage.coll.create_index(IndexModel::new(doc! {"at": 1}).expire_after(LONG)).await.unwrap();
    stage.always_asked(async || stage.reading().await).await;
}

/// The client's look-up of the collection is older than the index, whose notice is over.
#[tokio::test]
async fn what_the_server_removes_since_another_client_came_and_went_is_asked_for() {
    let stage = Stage::start().await;
    let other = connect(&stage.server).await;
    stage.until_unasked(async || stage.reading().await).await;
    let index = IndexModel::new(doc! {"at": 1}).expire_after(LONG);
    quiet::through(&other, &stage.coll).create_index(index).await.unwrap();
    other.shutdown().await.unwrap();
    stage.always_asked(async || stage.reading().await).await;
}

/// The first in an order was not looked for among what is committed and not finished.
#[tokio::test]
async fn the_first_that_a_write_has_met_is_asked_for() {
    let stage = Stage::start().await;
    stage.until_unasked(async || stage.reading().await).await;
    let transaction = async || {
        let mut session = begun(&stage.client, Isolation::Snapshot);
        let first = stage.coll.find_one_and_update(doc! {"n": 0}, doc! {"$set": {"n": 9}}).sort(doc! {"k": 1});
        assert!(first.session(&mut session).await.unwrap().is_some());
        session
    };
    stage.always_asked(transaction).await;
}

#[tokio::test]
async fn a_serializable_transaction_asks_everything() {
    let stage = Stage::start().await;
    stage.until_unasked(async || stage.reading().await).await;
    let transaction = async || {
        let mut session = begun(&stage.client, Isolation::Serializable);
        for id in [1, 2] {
            assert!(stage.coll.find_one(doc! {"_id": id}).session(&mut session).await.unwrap().is_some());
        }
        session
    };
    stage.always_asked(transaction).await;
}

/// A connection that is begun while a transaction runs may lead to another server process.
#[tokio::test]
async fn after_a_restart_of_the_server_everything_is_asked() {
    let server = ServerOptions::standalone().start().await.unwrap();
    let client = connect(&server).await;
    let coll = quiet::collection(&client, 0).await;
    let all: Vec<Document> = (1..=2).map(|id| doc! {"_id": id, "n": 0}).collect();
    coll.insert_many(&all).await.unwrap();
    let read = async |session: &mut Session| {
        for id in [1, 2] {
            coll.find_one(doc! {"_id": id}).session(&mut *session).await.unwrap();
        }
    };
    let mut session = begun(&client, Isolation::Snapshot);
    read(&mut session).await;
    session.commit().await.unwrap();

    let mut session = begun(&client, Isolation::Snapshot);
    read(&mut session).await;
    server.kill().unwrap();
    server.restart().await.unwrap();
    let begun = Instant::now();
    while coll.find_one(doc! {"_id": 1}).await.is_err() {
        assert!(begun.elapsed() < LONG, "the server does not come back");
    }
    let before = client.metrics().validations_unasked;
    let _ = session.commit().await;
    assert_eq!(client.metrics().validations_unasked, before);
}
