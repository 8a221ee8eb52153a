//! A client that goes away in the middle of a statement leaves no locks behind, and nothing that
//! runs on the server; one that comes back between two goes on.

use crate::common;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use bson::{Document, doc};
use common::{
    commands::{Client, Session, code, is_ok},
    gateway,
    raw::{Raw, message},
    soon,
};
use futures_util::{TryStreamExt, future::BoxFuture};
use mongotx::{ClientOptions, Step, StepHook};
use mongotx_gateway::{GatewayOptions, Limits};
use tokio::sync::Semaphore;

/// Holds the gateway when a lock was taken, once it is armed.
#[derive(Default)]
struct Gate {
    is_armed: AtomicBool,
    barrier: Arc<Barrier>,
}

/// A place at which the gateway is held: one permit says that it is there, another one lets it go
/// on.
struct Barrier {
    reached: Semaphore,
    passed: Semaphore,
}

impl Default for Barrier {
    fn default() -> Self {
        Self { reached: Semaphore::new(0), passed: Semaphore::new(0) }
    }
}

impl StepHook for Gate {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        let held = step == Step::AfterLock && self.is_armed.swap(false, Relaxed);
        let barrier = Arc::clone(&self.barrier);
        Box::pin(async move {
            if held {
                barrier.reached.add_permits(1);
                drop(barrier.passed.acquire().await);
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_whose_client_is_gone_is_rolled_back_with_its_transaction() {
    let gate = Arc::new(Gate::default());
    let client = ClientOptions { hook: Some(gate.clone()), ..ClientOptions::default() };
    let lost = Client::with_options(
        local_mongod::unique_db("gw_lost"),
        GatewayOptions { client, ..GatewayOptions::default() },
    )
    .await;
    let rival = Client::with_database(lost.db.clone()).await;
    rival.ok(doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]}).await;
    let session = Session::new();
    let update = |id: i32, set: i32| doc! {"update": "c", "updates": [{"q": {"_id": id}, "u": {"$set": {"a": set}}}]};
    lost.ok(session.first(update(2, 1))).await;
    gate.is_armed.store(true, Relaxed);
    let running = lost.run_command(session.next(update(1, 1)));
    let leaving = async {
        gate.barrier.reached.acquire().await.unwrap().forget();
        lost.disconnect().await;
        gate.barrier.passed.add_permits(1);
    };
    soon(async { tokio::join!(running, leaving) }).await;
    // Not after the 60 seconds that a transaction may be open: a rival in a transaction does not
    // wait for locks at all.
    let theirs = Session::new();
    rival.ok(theirs.first(update(1, 2))).await;
    rival.ok(theirs.next(update(2, 2))).await;
    assert!(is_ok(&rival.run_on("admin", theirs.commit()).await));
    assert_eq!(rival.all("c").await, [doc! {"_id": 1, "a": 2}, doc! {"_id": 2, "a": 2}]);
    assert_eq!(code(&lost.run_on("admin", session.commit()).await), 251);
}

#[tokio::test]
async fn a_connection_that_is_lost_between_statements_ends_nothing() {
    let mut client = Client::start("gw_lost_between").await;
    let session = Session::new();
    client.ok(session.first(doc! {"insert": "c", "documents": [{"_id": 1}]})).await;
    client.reconnect().await;
    assert!(is_ok(&client.run_on("admin", session.commit()).await));
    assert_eq!(client.all("c").await, [doc! {"_id": 1}]);
}

/// Reads that would take minutes.
fn slow_reads() -> Vec<Document> {
    let sleeps =
        doc! {"$expr": {"$function": {"body": "function() { sleep(100); return true; }", "args": [], "lang": "js"}}};
    vec![
        doc! {"find": "c", "filter": &sleeps},
        doc! {"count": "c", "query": &sleeps},
        doc! {"distinct": "c", "key": "x", "query": &sleeps},
        doc! {"aggregate": "c", "pipeline": [{"$match": &sleeps}], "cursor": {}},
        doc! {
            "mapReduce": "c", "map": "function() { sleep(100); emit(1, 1); }", "reduce": "function() { return 1; }",
            "out": {"inline": 1},
        },
    ]
}

/// Waits until the server runs something with this comment, or nothing any more.
async fn until_runs(server: &mongodb::Client, comment: &str, wanted: bool) {
    let admin = server.database("admin");
    let of_comment = doc! {"$match": {"command.comment": comment, "active": true}};
    loop {
        let running = admin.aggregate([doc! {"$currentOp": {"allUsers": true}}, of_comment.clone()]);
        let running: Vec<Document> = running.await.unwrap().try_collect().await.unwrap();
        if running.is_empty() != wanted {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_server_does_not_go_on_reading_for_lost_connections() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let server = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    let db = local_mongod::unique_db("gw_gone");
    let documents: Vec<Document> = (0..2_000).map(|x| doc! {"x": x}).collect();
    server.database(&db).collection("c").insert_many(documents).await.unwrap();
    for mut command in slow_reads() {
        for in_transaction in [false, true] {
            if in_transaction && ["count", "mapReduce"].iter().any(|name| command.contains_key(name)) {
                continue;
            }
            let comment = local_mongod::unique_db("comment");
            command.insert("comment", &comment);
            let mut sent = if in_transaction { Session::new().first(command.clone()) } else { command.clone() };
            sent.insert("$db", &db);
            let mut client = Raw::connect(address).await;
            client.send(&message(&sent, 0)).await;
            soon(until_runs(&server, &comment, true)).await;
            drop(client);
            soon(until_runs(&server, &comment, false)).await;
        }
    }
}
