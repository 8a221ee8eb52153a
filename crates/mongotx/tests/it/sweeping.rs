//! A sweep relies on the record that it has fenced, not on the one that it looked at before.

use std::sync::Arc;

use bson::{Document, doc, oid::ObjectId};
use mongotx::{Client, ClientOptions, Step};

use tokio::sync::oneshot;

use crate::common::{
    ghost::die,
    hooks::{Both, Gate},
    until,
    verify::is_clean,
    world::{COLLECTIONS, World},
};

/// The sweep has read the record of a client whose lease has ended. The client wakes, writes to a
/// further collection, commits, and dies with nothing finished. The collection is not in the list
/// that the sweep has read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collection_listed_before_the_fence_is_cleaned_up() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let world = World::new(&server.uri(), "listed_late");
    for coll in COLLECTIONS {
        world.raw().await.database(&world.db).collection(coll).insert_one(doc! {"_id": 1, "n": 0}).await.unwrap();
    }
    let (asleep, sleeping) = Gate::at(Step::BeforeStamp, 1, true);
    let (finishing, unfinished) = Gate::at(Step::BeforeFinish, 1, true);
    let hook = Arc::new(Both(sleeping, unfinished));
    let (die_now, dead) = oneshot::channel::<()>();
    let owner = tokio::spawn({
        let world = world.clone();
        die(async move || {
            let client = world.client_with(300, hook).await;
            let mut session = client.session();
            session.begin().unwrap();
            for coll in COLLECTIONS {
                let coll = world.collection(&client, coll);
                coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 7}}).session(&mut session).await.unwrap();
            }
            let id = session.id().unwrap();
            session.commit().await.unwrap();
            let _ = dead.await;
            id
        })
    });
    asleep.reached().await;
    let (at_fence, hook) = Gate::at(Step::BeforeFence, 1, false);
    let sweeper = world.client_with(60_000, hook).await;
    until("the lease ends", async || sweeper.clients().await.unwrap().iter().any(|found| found.expired).then_some(()))
        .await;
    let sweep = tokio::spawn({
        let sweeper = sweeper.clone();
        async move { sweeper.sweep().await }
    });
    at_fence.reached().await;
    asleep.open();
    finishing.reached().await;
    die_now.send(()).unwrap();
    let id = owner.await.unwrap();
    until("the lease ends again", async || {
        sweeper.client_info(id.client).await.unwrap().unwrap().expired.then_some(())
    })
    .await;
    at_fence.open();
    assert_eq!(sweep.await.unwrap().unwrap().repaired, 2);

    // As the server does when the outcomes need not be kept any longer.
    let txs = world.raw().await.database(&world.tx_db()).collection::<Document>("txs");
    txs.delete_one(doc! {"_id": ObjectId::from_bytes(id.client.0)}).await.unwrap();
    for coll in COLLECTIONS {
        let found = world.collection(&sweeper, coll).find_one(doc! {"_id": 1}).await.unwrap();
        assert_eq!(found, Some(doc! {"_id": 1, "n": 7}), "{coll}");
        assert!(world.stored(&world.db, coll).await.iter().all(is_clean), "{coll}");
    }
    world.drop().await;
}

/// A client dies with more documents than one sweep repairs, the last of which belong to a commit
/// that was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_stays_open_while_a_sweep_has_left_documents() {
    const COUNT: i32 = 1_500;
    let server = local_mongod::shared_standalone().await.unwrap();
    let world = World::new(&server.uri(), "in_parts");
    let documents: Vec<Document> = (0..COUNT).map(|id| doc! {"_id": id, "n": 0}).collect();
    world.raw().await.database(&world.db).collection("a").insert_many(documents).await.unwrap();
    let (_finishing, unfinished) = Gate::at(Step::BeforeFinish, 1, true);
    let dead = tokio::spawn({
        let world = world.clone();
        die(async move || {
            let client = world.client_with(300, unfinished).await;
            let mut session = client.session();
            session.begin().unwrap();
            let a = world.collection(&client, "a");
            a.update_many(doc! {}, doc! {"$set": {"n": 7}}).session(&mut session).await.unwrap();
            let id = session.id().unwrap();
            session.commit().await.unwrap();
            id
        })
    })
    .await
    .unwrap();
    let options = ClientOptions { sweep_rounds: Some(1), ..world.options(60_000) };
    let sweeper = Client::connect_with(&world.uri, options).await.unwrap();
    until("the lease ends", async || sweeper.client_info(dead.client).await.unwrap().unwrap().expired.then_some(()))
        .await;
    let is_closed = async || sweeper.client_info(dead.client).await.unwrap().unwrap().closed;
    assert_eq!(sweeper.sweep().await.unwrap().repaired, 1_000);
    assert!(!is_closed().await, "documents are left");
    assert_eq!(sweeper.sweep().await.unwrap().repaired, 500);
    assert!(is_closed().await);
    let stored = world.stored(&world.db, "a").await;
    assert!(stored.iter().all(|document| is_clean(document) && document.get_i32("n").ok() == Some(7)));
    world.drop().await;
}
