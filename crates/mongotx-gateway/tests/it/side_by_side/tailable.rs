//! Tailable cursors on capped collections.

use std::{net::SocketAddr, time::Duration};

use bson::{Document, doc};
use mongotx_gateway::Limits;

use crate::{
    common::{
        commands::{Session, code, cursor_id, documents},
        gateway,
        raw::{Raw, message},
        soon,
    },
    side_by_side::pair::Pair,
};

async fn capped(test: &str) -> Pair {
    let mut pair = Pair::start(test).await;
    pair.same(doc! {"create": "c", "capped": true, "size": 10_000}).await;
    pair.same(doc! {"create": "empty", "capped": true, "size": 10_000}).await;
    pair.same(doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}, {"_id": 3}]}).await;
    pair
}

fn tail(more: Document) -> Document {
    let mut find = doc! {"find": "c", "tailable": true};
    find.extend(more);
    find
}

/// The ids of the cursors that both open.
async fn open(pair: &mut Pair, find: Document) -> (i64, i64) {
    let (ours, theirs) = pair.words(find).await;
    assert_eq!(documents(&ours, "firstBatch"), documents(&theirs, "firstBatch"));
    (cursor_id(&ours), cursor_id(&theirs))
}

/// Sends the same `getMore` to both cursors, and checks that the answers are the same.
async fn more(pair: &mut Pair, (ours, theirs): (i64, i64), options: Document) -> Document {
    let get = |id: i64| {
        let mut get = doc! {"getMore": id, "collection": "c"};
        get.extend(options.clone());
        get
    };
    let (ours, theirs) = pair.ask_each(get(ours), get(theirs)).await;
    assert_eq!(ours, theirs);
    ours
}

#[tokio::test]
async fn what_comes_later_is_answered_the_same() {
    let mut pair = capped("cmp_tail").await;
    let ids =
        open(&mut pair, tail(doc! {"batchSize": 2, "projection": {"_id": 1}, "filter": {"_id": {"$gt": 0}}})).await;
    let options = doc! {"batchSize": 2};
    assert_eq!(documents(&more(&mut pair, ids, options.clone()).await, "nextBatch"), [doc! {"_id": 3}]);
    assert!(documents(&more(&mut pair, ids, options.clone()).await, "nextBatch").is_empty());
    pair.same(doc! {"insert": "c", "documents": [{"_id": 4}, {"_id": 5}, {"_id": 6}]}).await;
    let later = more(&mut pair, ids, options.clone()).await;
    assert_eq!(documents(&later, "nextBatch"), [doc! {"_id": 4}, doc! {"_id": 5}]);
    more(&mut pair, ids, doc! {"maxTimeMS": 50}).await;
    assert_eq!(documents(&more(&mut pair, ids, options.clone()).await, "nextBatch"), [doc! {"_id": 6}]);
    let (ours, theirs) = pair
        .ask_each(doc! {"killCursors": "c", "cursors": [ids.0]}, doc! {"killCursors": "c", "cursors": [ids.1]})
        .await;
    assert_eq!(
        (ours.get_array("cursorsKilled").unwrap().len(), theirs.get_array("cursorsKilled").unwrap().len()),
        (1, 1)
    );
    assert_eq!(code(&more(&mut pair, ids, options).await), 43);
}

#[tokio::test]
async fn cursors_that_await_data_are_answered_the_same() {
    let mut pair = capped("cmp_await").await;
    let ids = open(&mut pair, tail(doc! {"awaitData": true})).await;
    assert!(documents(&more(&mut pair, ids, doc! {"maxTimeMS": 20}).await, "nextBatch").is_empty());
    pair.same(doc! {"insert": "c", "documents": [{"_id": 4}]}).await;
    assert_eq!(documents(&more(&mut pair, ids, doc! {"maxTimeMS": 20}).await, "nextBatch"), [doc! {"_id": 4}]);
    // The collection goes, and the cursors with it.
    pair.same(doc! {"drop": "c"}).await;
    let dropped = more(&mut pair, ids, doc! {}).await;
    assert_ne!(code(&dropped), 0);
    assert_eq!(code(&more(&mut pair, ids, doc! {}).await), 43);
}

