//! Retryable writes that every gateway remembers: sent to one and again to another, at the same
//! time or after the first one's end, they are made once.

use crate::common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bson::{Document, doc};
use common::{
    commands::{Client, Session, code, is_ok},
    soon,
};
use futures_util::future::BoxFuture;
use mongotx::{ClientOptions, Step, StepHook};
use mongotx_gateway::{GatewayOptions, RetryableWrites};
use tokio::sync::Semaphore;

fn durable() -> GatewayOptions {
    GatewayOptions { retryable_writes: RetryableWrites::Durable, ..GatewayOptions::default() }
}

/// Two gateways in front of one store.
async fn pair(test: &str) -> (Client, Client) {
    let one = Client::with_options(local_mongod::unique_db(test), durable()).await;
    let other = Client::with_options(one.db.clone(), durable()).await;
    (one, other)
}

/// Sends a command to one gateway, and again to the other.
async fn both(one: &Client, other: &Client, session: &Session, command: Document) -> (Document, Document) {
    let first = one.run_command(session.write(command.clone())).await;
    (first, other.run_command(session.again(command)).await)
}

fn increment(id: i32) -> Document {
    doc! {"update": "c", "updates": [{"q": {"_id": id}, "u": {"$inc": {"a": 1}}}]}
}

#[tokio::test]
async fn every_kind_of_write_is_made_once() {
    let (client, other) = pair("gw_durable").await;
    let session = Session::new();
    let inserts = doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]};
    let (first, again) = both(&client, &other, &session, inserts).await;
    assert_eq!(first, doc! {"n": 2, "ok": 1.0});
    assert_eq!(again, doc! {"n": 2, "retriedStmtIds": [0, 1], "ok": 1.0});
    let updates = doc! {"update": "c", "updates": [
        {"q": {"_id": 1}, "u": {"$inc": {"a": 1}}}, {"q": {"_id": 9}, "u": {"$inc": {"a": 1}}, "upsert": true},
    ]};
    let (first, again) = both(&client, &other, &session, updates).await;
    let upserted = doc! {"index": 1, "_id": 9};
    assert_eq!(first, doc! {"n": 2, "upserted": [upserted.clone()], "nModified": 1, "ok": 1.0});
    assert_eq!(again, doc! {"n": 2, "retriedStmtIds": [0, 1], "upserted": [upserted], "nModified": 1, "ok": 1.0});
    let modify = doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"a": 1}}, "new": true};
    let (first, again) = both(&client, &other, &session, modify).await;
    let done = doc! {"lastErrorObject": {"n": 1, "updatedExisting": true}, "value": {"_id": 1, "a": 2}, "ok": 1.0};
    assert_eq!(first, done);
    assert_eq!(again.get_i32("retriedStmtId").unwrap(), 0);
    assert_eq!(again.get("value"), done.get("value"));
    let (first, again) =
        both(&client, &other, &session, doc! {"delete": "c", "deletes": [{"q": {}, "limit": 1}]}).await;
    assert_eq!((first.get_i32("n").unwrap(), again.get_i32("n").unwrap()), (1, 1));
    assert_eq!(client.all("c").await.len(), 2);
}

#[tokio::test]
async fn without_it_another_gateway_makes_the_write_again() {
    let one = Client::start("gw_forgetful").await;
    let other = Client::with_database(one.db.clone()).await;
    let session = Session::new();
    one.ok(doc! {"insert": "c", "documents": [{"_id": 1, "a": 0}]}).await;
    both(&one, &other, &session, increment(1)).await;
    assert_eq!(one.all("c").await, [doc! {"_id": 1, "a": 2}]);
}

#[tokio::test]
async fn a_statement_that_was_refused_is_tried_again() {
    let (client, other) = pair("gw_durable_refused").await;
    let session = Session::new();
    let inserts = doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 1}, {"_id": 2}]};
    let first = client.run_command(session.write(inserts.clone())).await;
    assert_eq!((first.get_i32("n").unwrap(), first.get_array("writeErrors").unwrap().len()), (1, 1));
    client.ok(doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]}).await;
    let again = other.run_command(session.again(inserts.clone())).await;
    assert_eq!(again, doc! {"n": 3, "retriedStmtIds": [0], "ok": 1.0});
    assert_eq!(client.all("c").await, [doc! {"_id": 1}, doc! {"_id": 2}]);
    let last = client.run_command(session.again(inserts)).await;
    assert_eq!(last, doc! {"n": 3, "retriedStmtIds": [0, 1, 2], "ok": 1.0});
}

#[tokio::test]
async fn unordered_inserts_go_on_after_a_refused_one() {
    let (client, other) = pair("gw_durable_unordered").await;
    let session = Session::new();
    let inserts = doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 1}, {"_id": 2}], "ordered": false};
    let (first, again) = both(&client, &other, &session, inserts).await;
    for reply in [&first, &again] {
        assert_eq!(reply.get_i32("n").unwrap(), 2);
        let errors = reply.get_array("writeErrors").unwrap();
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].as_document().unwrap().get_i32("index").unwrap(), 1);
    }
}

