//! A client that is used from several runtimes: its background work goes on in its own when one of
//! the others has ended.

use std::time::Duration;

use bson::{Document, doc};
use mongotx::{Client, Collection};
use tokio::runtime::Builder;

use crate::quiet;

const LONG: Duration = Duration::from_secs(60);

async fn add_one(client: &Client, coll: &Collection<Document>) {
    let mut session = client.session();
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
}

/// Runs a transaction in a runtime of its own, which ends right after it.
async fn add_one_elsewhere(client: &Client, coll: &Collection<Document>) {
    let (client, coll) = (client.clone(), coll.clone());
    let elsewhere = move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(add_one(&client, &coll));
    };
    std::thread::spawn(elsewhere).join().unwrap();
}

/// The first transaction makes the client's record, which is written by a task from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_goes_on_when_the_runtime_of_its_first_transaction_has_ended() {
    // Documents that it has not made itself: it has no record yet.
    let made = quiet::collection(&quiet::connect(quiet::options()).await, 1).await;
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::through(&client, &made);
    add_one_elsewhere(&client, &coll).await;
    let more = async {
        add_one(&client, &coll).await;
        add_one_elsewhere(&client, &coll).await;
        add_one(&client, &coll).await;
    };
    tokio::time::timeout(LONG, more).await.expect("a commit waits for a task that has ended");
    assert!(client.flush(LONG).await, "something is left to be finished");
    let found = coll.find_one(doc! {"_id": 1}).await.unwrap();
    assert_eq!(found, Some(doc! {"_id": 1, "n": 5}));
    client.shutdown().await.unwrap();
}
