//! Documents that a committed transaction has left locked are taken over by the next one of the
//! same client in the statement that it sends anyway (decision 0012): no transaction waits until
//! they are finished.

use crate::quiet;

use std::{sync::Arc, time::Duration};

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, Collection, ReturnDocument, Session, Step};
use quiet::{Gate, collection, connect, options, through};

const LONG: Duration = Duration::from_secs(60);

/// A client whose finished documents can be held back, and another client.
struct World {
    client: Client,
    coll: Collection<Document>,
    gate: Arc<Gate>,
    others: Collection<Document>,
}

/// A transaction has added 10 to documents 1 to 3 and is committed; nothing of it is finished.
async fn left() -> World {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let client = connect(ClientOptions { hook: Some(gate.clone()), ..options() }).await;
    let coll = collection(&client, 3).await;
    let others = through(&connect(options()).await, &coll);
    gate.shut();
    let mut first = begun(&client);
    for id in 1..=3 {
        coll.update_one(doc! {"_id": id}, add(10)).session(&mut first).await.unwrap();
    }
    first.commit().await.unwrap();
    gate.until_held().await;
    World { client, coll, gate, others }
}

fn begun(client: &Client) -> Session {
    let mut session = client.session();
    session.begin().unwrap();
    session
}

fn add(n: i32) -> Document {
    doc! {"$inc": {"n": n}}
}

async fn n_of(coll: &Collection<Document>, id: i32) -> i32 {
    coll.find_one(doc! {"_id": id}).await.unwrap().unwrap().get_i32("n").unwrap()
}

fn sent(client: &Client) -> u64 {
    client.metrics().commands.values().sum()
}

impl World {
    /// Opens the gate, and looks at what is stored when everything is finished.
    async fn stored(&self) -> Vec<Document> {
        self.gate.open();
        assert!(self.client.flush(LONG).await);
        let server = local_mongod::shared_standalone().await.unwrap();
        let plain = mongodb::Client::with_uri_str(server.uri()).await.unwrap();
        let ns = self.coll.namespace();
        let coll = plain.database(&ns.db).collection::<Document>(&ns.coll);
        let mut found = coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
        let mut stored = Vec::new();
        while found.advance().await.unwrap() {
            stored.push(found.deserialize_current().unwrap());
        }
        stored
    }
}

#[tokio::test]
async fn update_by_id_takes_over_with_its_one_command() {
    let world = left().await;
    let mut second = begun(&world.client);
    world.coll.update_one(doc! {"_id": 3}, add(1)).session(&mut second).await.unwrap();
    let before = sent(&world.client);
    let done = world.coll.update_one(doc! {"_id": 1}, add(100)).session(&mut second).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count, sent(&world.client) - before), (1, 1, 1));
    assert_eq!(n_of(&world.others, 1).await, 11, "what the first committed is what others see meanwhile");
    second.commit().await.unwrap();
    assert_eq!(world.stored().await, [doc! {"_id": 1, "n": 111}, doc! {"_id": 2, "n": 11}, doc! {"_id": 3, "n": 12}]);
}

#[tokio::test]
async fn rollback_after_taking_over_leaves_what_the_first_committed() {
    let world = left().await;
    let mut second = begun(&world.client);
    world.coll.update_one(doc! {"_id": 1}, add(100)).session(&mut second).await.unwrap();
    second.rollback().await.unwrap();
    assert_eq!(n_of(&world.others, 1).await, 11);
    assert_eq!(world.stored().await[0], doc! {"_id": 1, "n": 11});
}

