//! Number of commands that each case costs: the table "Round trips to reach" of the protocol.
//!
//! Counted by the driver's command monitoring, which feeds `client.metrics().commands`; one test
//! compares that with what the server itself has counted. Registration and look-ups that are made
//! once (or once a minute) come before.

mod commits;
mod held;
mod reads;
mod writes;

use std::{collections::BTreeMap, future::Future, time::Duration};

use bson::{Bson, Document, doc};
use mongotx::{Client, ClientOptions, Collection, Session};

use crate::quiet::{self, commands_of};

const LIMIT: Duration = Duration::from_secs(10);

/// A client that has done everything once, and its collection.
async fn warm(options: ClientOptions) -> (Client, Collection<Document>) {
    let client = quiet::connect(options).await;
    let coll = quiet::collection(&client, 64).await;
    warm_up(&client, &coll).await;
    (client, coll)
}

async fn warm_up(client: &Client, coll: &Collection<Document>) {
    let mut session = client.session();
    session.begin().unwrap();
    increment(&mut session, coll, 64).await;
    session.commit().await.unwrap();
    assert_eq!(coll.find(doc! {"n": 2}).await.unwrap().try_collect().await.unwrap().len(), 1);
    assert!(client.flush(LIMIT).await);
}

async fn increment(session: &mut Session, coll: &Collection<Document>, id: i32) {
    let done = coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).session(session).await.unwrap();
    assert_eq!(done.matched_count, 1);
}

/// Ways to the server and back: commands in one write are one.
async fn cost<T>(client: &Client, work: impl Future<Output = T>) -> u64 {
    let before = client.metrics().sent_along;
    let commands: u64 = commands_of(client, work).await.values().sum();
    commands - (client.metrics().sent_along - before)
}

/// Commands that the server has counted since it was started, by name.
async fn counted_by_server(server: &mongodb::Client) -> BTreeMap<String, u64> {
    let status = server.database("admin").run_command(doc! {"serverStatus": 1}).await.unwrap();
    let commands = status.get_document("metrics").unwrap().get_document("commands").unwrap();
    let total = |stats: &Bson| stats.as_document()?.get_i64("total").ok().map(|total| total as u64);
    commands.iter().filter_map(|(name, stats)| Some((name.clone(), total(stats)?))).collect()
}

#[tokio::test]
async fn commands_counted_are_those_that_the_server_has_counted() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let plain = server.client().await.unwrap();
    let client = Client::connect_with(&server.uri(), quiet::options()).await.unwrap();
    let coll = quiet::collection(&client, 64).await;
    let before = counted_by_server(&plain).await;
    let sent = commands_of(&client, async {
        warm_up(&client, &coll).await;
        coll.find_one_and_update(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).await.unwrap();
        coll.delete_many(doc! {"n": 1}).await.unwrap();
        coll.insert_one(&doc! {"_id": 1000}).await.unwrap();
        assert!(client.flush(LIMIT).await);
    })
    .await;
    let after = counted_by_server(&plain).await;
    for name in ["aggregate", "delete", "find", "findAndModify", "insert", "update"] {
        let counted = after[name] - before[name];
        assert_eq!(sent.get(name).copied().unwrap_or(0), counted, "{name}");
    }
}
