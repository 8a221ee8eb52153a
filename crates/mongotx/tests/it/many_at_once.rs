//! Writes of many documents outside transactions, several at the same time: they lock the same
//! documents, and none may end with an error because each holds some of them and waits for the
//! other's.

use std::time::Duration;

use bson::{Document, doc};
use futures_util::future::join;
use mongotx::{Client, ClientOptions};

use crate::common::world::World;

const LEASE_MS: u64 = 60_000;
const DOCUMENTS: i32 = 150;
const TIMES: i32 = 4;

/// Clients whose writes may wait for as long as the slowest machine takes: a deadlock that only the
/// limit ends would still be an error.
async fn clients(name: &str, count: usize) -> (World, Vec<Client>) {
    let world = World::new(&local_mongod::shared_standalone().await.unwrap().uri(), name);
    let mut clients = Vec::new();
    for _ in 0..count {
        let options = ClientOptions { write_wait: Duration::from_secs(60), ..world.options(LEASE_MS) };
        clients.push(Client::connect_with(&world.uri, options).await.unwrap());
    }
    let documents: Vec<Document> = (0..DOCUMENTS).map(|id| doc! {"_id": id, "n": 0}).collect();
    world.collection(&clients[0], "a").insert_many(&documents).await.unwrap();
    (world, clients)
}

/// Each of these clients updates all documents, several times, at the same time as the others.
async fn update_all(world: &World, clients: &[Client]) -> Vec<i32> {
    let tasks = clients.iter().map(|client| {
        let coll = world.collection(client, "a");
        tokio::spawn(async move {
            for _ in 0..TIMES {
                let done = coll.update_many(doc! {}, doc! {"$inc": {"n": 1}}).await.unwrap();
                assert_eq!(done.modified_count, DOCUMENTS as u64);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let values = world.collection(&clients[0], "a").distinct("n", doc! {}).await.unwrap();
    values.iter().filter_map(|value| value.as_i32()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_of_one_client_all_take_effect() {
    let (world, clients) = clients("many_of_one", 1).await;
    let six = vec![clients[0].clone(); 6];
    assert_eq!(update_all(&world, &six).await, [6 * TIMES]);
    // They waited for their turn: none was done in vain.
    assert_eq!(clients[0].metrics().retries, 0);
    world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_of_several_clients_all_take_effect() {
    let (world, clients) = clients("many_of_several", 3).await;
    assert_eq!(update_all(&world, &clients).await, [3 * TIMES]);
    world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removals_remove_each_document_once() {
    let (world, clients) = clients("many_removed", 2).await;
    let four = [&clients[0], &clients[1], &clients[0], &clients[1]];
    let tasks = four.map(|client| {
        let coll = world.collection(client, "a");
        tokio::spawn(async move { coll.delete_many(doc! {"n": 0}).await.unwrap() })
    });
    let mut removed = 0;
    for task in tasks {
        removed += task.await.unwrap();
    }
    assert_eq!(removed, DOCUMENTS as u64);
    assert_eq!(world.collection(&clients[0], "a").count_documents(doc! {}).await.unwrap(), 0);
    world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_beside_transactions_of_single_documents_all_take_effect() {
    let (world, clients) = clients("many_beside", 2).await;
    let (all, few) = (world.collection(&clients[0], "a"), world.collection(&clients[0], "a"));
    let client = &clients[0];
    let transactions = async {
        for round in 0..20 {
            // Against the order of the other: each would wait for the other.
            let ids = [DOCUMENTS - 1 - round, round];
            let body = async |session: &mut mongotx::Session| {
                for id in ids {
                    few.update_one(doc! {"_id": id}, doc! {"$inc": {"m": 1}}).session(session).await?;
                }
                Ok(())
            };
            client.session().with_transaction(body).await.unwrap();
        }
    };
    let updates = async {
        for _ in 0..TIMES {
            all.update_many(doc! {}, doc! {"$inc": {"n": 1}}).await.unwrap();
        }
    };
    join(transactions, updates).await;
    assert_eq!(all.count_documents(doc! {"n": TIMES}).await.unwrap(), DOCUMENTS as u64);
    assert_eq!(all.count_documents(doc! {"m": 1}).await.unwrap(), 40);
    world.drop().await;
}
