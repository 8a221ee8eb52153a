//! "Find it, else insert it" in a transaction that validates what it reads. If another client has
//! inserted the document in between, the transaction cannot commit, and finds the document when it
//! is run again: so the insert is a conflict, and not a duplicate key, which would reach the
//! application.

use bson::{Document, doc};
use futures_util::future::join_all;
use mongotx::{Client, Collection, ErrorKind, IndexModel, Isolation, TransactionOptions};

use crate::common::world::World;

const LEASE_MS: u64 = 60_000;

async fn scene(name: &str) -> (World, Client, Client, Collection<Document>) {
    let world = World::new(&local_mongod::shared_standalone().await.unwrap().uri(), name);
    let (client, other) = (world.client(LEASE_MS).await, world.client(LEASE_MS).await);
    let coll = world.collection(&client, "a");
    coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    coll.insert_one(&doc! {"_id": 0, "k": 0}).await.unwrap();
    (world, client, other, coll)
}

fn at(isolation: Isolation) -> TransactionOptions {
    TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() }
}

/// The error of an insert whose document another client has inserted after this filter found none.
async fn refused(world: &World, clients: (&Client, &Client), isolation: Isolation, filter: Document) -> mongotx::Error {
    let (coll, others) = (world.collection(clients.0, "a"), world.collection(clients.1, "a"));
    others.delete_one(doc! {"_id": 1}).await.unwrap();
    let mut session = clients.0.session_with(at(isolation));
    session.begin().unwrap();
    assert_eq!(coll.find_one(filter).session(&mut session).await.unwrap(), None);
    others.insert_one(&doc! {"_id": 1, "k": 1}).await.unwrap();
    coll.insert_one(&doc! {"_id": 1, "k": 1}).session(&mut session).await.unwrap_err()
}

#[tokio::test]
async fn what_was_not_found_and_is_there_now_is_a_conflict() {
    let (world, client, other, _) = scene("find_or_insert").await;
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        for filter in [doc! {"k": 1}, doc! {"_id": 1}, doc! {"_id": 1, "k": 1}, doc! {"k": {"$gt": 0}}] {
            let error = refused(&world, (&client, &other), isolation, filter.clone()).await;
            assert_eq!(error.kind(), ErrorKind::Conflict, "{isolation:?} {filter}: {error}");
            assert!(error.contains_label("TransientTransactionError"), "{error}");
        }
    }
    let error = refused(&world, (&client, &other), Isolation::ReadCommitted, doc! {"k": 1}).await;
    assert_eq!(error.code(), Some(11_000), "{error}");
    world.drop().await;
}

#[tokio::test]
async fn duplicate_of_what_the_transaction_could_see_is_a_duplicate() {
    let (world, client, _, coll) = scene("find_or_insert_seen").await;
    for (filter, new) in
        [(doc! {"k": 1}, doc! {"k": 0}), (doc! {"k": 0}, doc! {"k": 0}), (doc! {"_id": 0}, doc! {"_id": 0, "k": 5})]
    {
        let mut session = client.session_with(at(Isolation::Snapshot));
        session.begin().unwrap();
        coll.find_one(filter.clone()).session(&mut session).await.unwrap();
        let error = coll.insert_one(&new).session(&mut session).await.unwrap_err();
        assert_eq!(error.code(), Some(11_000), "{filter}: {error}");
    }
    world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_find_or_insert_the_same_all_end() {
    let (world, client, other, coll) = scene("find_or_insert_many").await;
    let tasks = (0..4).map(|task| {
        let client = if task % 2 == 0 { client.clone() } else { other.clone() };
        let coll = world.collection(&client, "a");
        async move {
            for k in 1..=15 {
                let options = at(Isolation::Snapshot);
                let body = async |session: &mut mongotx::Session| {
                    if coll.find_one(doc! {"k": k}).session(session).await?.is_none() {
                        coll.insert_one(&doc! {"k": k}).session(session).await?;
                    }
                    Ok(())
                };
                client.session_with(options).with_transaction(body).await.unwrap();
            }
        }
    });
    join_all(tasks).await;
    assert_eq!(coll.count_documents(doc! {}).await.unwrap(), 16);
    world.drop().await;
}
