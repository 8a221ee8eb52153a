//! Statements of a bulk under a unique index: one command with a question behind each, and what
//! becomes of them where another document has the key.

mod changes;
mod clients;
mod outside;
mod upserts;

use std::collections::BTreeMap;

use bson::{Document, doc};
use mongotx::{Client, Collection, IndexModel, Session, TransactionOptions, WriteModel};

use super::LONG;
use crate::quiet;

fn set(id: i32, k: i32) -> WriteModel {
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update: doc! {"$set": {"k": k}}.into(), upsert: false }
}

/// An update that takes two statements: one to lock the document, one to change it.
fn set_and_push(id: i32, k: i32) -> WriteModel {
    let update = doc! {"$set": {"k": k}, "$push": {"list": k}}.into();
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update, upsert: false }
}

fn replace(id: i32, k: i32) -> WriteModel {
    WriteModel::ReplaceOne { filter: doc! {"_id": id}, replacement: doc! {"k": k, "r": 1}, upsert: false }
}

fn upsert(id: i32, k: i32) -> WriteModel {
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update: doc! {"$set": {"k": k}}.into(), upsert: true }
}

fn upsert_by_key(k: i32) -> WriteModel {
    let update = doc! {"$inc": {"n": 1}}.into();
    WriteModel::UpdateOne { filter: doc! {"k": k}, update, upsert: true }
}

/// The documents 1 to `count`, each with ten times its `_id` as a unique key.
async fn keyed(client: &Client, count: i32) -> Collection<Document> {
    let coll = quiet::collection(client, 0).await;
    coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    for id in 1..=count {
        coll.insert_one(&doc! {"_id": id, "k": 10 * id}).await.unwrap();
    }
    assert!(client.flush(LONG).await);
    coll
}

async fn place(count: i32) -> (Client, Collection<Document>, Session) {
    let client = quiet::connect(quiet::options()).await;
    let coll = keyed(&client, count).await;
    let session = client.session_with(TransactionOptions { lock_wait: LONG, ..TransactionOptions::default() });
    (client, coll, session)
}

/// Every document's `_id` and key, when everything is finished.
async fn keys(client: &Client, coll: &Collection<Document>) -> Vec<(i32, i32)> {
    assert!(client.flush(LONG).await);
    let all = coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    all.iter().map(|one| (one.get_i32("_id").unwrap(), one.get_i32("k").unwrap())).collect()
}

fn each(count: i32, k: impl Fn(i32) -> i32) -> Vec<(i32, i32)> {
    (1..=count).map(|id| (id, k(id))).collect()
}

fn commands(some: &[(&str, u64)]) -> BTreeMap<String, u64> {
    some.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

fn places(error: &mongotx::Error) -> Vec<(usize, i32)> {
    error.write_errors().iter().map(|error| (error.index, error.code)).collect()
}
