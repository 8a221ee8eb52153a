//! Updates of several documents that a bulk write sends together: in order, whatever becomes of
//! them.

mod early;
mod keys;
mod one_shape;
mod together;
mod unique;
mod upserts;

use std::time::Duration;

use bson::{Bson, Document, doc};
use mongotx::{Client, Collection, Session, TransactionOptions, WriteModel};

use crate::quiet;

const LONG: Duration = Duration::from_secs(30);

fn add(id: i32, amount: i32) -> WriteModel {
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update: doc! {"$inc": {"n": amount}}.into(), upsert: false }
}

async fn place() -> (Client, Collection<Document>, Session) {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 6).await;
    let session = client.session_with(TransactionOptions { lock_wait: LONG, ..TransactionOptions::default() });
    (client, coll, session)
}

async fn numbers(client: &Client, coll: &Collection<Document>) -> Vec<i32> {
    assert!(client.flush(LONG).await);
    let all = coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    all.iter().map(|document| document.get_i32("n").unwrap_or(-1)).collect()
}

fn push(id: i32) -> WriteModel {
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update: doc! {"$push": {"list": id}}.into(), upsert: false }
}

fn replace(id: i32, n: i32) -> WriteModel {
    WriteModel::ReplaceOne { filter: doc! {"_id": id}, replacement: doc! {"n": n}, upsert: false }
}

/// The list of each document, which has its `_id` once for each time that it was pushed.
async fn lists(client: &Client, coll: &Collection<Document>) -> Vec<Vec<i32>> {
    assert!(client.flush(LONG).await);
    let all = coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    let list = |one: &Document| one.get_array("list").map_or_else(|_| Vec::new(), |list| list.clone());
    all.iter().map(|one| list(one).iter().filter_map(Bson::as_i32).collect()).collect()
}

fn add_by_key(warehouse: i32, item: impl Into<bson::Bson>, amount: i32) -> WriteModel {
    let filter = doc! {"w": warehouse, "i": item.into()};
    WriteModel::UpdateOne { filter, update: doc! {"$inc": {"n": amount}}.into(), upsert: false }
}
