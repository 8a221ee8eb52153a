//! The limit on the bytes of all connections together: a client that would exceed it gets an error
//! and goes on. And the limit on messages before login.

use crate::common;

use std::{net::SocketAddr, time::Duration};

use bson::{Document, doc};
use common::{
    commands::{Client, Session, cursor_id, documents},
    gateway,
    http::{metric, with_metrics},
    raw::{Raw, message},
    soon,
    users::guarded,
};
use mongotx::{ChangeStreams, ClientOptions};
use mongotx_gateway::{
    Gateway, GatewayOptions, Limits,
    wire::{Compressor, compress, op_msg::MORE_TO_COME},
};

const LIMIT_BYTES: usize = 1024 * 1024;

fn ping() -> Document {
    doc! {"ping": 1, "$db": "admin"}
}

fn code(reply: Option<Document>) -> Option<i32> {
    reply.map(|reply| reply.get_i32("code").unwrap_or(0))
}

fn insert(db: &str, id: i32, bytes: usize) -> Document {
    doc! {"insert": "c", "documents": [{"_id": id, "text": "x".repeat(bytes)}], "$db": db}
}

/// Waits until the held bytes are enough.
async fn held(metrics: SocketAddr, enough: impl Fn(f64) -> bool) {
    let wanted = async {
        while !enough(metric(metrics, "mongotx_gateway_buffers_bytes").await.unwrap()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(wanted).await;
}

fn limited() -> Limits {
    Limits { memory_bytes: LIMIT_BYTES, ..Limits::default() }
}

#[tokio::test]
async fn requests_over_the_limit_are_refused_and_the_connection_stays() {
    let (_gateway, address) = gateway(limited()).await;
    let db = local_mongod::unique_db("gw_memory");
    let mut raw = Raw::connect(address).await;
    assert_eq!(code(raw.ask(insert(&db, 1, LIMIT_BYTES / 2)).await), Some(0));
    for _ in 0..3 {
        assert_eq!(code(raw.ask(insert(&db, 2, 2 * LIMIT_BYTES)).await), Some(146));
        assert_eq!(code(raw.ask(ping()).await), Some(0));
    }
    // One that wants no answer gets none.
    raw.send(&message(&insert(&db, 2, 2 * LIMIT_BYTES), MORE_TO_COME)).await;
    let pong = raw.ask(doc! {"whatsmyuri": 1, "$db": "admin"}).await.unwrap();
    assert!(pong.contains_key("you"), "{pong}");
    // The size after decompression counts. Whether an answer is wanted cannot be known: the
    // connection is closed.
    raw.send(&compress(&message(&insert(&db, 2, 2 * LIMIT_BYTES), 0), Compressor::ALL[1])).await;
    assert!(raw.is_closed().await);
    let count = Raw::connect(address).await.ask(doc! {"count": "c", "$db": &db}).await.unwrap();
    assert_eq!(count.get_i32("n").unwrap(), 1);
}

#[tokio::test]
async fn what_others_hold_counts_and_is_given_back_with_them() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let (gateway, metrics) = with_metrics(&server.uri(), limited()).await;
    let address = gateway.address().unwrap();
    let db = local_mongod::unique_db("gw_memory_others");
    let large_bytes = LIMIT_BYTES * 3 / 4;
    let mut large = message(&insert(&db, 1, large_bytes), 0);
    let last = large.pop().unwrap();
    let mut slow = Raw::connect(address).await;
    slow.send(&large).await;
    held(metrics, |bytes| bytes > large_bytes as f64).await;
    let mut other = Raw::connect(address).await;
    assert_eq!(code(other.ask(insert(&db, 2, LIMIT_BYTES / 2)).await), Some(146));
    assert_eq!(code(other.ask(ping()).await), Some(0));
    slow.send(&[last]).await;
    assert_eq!(code(slow.answer().await), Some(0));
    // An answer is sent before what it took is given back.
    held(metrics, |bytes| bytes == 0.0).await;
    assert_eq!(code(other.ask(insert(&db, 3, LIMIT_BYTES / 2)).await), Some(0));
}

#[tokio::test]
async fn answers_over_the_limit_are_refused() {
    let (_gateway, address) = gateway(limited()).await;
    let db = local_mongod::unique_db("gw_memory_answer");
    let mut raw = Raw::connect(address).await;
    for id in 0..4 {
        assert_eq!(code(raw.ask(insert(&db, id, LIMIT_BYTES / 2)).await), Some(0));
    }
    assert_eq!(code(raw.ask(doc! {"find": "c", "$db": &db}).await), Some(146));
    assert_eq!(code(raw.ask(doc! {"find": "c", "limit": 1, "$db": &db}).await), Some(0));
}

/// A gateway with that limit, the address of its metrics, a connection to it, and a database with a
/// document that is larger, and four that are half as large.
async fn beside_large_documents(test: &str) -> (Gateway, SocketAddr, Raw, String) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let (gateway, metrics) = with_metrics(&server.uri(), limited()).await;
    let raw = Raw::connect(gateway.address().unwrap()).await;
    let db = local_mongod::unique_db(test);
    let server = server.client().await.unwrap().database(&db);
    let large = doc! {"_id": 1, "n": 0, "text": "x".repeat(2 * LIMIT_BYTES)};
    server.collection("large").insert_one(large).await.unwrap();
    let halves = (0..4).map(|id| doc! {"_id": id, "text": "x".repeat(LIMIT_BYTES / 2)});
    server.collection("halves").insert_many(halves).await.unwrap();
    (gateway, metrics, raw, db)
}

