//! A committed transaction that the server lets no client finish.

use bson::{Document, doc};
use mongotx::{Client, Collection, Outcome, Step};

use crate::common::{hooks::Gate, until, verify::is_clean, world::World};

async fn commit_one(client: &Client, coll: &Collection<Document>, id: i32, change: Document) -> mongotx::TxId {
    let mut session = client.session();
    session.begin().unwrap();
    coll.update_one(doc! {"_id": id}, doc! {"$set": change}).session(&mut session).await.unwrap();
    let id = session.id().unwrap();
    session.commit().await.unwrap();
    id
}

/// Three commits of a collection come while the first is being finished; the server refuses one of
/// them, because a unique index has been made since it was prepared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_cannot_be_finished_does_not_hold_up_the_others() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let world = World::new(&server.uri(), "finishing");
    let raw = world.raw().await.database(&world.db);
    let documents = (1..=5).map(|id| doc! {"_id": id, "u": id});
    raw.collection::<Document>("a").insert_many(documents).await.unwrap();
    let (gate, hook) = Gate::at(Step::BeforeFinish, 1, false);
    let client = world.client_with(1_000, hook).await;
    let a = world.collection(&client, "a");
    commit_one(&client, &a, 2, doc! {"n": 1}).await;
    gate.reached().await;
    let refused = commit_one(&client, &a, 1, doc! {"u": 3}).await;
    let others = [commit_one(&client, &a, 4, doc! {"n": 2}).await, commit_one(&client, &a, 5, doc! {"n": 3}).await];
    let index = doc! {"createIndexes": "a", "indexes": [{"key": {"u": 1}, "name": "u", "unique": true}]};
    raw.run_command(index).await.unwrap();
    gate.open();
    until("the others are finished", async || {
        let stored = world.stored(&world.db, "a").await;
        let is_refused = |document: &Document| document.get_i32("_id").unwrap() == 1;
        stored.iter().all(|document| is_clean(document) != is_refused(document)).then_some(())
    })
    .await;
    // It is committed for all readers, and it is finished when that is possible.
    let other = world.client(1_000).await;
    let theirs = world.collection(&other, "a");
    assert_eq!(theirs.find_one(doc! {"_id": 1}).await.unwrap(), Some(doc! {"_id": 1, "u": 3}));
    raw.run_command(doc! {"dropIndexes": "a", "index": "u"}).await.unwrap();
    until("it is finished", async || {
        other.repair_collection(theirs.namespace()).await.unwrap();
        world.stored(&world.db, "a").await.iter().all(is_clean).then_some(())
    })
    .await;
    assert_eq!(theirs.find_one(doc! {"_id": 1}).await.unwrap(), Some(doc! {"_id": 1, "u": 3}));
    for id in others.into_iter().chain([refused]) {
        assert_eq!(other.outcome(id).await.unwrap(), Outcome::Committed);
    }
}
