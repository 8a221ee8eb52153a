//! A document that a rival moves forward in an index while a write of many selects its documents is
//! found twice, and changed once.

use std::{net::SocketAddr, time::Duration};

use bson::{Document, doc};
use mongotx::{Client, Collection, IndexModel};

use crate::{late::proxy::Proxy, quiet};

const LIMIT: Duration = Duration::from_secs(60);
/// More than a first batch has.
const DOCUMENTS: i32 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_found_twice_is_changed_once() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let rival = quiet::connect(quiet::options()).await;
    let rivals = quiet::collection(&rival, 0).await;
    rivals.create_index(IndexModel::new(doc! {"n": 1})).await.unwrap();
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
    let client = Client::connect_with(&proxy.uri(), quiet::options()).await.unwrap();
    let coll: Collection<Document> = quiet::through(&client, &rivals);
    for place in 0.. {
        rivals.delete_many(doc! {}).await.unwrap();
        let documents: Vec<Document> = (1..=DOCUMENTS).map(|n| doc! {"_id": n, "n": n}).collect();
        rivals.insert_many(&documents).await.unwrap();
        assert!(rival.flush(LIMIT).await && client.flush(LIMIT).await);
        proxy.hold_after(place);
        let own = coll.clone();
        let doubling =
            tokio::spawn(async move { own.update_many(doc! {"n": {"$gte": 1}}, doc! {"$mul": {"n": 2}}).await });
        let held = tokio::time::timeout(LIMIT, proxy.until_held()).await.expect("the write ends before its selection");
        if held == "getMore" {
            rivals.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 1_000}}).await.unwrap();
        }
        proxy.deliver().await;
        proxy.hold_nothing();
        let done = doubling.await.unwrap().unwrap();
        if held == "getMore" {
            assert_eq!((done.matched_count, done.modified_count), (DOCUMENTS as u64, DOCUMENTS as u64));
            let moved = rivals.find_one(doc! {"_id": 1}).await.unwrap().unwrap();
            assert_eq!(moved.get_i32("n").unwrap(), 2_000);
            return;
        }
    }
}