/// A `getMore` that waits gets what another client inserts meanwhile, long before its time is over.
#[tokio::test]
async fn a_fetch_that_awaits_data_is_answered_when_there_is_some() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let (mut reader, mut writer) = (Raw::connect(address).await, Raw::connect(address).await);
    let db = local_mongod::unique_db("tail_waits");
    let on = |mut command: Document| {
        command.insert("$db", &db);
        command
    };
    writer.ask(on(doc! {"create": "c", "capped": true, "size": 10_000})).await.unwrap();
    writer.ask(on(doc! {"insert": "c", "documents": [{"_id": 1}]})).await.unwrap();
    let first = reader.ask(on(tail(doc! {"awaitData": true}))).await.unwrap();
    let get = on(doc! {"getMore": cursor_id(&first), "collection": "c", "maxTimeMS": 3_600_000});
    let inserted = on(doc! {"insert": "c", "documents": [{"_id": 2}]});
    let (fetched, inserted) = tokio::join!(reader.ask(get), writer.ask(inserted));
    assert_eq!(inserted.unwrap().get_i32("n").unwrap(), 1);
    assert_eq!(documents(&fetched.unwrap(), "nextBatch"), [doc! {"_id": 2}]);
}

#[tokio::test]
async fn what_is_not_tailable_is_refused_the_same() {
    let mut pair = capped("cmp_tail_refused").await;
    pair.same(doc! {"insert": "plain", "documents": [{"_id": 1}]}).await;
    for command in [
        doc! {"find": "empty", "tailable": true},
        doc! {"find": "plain", "tailable": true},
        doc! {"find": "plain", "tailable": true, "awaitData": true},
        doc! {"find": "missing", "tailable": true},
        tail(doc! {"sort": {"_id": 1}}),
        tail(doc! {"singleBatch": true}),
        tail(doc! {"filter": {"a": {"$foo": 1}}}),
        doc! {"find": "c", "tailable": 5},
        doc! {"find": "c", "tailable": true, "awaitData": 5},
        doc! {"find": "c", "awaitData": true},
        doc! {"find": "c", "tailable": false, "sort": {"$natural": 1}},
    ] {
        pair.same(command).await;
    }
    let session = Session::new();
    pair.same(session.first(tail(doc! {}))).await;
    pair.same(session.commit()).await;
    for limit in [50, 0] {
        for batches in [doc! {"find": "c", "batchSize": 1}, tail(doc! {"batchSize": 1})] {
            let ids = open(&mut pair, batches).await;
            assert_eq!(code(&more(&mut pair, ids, doc! {"maxTimeMS": limit}).await), 2);
        }
    }
    let mut snapshot = tail(doc! {});
    snapshot.insert("readConcern", doc! {"level": "snapshot"});
    assert_eq!(code(&pair.ask(snapshot).await.0), 72);
}

/// A `getMore` that waits ends with its cursor, with the server's words, long before its time is
/// over.
#[tokio::test]
async fn a_fetch_that_awaits_data_ends_with_its_cursor() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let set = local_mongod::shared_replica_set().await.unwrap();
    let server = SocketAddr::from(([127, 0, 0, 1], set.port()));
    let shared = local_mongod::shared_standalone().await.unwrap();
    let mut ends = Vec::new();
    for (to, watched) in [(address, shared), (server, set)] {
        let (mut reader, mut other) = (Raw::connect(to).await, Raw::connect(to).await);
        let db = local_mongod::unique_db("tail_killed");
        let on = |mut command: Document| {
            command.insert("$db", &db);
            command
        };
        other.ask(on(doc! {"create": "c", "capped": true, "size": 10_000})).await.unwrap();
        other.ask(on(doc! {"insert": "c", "documents": [{"_id": 1}]})).await.unwrap();
        let first = reader.ask(on(tail(doc! {"awaitData": true}))).await.unwrap();
        let get = on(doc! {"getMore": cursor_id(&first), "collection": "c", "maxTimeMS": 3_600_000});
        reader.send(&message(&get, 0)).await;
        until_waits(watched, &format!("{db}.c")).await;
        let killed = other.ask(on(doc! {"killCursors": "c", "cursors": [cursor_id(&first)]})).await.unwrap();
        assert_eq!(killed.get_array("cursorsKilled").unwrap().len(), 1, "{killed}");
        if to == server {
            // The server looks for it when there is a document, or the time is over.
            other.ask(on(doc! {"insert": "c", "documents": [{"_id": 2}]})).await.unwrap();
        }
        let ended = reader.answer().await.unwrap();
        ends.push(["code", "codeName", "errmsg"].map(|field| ended.get(field).cloned()));
    }
    assert_eq!(ends[0], ends[1]);
    assert_eq!(ends[0][0], Some(237.into()));
}

/// Waits until a `getMore` in this collection runs on the server.
async fn until_waits(server: &local_mongod::Server, namespace: &str) {
    let admin = server.client().await.unwrap().database("admin");
    let waiting = doc! {"$match": {"command.getMore": {"$exists": true}, "ns": namespace}};
    soon(async {
        let waits = async || {
            let mut found = admin.aggregate([doc! {"$currentOp": {}}, waiting.clone()]).await.unwrap();
            found.advance().await.unwrap()
        };
        while !waits().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