fn on(db: &str, mut command: Document) -> Document {
    command.insert("$db", db);
    command
}

/// The client would send it again.
#[tokio::test]
async fn the_answer_to_a_write_is_sent_however_large_it_is() {
    let (_gateway, _, mut raw, db) = beside_large_documents("gw_memory_write").await;
    let session = Session::new();
    let add =
        || on(&db, doc! {"findAndModify": "large", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "new": true});
    for (n, command) in [(1, add()), (2, session.first(add())), (3, session.next(add()))] {
        let answer = raw.ask(command).await.unwrap();
        assert_eq!(answer.get_document("value").unwrap().get_i32("n").unwrap(), n);
    }
    assert_eq!(code(raw.ask(on("admin", session.commit())).await), Some(0));
    let stored = raw.ask(on(&db, doc! {"find": "large", "projection": {"n": 1}})).await.unwrap();
    assert_eq!(documents(&stored, "firstBatch"), [doc! {"_id": 1, "n": 3}]);
}

#[tokio::test]
async fn a_read_whose_answer_is_refused_ends_its_transaction() {
    let (_gateway, _, mut raw, db) = beside_large_documents("gw_memory_read").await;
    let session = Session::new();
    let insert = on(&db, doc! {"insert": "c", "documents": [{"_id": 1}]});
    assert_eq!(code(raw.ask(session.first(insert)).await), Some(0));
    assert_eq!(code(raw.ask(session.next(on(&db, doc! {"find": "large"}))).await), Some(146));
    assert_eq!(code(raw.ask(session.next(on(&db, doc! {"find": "c"}))).await), Some(251));
    assert_eq!(code(raw.ask(on("admin", session.commit())).await), Some(251));
    assert_eq!(raw.ask(on(&db, doc! {"count": "c"})).await.unwrap().get_i32("n").unwrap(), 0);
}

/// The next batch would be answered as if the refused one had never been.
#[tokio::test]
async fn a_batch_that_is_refused_ends_its_cursor() {
    let (_gateway, metrics, mut raw, db) = beside_large_documents("gw_memory_cursor").await;
    let opened = raw.ask(on(&db, doc! {"find": "halves", "batchSize": 1})).await.unwrap();
    let more = |size: i32| on(&db, doc! {"getMore": cursor_id(&opened), "collection": "halves", "batchSize": size});
    assert_eq!(code(raw.ask(more(2)).await), Some(146));
    assert_eq!(code(raw.ask(more(1)).await), Some(43));
    // Nobody knows the cursor of a first batch that was refused.
    assert_eq!(code(raw.ask(on(&db, doc! {"find": "halves", "batchSize": 3})).await), Some(146));
    assert_eq!(metric(metrics, "mongotx_gateway_cursors").await, Some(0.0));
}