/// Conditions besides the `_id` are evaluated on the version that the first transaction has made.
#[tokio::test]
async fn update_by_id_and_values_takes_over_what_has_them() {
    let world = left().await;
    let mut second = begun(&world.client);
    let before = sent(&world.client);
    let (now, past) = (doc! {"_id": 1, "n": 11}, doc! {"_id": 2, "n": 1});
    let done = world.coll.update_one(now, doc! {"$inc": {"n": 5}, "$currentDate": {"at": true}}).session(&mut second);
    assert_eq!(done.await.unwrap().matched_count, 1);
    assert_eq!(sent(&world.client) - before, 1);
    let missed = tokio::spawn({
        let (coll, mut third) = (world.coll.clone(), begun(&world.client));
        async move { coll.update_one(past, add(5)).session(&mut third).await.unwrap().matched_count }
    });
    world.gate.open();
    assert_eq!(missed.await.unwrap(), 0);
    second.commit().await.unwrap();
    let stored = world.stored().await;
    let n: Vec<i32> = stored.iter().map(|one| one.get_i32("n").unwrap()).collect();
    assert_eq!(n, [16, 11, 11]);
    assert!(stored[0].get_datetime("at").is_ok(), "{}", stored[0]);
}

#[tokio::test]
async fn several_take_over_one_from_the_other() {
    let world = left().await;
    for _ in 0..5 {
        let mut next = begun(&world.client);
        for id in [1, 2] {
            world.coll.update_one(doc! {"_id": id}, add(1)).session(&mut next).await.unwrap();
        }
        next.commit().await.unwrap();
    }
    assert_eq!(world.stored().await[..2], [doc! {"_id": 1, "n": 16}, doc! {"_id": 2, "n": 16}]);
}

#[tokio::test]
async fn bulk_and_read_for_update_take_over() {
    let world = left().await;
    let mut second = begun(&world.client);
    world.coll.update_one(doc! {"_id": 3}, add(1)).session(&mut second).await.unwrap();
    let before = sent(&world.client);
    let lock = vec![doc! {"$replaceWith": "$$ROOT"}];
    let seen = world.coll.find_one_and_update(doc! {"_id": 1}, lock).session(&mut second);
    let seen = seen.return_document(ReturnDocument::After).await.unwrap();
    assert_eq!((seen, sent(&world.client) - before), (Some(doc! {"_id": 1, "n": 11}), 1));
    let changed = world.coll.find_one_and_update(doc! {"_id": 2}, add(5)).session(&mut second).await.unwrap();
    assert_eq!((changed, sent(&world.client) - before), (Some(doc! {"_id": 2, "n": 11}), 2));
    second.commit().await.unwrap();
    let numbers: Vec<i32> = world.stored().await.iter().map(|stored| stored.get_i32("n").unwrap()).collect();
    assert_eq!(numbers, [11, 16, 12]);
}

/// A statement that cannot take a document over is done nevertheless: the writer finishes what it
/// meets, as it does for another client's transaction.
#[tokio::test]
async fn what_cannot_be_taken_over_is_finished_first() {
    let world = left().await;
    let mut second = begun(&world.client);
    world.coll.update_one(doc! {"_id": 1}, doc! {"$push": {"list": 1}}).session(&mut second).await.unwrap();
    world.coll.delete_one(doc! {"_id": 2}).session(&mut second).await.unwrap();
    second.commit().await.unwrap();
    assert_eq!(world.stored().await, [doc! {"_id": 1, "n": 11, "list": [1]}, doc! {"_id": 3, "n": 11}]);
}

#[tokio::test]
async fn what_the_first_removed_is_not_taken_over() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let client = connect(ClientOptions { hook: Some(gate.clone()), ..options() }).await;
    let coll = collection(&client, 1).await;
    let mut first = begun(&client);
    coll.update_one(doc! {"_id": 1}, add(1)).session(&mut first).await.unwrap();
    coll.delete_one(doc! {"_id": 1}).session(&mut first).await.unwrap();
    gate.shut();
    first.commit().await.unwrap();
    gate.until_held().await;
    let mut second = begun(&client);
    let done = coll.update_one(doc! {"_id": 1}, add(100)).session(&mut second).await.unwrap();
    assert_eq!(done.matched_count, 0);
    second.commit().await.unwrap();
    gate.open();
    assert!(client.flush(LONG).await);
    assert_eq!(coll.count_documents(doc! {}).await.unwrap(), 0);
}
