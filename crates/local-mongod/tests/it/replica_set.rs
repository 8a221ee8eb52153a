//! A replica set of several nodes: complete when it is there, alive with one node less, gone with
//! its handle.

use std::time::Duration;

use local_mongod::{ReplicaSet, signal};
use mongodb::bson::{Document, doc};
use mongodb::options::{Acknowledgment, WriteConcern};

/// Longer than any machine needs to replicate one document.
const AMPLE: Duration = Duration::from_secs(120);

fn on(nodes: u32, limit: Duration) -> WriteConcern {
    WriteConcern::builder().w(Acknowledgment::Nodes(nodes)).w_timeout(limit).build()
}

#[tokio::test]
async fn three_nodes_hold_a_write_and_two_go_on_without_the_third() {
    let set = ReplicaSet::start(3).await.unwrap();
    assert_eq!((set.members().len(), set.pids().len()), (3, 3));
    let collection = set.client().await.unwrap().database("t").collection::<Document>("c");
    collection.insert_one(doc! {"_id": 1}).write_concern(on(3, AMPLE)).await.unwrap();

    let member = set.secondary().await.unwrap();
    member.kill().unwrap();
    assert_eq!(set.pids().len(), 2);
    collection.insert_one(doc! {"_id": 2}).write_concern(on(2, AMPLE)).await.unwrap();
    let error =
        collection.insert_one(doc! {"_id": 3}).write_concern(on(3, Duration::from_millis(200))).await.unwrap_err();
    assert!(error.to_string().contains("waiting for replication timed out"), "{error}");

    member.restart().await.unwrap();
    set.wait().await.unwrap();
    collection.insert_one(doc! {"_id": 4}).write_concern(on(3, AMPLE)).await.unwrap();
    assert_eq!(collection.count_documents(doc! {}).await.unwrap(), 4);

    let pids = set.pids();
    drop(set);
    assert!(pids.into_iter().all(|pid| !signal::exists(pid)));
}