#[tokio::test]
async fn an_older_number_is_refused_by_a_gateway_that_has_seen_none() {
    let (one, other) = pair("gw_durable_older").await;
    let session = Session::new();
    let older = session.write(increment(1));
    one.ok(older.clone()).await;
    one.ok(session.write(increment(1))).await;
    assert_eq!(code(&other.run_command(older).await), 225);
}

#[tokio::test]
async fn a_session_that_goes_from_gateway_to_gateway_writes_on() {
    let (one, other) = pair("gw_durable_turns").await;
    let session = Session::new();
    one.ok(doc! {"insert": "c", "documents": [{"_id": 1, "a": 0}]}).await;
    for _ in 0..4 {
        let (first, again) = both(&one, &other, &session, increment(1)).await;
        assert_eq!((first.get_i32("n").unwrap(), again.get_i32("n").unwrap()), (1, 1));
        both(&other, &one, &session, increment(1)).await;
    }
    assert_eq!(one.all("c").await, [doc! {"_id": 1, "a": 8}]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sent_to_both_at_the_same_time_it_is_made_once() {
    let (one, other) = pair("gw_durable_race").await;
    let session = Session::new();
    one.ok(doc! {"insert": "c", "documents": [{"_id": 0, "a": 0}]}).await;
    for round in 1..=10 {
        let insert = doc! {"insert": "c", "documents": [{"_id": round}]};
        let modify = doc! {"findAndModify": "c", "query": {"_id": 0}, "update": {"$inc": {"a": 1}}, "new": true};
        for command in [increment(0), insert, modify] {
            let command = session.write(command);
            let (first, second) =
                soon(async { tokio::join!(one.run_command(command.clone()), other.run_command(command)) }).await;
            for mut reply in [first.clone(), second.clone()] {
                assert!(is_ok(&reply) && !reply.contains_key("writeErrors"), "{reply}");
                reply.remove("retriedStmtIds");
                reply.remove("retriedStmtId");
                let [mut one, mut two] = [first.clone(), second.clone()];
                for answer in [&mut one, &mut two] {
                    answer.remove("retriedStmtIds");
                    answer.remove("retriedStmtId");
                }
                assert!(reply == one && reply == two, "{first} {second}");
            }
        }
        assert_eq!(one.all("c").await.first(), Some(&doc! {"_id": 0, "a": 2 * round}));
    }
}

/// Holds a gateway at a step once it is armed.
struct Gate {
    at: Step,
    armed: AtomicUsize,
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl StepHook for Gate {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        let held = step == self.at && self.armed.load(Relaxed) > 0;
        let (reached, open) = (Arc::clone(&self.reached), Arc::clone(&self.open));
        Box::pin(async move {
            if held {
                reached.add_permits(1);
                drop(open.acquire().await);
            }
        })
    }
}

/// The first gateway stands still at the step while the other one gets the same write.
async fn held_at(at: Step) {
    let [reached, open] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
    let gate =
        Arc::new(Gate { at, armed: AtomicUsize::new(0), reached: Arc::clone(&reached), open: Arc::clone(&open) });
    let client =
        ClientOptions { hook: Some(gate.clone()), lease: Duration::from_millis(500), ..ClientOptions::default() };
    let held =
        Client::with_options(local_mongod::unique_db("gw_durable_held"), GatewayOptions { client, ..durable() }).await;
    let other = Client::with_options(held.db.clone(), durable()).await;
    let session = Session::new();
    held.ok(session.write(doc! {"insert": "c", "documents": [{"_id": 1, "a": 0}]})).await;
    gate.armed.store(1, Relaxed);
    let command = session.write(increment(1));
    let late = async {
        let first = held.run_command(command.clone()).await;
        assert_eq!((first.get_i32("n").ok(), first.get_i32("nModified").ok()), (Some(1), Some(1)), "{first}");
    };
    let rival = async {
        reached.acquire().await.unwrap().forget();
        let again = other.run_command(command.clone()).await;
        assert_eq!((again.get_i32("n").ok(), again.get_i32("nModified").ok()), (Some(1), Some(1)), "{again}");
        gate.armed.store(0, Relaxed);
        open.add_permits(1_000);
    };
    soon(async { tokio::join!(late, rival) }).await;
    assert_eq!(other.all("c").await, [doc! {"_id": 1, "a": 1}], "{at:?}");
    other.ok(session.write(increment(1))).await;
    assert_eq!(other.all("c").await, [doc! {"_id": 1, "a": 2}], "{at:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_was_stopped_before_the_commit_finds_the_others_write() {
    held_at(Step::BeforeDecision).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_was_stopped_after_the_commit_has_made_the_write() {
    held_at(Step::AfterDecision).await;
}

#[tokio::test]
async fn results_beyond_the_limit_are_refused_and_nothing_is_made() {
    let (client, _) = pair("gw_durable_large").await;
    let session = Session::new();
    client.ok(doc! {"insert": "c", "documents": [{"_id": 1, "text": "x".repeat(5 << 20)}]}).await;
    let modify = doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"a": 1}}};
    let refused = client.run_command(session.write(modify)).await;
    assert_eq!(code(&refused), 10_334, "{}", refused.get_str("errmsg").unwrap());
    assert!(!client.all("c").await[0].contains_key("a"));
}

/// Commands with a pipeline that names this collection.
fn commands_with_pipelines(db: &str, coll: &str) -> Vec<Document> {
    let aggregate = |stage: Document| doc! {"aggregate": "c", "pipeline": [stage], "cursor": {}};
    let lookup = doc! {"$lookup": {"from": coll, "pipeline": [], "as": "x"}};
    vec![
        aggregate(doc! {"$out": {"db": db, "coll": coll}}),
        aggregate(doc! {"$merge": {"into": {"db": db, "coll": coll}}}),
        aggregate(doc! {"$merge": coll}),
        aggregate(doc! {"$unionWith": coll}),
        aggregate(
            doc! {"$graphLookup": {"from": coll, "startWith": "$a", "connectFromField": "a", "connectToField": "b", "as": "x"}},
        ),
        aggregate(doc! {"$facet": {"f": [lookup.clone()]}}),
        doc! {"explain": aggregate(lookup.clone())},
        doc! {"create": "v", "viewOn": coll, "pipeline": []},
        doc! {"create": "v", "viewOn": "c", "pipeline": [lookup.clone()]},
        doc! {"collMod": "old", "viewOn": coll, "pipeline": []},
        doc! {"collMod": "old", "viewOn": "c", "pipeline": [lookup]},
    ]
}

#[tokio::test]
async fn no_pipeline_reads_or_writes_records() {
    let (client, _) = pair("gw_durable_pipelines").await;
    client.ok(Session::new().write(increment(1))).await;
    let tx = format!("{}_tx", client.db);
    assert!(is_ok(&client.run_on(&tx, doc! {"insert": "c", "documents": [{"_id": 1}]}).await));
    assert!(is_ok(&client.run_on(&tx, doc! {"create": "old", "viewOn": "c", "pipeline": []}).await));
    for own in ["writes", "txs"] {
        for command in commands_with_pipelines(&tx, own) {
            let refused = client.run_on(&tx, command.clone()).await;
            assert_eq!(code(&refused), 13, "{command}: {refused}");
        }
        let elsewhere = doc! {"$out": {"db": &tx, "coll": own}};
        let refused = client.run_command(doc! {"aggregate": "c", "pipeline": [elsewhere], "cursor": {}}).await;
        assert_eq!(code(&refused), 13, "{refused}");
        // The names are free in other databases.
        for command in commands_with_pipelines(&client.db, own).into_iter().take(4) {
            client.ok(command).await;
        }
    }
    let records = local_mongod::shared_standalone().await.unwrap().client().await.unwrap().database(&tx);
    assert_eq!(records.collection::<Document>("writes").count_documents(doc! {}).await.unwrap(), 1);
}

#[tokio::test]
async fn records_are_hidden_and_removed_by_the_server_in_time() {
    let (client, _) = pair("gw_durable_hidden").await;
    client.ok(Session::new().write(increment(1))).await;
    let tx = format!("{}_tx", client.db);
    let listed = client.run_on(&tx, doc! {"listCollections": 1}).await;
    assert_eq!(common::commands::documents(&listed, "firstBatch"), Vec::<Document>::new());
    assert_eq!(code(&client.run_on(&tx, doc! {"find": "writes"}).await), 13);
    let all = client.run_on("admin", doc! {"listDatabases": 1, "filter": {"name": &tx}}).await;
    assert_eq!(all.get_array("databases").unwrap().len(), 0);
    let server = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    common::until_free(&server.database(&tx), "writes").await;
    let records = server.database(&tx).collection::<Document>("writes");
    let record = records.find_one(doc! {}).await.unwrap().unwrap();
    assert!(record.get_datetime("at").is_ok(), "{record}");
    let indexes = server.database(&tx).run_command(doc! {"listIndexes": "writes"}).await.unwrap().to_string();
    assert!(indexes.contains("expireAfterSeconds"), "{indexes}");
}

#[tokio::test]
async fn writes_to_capped_collections_go_to_the_server_as_they_are() {
    let (client, _) = pair("gw_durable_capped").await;
    client.ok(doc! {"create": "capped", "capped": true, "size": 4_096}).await;
    client.ok(Session::new().write(doc! {"insert": "capped", "documents": [{"_id": 1}]})).await;
    assert_eq!(client.all("capped").await, [doc! {"_id": 1}]);
}
