//! Documents that only the old primary has finished are pending again at the next one. A query of
//! two commands, of which the first finds them clean and the second is carried out by the next
//! primary, must not show the versions of before.

use std::sync::Arc;

use bson::{Document, doc};
use local_mongod::Server;
use mongotx::{Client, Step};

use super::{alone, set, until_has};
use crate::common::{
    LIMIT,
    hooks::{Both, Gate},
    until,
    world::World,
};

/// Long enough that no lease ends in these tests.
const LEASE_MS: u64 = 120_000;

/// The values of `n` in documents 1 and 2.
async fn values(world: &World, client: &Client) -> mongotx::Result<Vec<i32>> {
    let mut found = world.collection(client, "a").distinct("n", doc! {}).await?;
    Ok(found.drain(..).filter_map(|value| value.as_i32()).collect())
}

/// Waits until the member carries out a query that waits for the majority.
async fn until_a_query_waits(member: &Server, world: &World) {
    let admin = alone(member).await.database("admin");
    let which = doc! {"active": true, "ns": format!("{}.a", world.db), "command.readConcern.level": "linearizable"};
    let pipeline = [doc! {"$currentOp": {"allUsers": true}}, doc! {"$match": which}];
    until("a query that waits for the majority", async || {
        let mut found = admin.aggregate(pipeline.clone()).await.ok()?;
        found.advance().await.ok()?.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_the_old_primary_has_finished_is_not_taken_for_finished() {
    let set = set().await;
    let world = World::new(&set.uri(), "finished_alone");
    // The inserts are the first transaction. The second one is finished once, at the old primary.
    let (finishing, hook) = Gate::at(Step::BeforeFinish, 2, false);
    let (_never, later) = Gate::at(Step::BeforeFinish, 3, true);
    let owner = world.client_with(LEASE_MS, Arc::new(Both(hook, later))).await;
    let coll = world.collection(&owner, "a");
    coll.insert_many(&[doc! {"_id": 1, "n": 0}, doc! {"_id": 2, "n": 0}]).await.unwrap();
    let (between, hook) = Gate::at(Step::BeforeSettledQuery, 2, false);
    let reader = world.client_with(LEASE_MS, hook).await;
    // Afterwards the reader knows the collection, and has its connection.
    assert_eq!(values(&world, &reader).await.unwrap(), [0]);

    let mut session = owner.session();
    session.begin().unwrap();
    for id in [1, 2] {
        coll.update_one(doc! {"_id": id}, doc! {"$set": {"n": 1}}).session(&mut session).await.unwrap();
    }
    session.commit().await.unwrap();
    let (old, next) = set.roles().await;
    set.stop_replication(next).await.unwrap();
    finishing.open();
    for id in [1, 2] {
        until_has(old, &world.db, "a", doc! {"_id": id, "n": 1, "_xTxId": {"$exists": false}}).await;
    }

    let (inner, reading) = (world.clone(), reader.clone());
    let read = tokio::spawn(async move { values(&inner, &reading).await });
    tokio::select! {
        () = between.reached() => {}
        () = until_a_query_waits(old, &world) => {}
    }
    set.fail_over_to(next).await.unwrap();
    between.open();
    let there = alone(next).await.database(&world.db).collection::<Document>("a");
    let pending = there.count_documents(doc! {"n": 0, "_xTxId": {"$exists": true}}).await.unwrap();
    assert_eq!(pending, 2, "the next primary has the commit, and has nothing finished");
    let read = tokio::time::timeout(LIMIT, read).await.unwrap().unwrap();
    set.heal().await;
    assert!(read.as_ref().is_ok_and(|read| *read == [1]) || read.is_err(), "{read:?}");
    let after = until("a query", async || values(&world, &reader).await.ok());
    assert_eq!(after.await, [1]);
    world.drop().await;
}