/// What is remembered of a write takes memory until the session writes again. Where there is none,
/// the write is not made again all the same.
#[tokio::test]
async fn results_that_are_remembered_count() {
    let (_gateway, metrics, mut raw, db) = beside_large_documents("gw_memory_results").await;
    assert_eq!(code(raw.ask(insert(&db, 1, LIMIT_BYTES / 4)).await), Some(0));
    let session = Session::new();
    let add = |coll: &str| {
        let add = doc! {"findAndModify": coll, "query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "new": true};
        on(&db, add)
    };
    let kept = session.write(add("c"));
    assert_eq!(code(raw.ask(kept.clone()).await), Some(0));
    held(metrics, |bytes| bytes > LIMIT_BYTES as f64 / 4.0 && bytes < LIMIT_BYTES as f64 / 3.0).await;
    let again = raw.ask(kept).await.unwrap();
    assert_eq!(again.get_document("value").unwrap().get_i32("n").unwrap(), 1);
    let not_kept = session.write(add("halves"));
    assert_eq!(code(raw.ask(not_kept.clone()).await), Some(0));
    held(metrics, |bytes| bytes == 0.0).await;
    assert_eq!(code(raw.ask(not_kept).await), Some(217));
    let stored = raw.ask(on(&db, doc! {"find": "halves", "filter": {"_id": 1}, "projection": {"n": 1}})).await.unwrap();
    assert_eq!(documents(&stored, "firstBatch"), [doc! {"_id": 1, "n": 1}]);
}

#[tokio::test]
async fn strangers_have_little_to_say() {
    let (_gateway, address, _folder) = guarded(&[("ann@admin", "root")]).await;
    let long = doc! {"ping": 1, "comment": "x".repeat(100_000), "$db": "admin"};
    for bytes in [message(&long, 0), compress(&message(&long, 0), Compressor::ALL[1])] {
        let mut raw = Raw::connect(address).await;
        assert_eq!(code(raw.ask(ping()).await), Some(0));
        raw.send(&bytes).await;
        assert!(raw.is_closed().await);
    }
}

#[tokio::test]
async fn a_cursor_fetches_no_more_than_its_client_wants() {
    let (_gateway, metrics, mut raw, db) = beside_large_documents("gw_memory_wanted").await;
    let answer = raw.ask(doc! {"find": "halves", "batchSize": 1, "$db": &db}).await.unwrap();
    let id = cursor_id(&answer);
    // All of them together are twice the limit.
    for _ in 0..3 {
        let more = doc! {"getMore": id, "collection": "halves", "batchSize": 1, "$db": &db};
        let answer = raw.ask(more).await.unwrap();
        assert_eq!(documents(&answer, "nextBatch").len(), 1, "{answer}");
        held(metrics, |bytes| bytes == 0.0).await;
    }
}

#[tokio::test]
async fn events_that_wait_in_a_stream_are_bounded_and_counted() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let limits = Limits { memory_bytes: 64 * LIMIT_BYTES, ..Limits::default() };
    let client = ClientOptions { change_streams: ChangeStreams::All, ..ClientOptions::default() };
    let options = GatewayOptions { limits, client, ..GatewayOptions::default() };
    let client = Client::in_front_of(server.uri(), local_mongod::unique_db("gw_memory_events"), options).await;
    client.ok(doc! {"insert": "c", "documents": [{"_id": 1, "text": "x".repeat(3 * LIMIT_BYTES)}]}).await;
    let stage = doc! {"$changeStream": {"fullDocument": "updateLookup"}};
    let watch = doc! {"aggregate": "c", "pipeline": [stage], "cursor": {"batchSize": 0}};
    let id = cursor_id(&client.ok(watch).await);
    for _ in 0..40 {
        client.ok(doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]}).await;
    }
    // All of them together are twice the limit.
    for _ in 0..40 {
        let answer = client.ok(doc! {"getMore": id, "collection": "c", "batchSize": 1}).await;
        assert_eq!(documents(&answer, "nextBatch").len(), 1);
    }
}
