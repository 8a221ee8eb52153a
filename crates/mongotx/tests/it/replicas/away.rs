//! One of three members is down: the majority is there, so nothing waits.

use std::time::{Duration, Instant};

use bson::{Document, doc};
use mongotx::IndexModel;

use super::set;
use crate::common::{until, world::World};

/// Far less than the server waits for a member that is down, and far more than any query takes.
const AT_ONCE: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_writers_go_on() {
    let set = set().await;
    let world = World::new(&set.uri(), "away");
    let raw = world.raw().await.database(&world.db).collection::<Document>("a");
    raw.insert_many([doc! {"_id": 1, "n": 1}, doc! {"_id": 2, "n": 2}]).await.unwrap();
    let (_, other) = set.roles().await;
    other.kill().unwrap();

    let client = world.client(10_000).await;
    let coll = world.collection(&client, "a");
    let begun = Instant::now();
    let found: Vec<Document> = coll.find(doc! {"n": {"$gt": 0}}).await.unwrap().try_collect().await.unwrap();
    assert!(begun.elapsed() < AT_ONCE, "the first query took {:?}", begun.elapsed());
    assert_eq!(found.len(), 2);
    until("the index on pending documents", async || {
        let names = raw.list_index_names().await.unwrap();
        names.iter().any(|name| name == "_mongotx_pending").then_some(())
    })
    .await;

    let begun = Instant::now();
    coll.create_index(IndexModel::new(doc! {"n": 1}).unique(true)).await.unwrap();
    let mut session = client.session();
    session.begin().unwrap();
    coll.update_many(doc! {}, doc! {"$inc": {"n": 10}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    assert!(begun.elapsed() < AT_ONCE * 3, "index, write and commit took {:?}", begun.elapsed());
    assert_eq!(coll.find_one(doc! {"_id": 1}).await.unwrap().unwrap().get_i32("n").unwrap(), 11);
    client.shutdown().await.unwrap();
    set.heal().await;
    world.drop().await;
}
