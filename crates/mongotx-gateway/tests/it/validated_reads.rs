//! Reads outside transactions with read concern `snapshot` or `linearizable`: their answers, the
//! source of further batches, and refusals.

use crate::common;

use std::time::Duration;

use bson::{Bson, Document, Timestamp, doc};
use common::{
    commands::{Client, Session, code, cursor_id, documents, is_ok},
    driver, gateway, soon,
};
use futures_util::future::join_all;
use mongodb::options::SessionOptions;
use mongotx::{ClientOptions, Isolation, Layout};
use mongotx_gateway::{GatewayOptions, Limits, SessionLimits};

const LEVELS: [&str; 2] = ["snapshot", "linearizable"];

fn at(level: &str, mut command: Document) -> Document {
    command.insert("readConcern", doc! {"level": level});
    command
}

async fn with_documents(client: &Client, count: i32) {
    let documents: Vec<Document> = (0..count).map(|n| doc! {"_id": n, "a": n % 2, "v": 1}).collect();
    client.ok(doc! {"insert": "c", "documents": documents}).await;
}

fn sorted(batch_size: i32) -> Document {
    doc! {"find": "c", "sort": {"_id": 1}, "batchSize": batch_size}
}

#[tokio::test]
async fn a_read_at_snapshot_is_answered_with_its_moment_where_drivers_look_for_it() {
    let client = Client::start("gw_validated_moment").await;
    with_documents(&client, 5).await;
    let pipeline = doc! {"aggregate": "c", "pipeline": [{"$group": {"_id": null, "n": {"$sum": "$v"}}}], "cursor": {}};
    let distinct = doc! {"distinct": "c", "key": "a"};
    for level in LEVELS {
        let is_there = level == "snapshot";
        let found = client.ok(at(level, sorted(9))).await;
        let cursor = found.get_document("cursor").unwrap();
        assert_eq!((documents(&found, "firstBatch").len(), cursor_id(&found)), (5, 0));
        assert_eq!(cursor.get_timestamp("atClusterTime").is_ok(), is_there, "{found}");
        let summed = client.ok(at(level, pipeline.clone())).await;
        assert_eq!(documents(&summed, "firstBatch"), [doc! {"_id": null, "n": 5}]);
        assert_eq!(summed.get_document("cursor").unwrap().contains_key("atClusterTime"), is_there, "{summed}");
        let values = client.ok(at(level, distinct.clone())).await;
        assert_eq!(values.get_array("values").unwrap(), &[Bson::Int32(0), Bson::Int32(1)]);
        assert_eq!(values.contains_key("atClusterTime"), is_there, "{values}");
    }
    assert!(!client.ok(sorted(9)).await.get_document("cursor").unwrap().contains_key("atClusterTime"));
    for (query, n) in [(doc! {}, 5), (doc! {"a": 1}, 2)] {
        let counted = client.ok(at("linearizable", doc! {"count": "c", "query": query})).await;
        assert_eq!(counted.get_i32("n").unwrap(), n);
    }
    let missing = client.ok(at("snapshot", doc! {"find": "missing"})).await;
    assert!(documents(&missing, "firstBatch").is_empty());
}

#[tokio::test]
async fn what_is_fetched_later_is_of_the_same_moment() {
    let client = Client::start("gw_validated_later").await;
    with_documents(&client, 10).await;
    let session = Session::new();
    for level in LEVELS {
        let before = client.all("c").await;
        let opened = client.ok(session.plain(at(level, sorted(3)))).await;
        let mut found = documents(&opened, "firstBatch");
        let change = doc! {"update": "c", "updates": [{"q": {}, "u": {"$inc": {"v": 1}}, "multi": true}]};
        client.ok(change).await;
        client.ok(doc! {"delete": "c", "deletes": [{"q": {"_id": before.len() as i32 - 1}, "limit": 1}]}).await;
        let mut id = cursor_id(&opened);
        let elsewhere = client.run_command(doc! {"getMore": id, "collection": "c"}).await;
        assert_eq!(code(&elsewhere), 50_737, "it belongs to its session");
        let moment = opened.get_document("cursor").unwrap().get("atClusterTime").cloned();
        while id != 0 {
            let mut more = doc! {"getMore": id, "collection": "c", "batchSize": 3};
            if let Some(moment) = &moment {
                // As PyMongo does in a snapshot session.
                more.insert("readConcern", doc! {"level": level, "atClusterTime": moment});
            }
            let more = client.ok(session.plain(more)).await;
            assert_eq!(more.get_document("cursor").unwrap().get("atClusterTime"), moment.as_ref());
            found.extend(documents(&more, "nextBatch"));
            id = cursor_id(&more);
        }
        assert_eq!(found, before, "{level}");
    }
}

#[tokio::test]
async fn a_forgotten_cursor_ends_even_where_the_client_wants_no_time_out() {
    let limits = SessionLimits { cursor_timeout: Duration::from_millis(1), ..SessionLimits::default() };
    let client = Client::with_limits(local_mongod::unique_db("gw_validated_forgotten"), limits).await;
    with_documents(&client, 10).await;
    let mut find = sorted(2);
    find.insert("noCursorTimeout", true);
    let forgotten = cursor_id(&client.ok(at("snapshot", find)).await);
    let over = async {
        // Asking is using: the next look comes within a second.
        loop {
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            if code(&client.run_command(doc! {"getMore": forgotten, "collection": "c", "batchSize": 1}).await) == 43 {
                return;
            }
        }
    };
    soon(over).await;
}

#[tokio::test]
async fn a_killed_cursor_of_a_validated_read_is_gone() {
    let client = Client::start("gw_validated_killed").await;
    with_documents(&client, 10).await;
    let id = cursor_id(&client.ok(at("snapshot", sorted(2))).await);
    let reply = client.ok(doc! {"killCursors": "c", "cursors": [id]}).await;
    assert_eq!(reply.get_array("cursorsKilled").unwrap(), &[Bson::Int64(id)]);
    assert_eq!(code(&client.run_command(doc! {"getMore": id, "collection": "c"}).await), 43);
}

#[tokio::test]
async fn answers_over_the_limits_are_refused_by_their_names() {
    let limits =
        SessionLimits { validated_read_documents: 20, validated_read_bytes: 1_000, ..SessionLimits::default() };
    let client = Client::with_limits(local_mongod::unique_db("gw_validated_limits"), limits).await;
    with_documents(&client, 21).await;
    client.ok(doc! {"insert": "c", "documents": [{"_id": 100, "v": "x".repeat(1_000)}]}).await;
    for level in LEVELS {
        for (filter, limit) in [(doc! {"_id": {"$lt": 21}}, "20 documents"), (doc! {"_id": 100}, "1000 bytes")] {
            let refused = client.run_command(at(level, doc! {"find": "c", "filter": filter, "batchSize": 1})).await;
            let words = refused.get_str("errmsg").unwrap();
            assert!(code(&refused) == 146 && words.contains(limit) && words.contains(level), "{refused}");
        }
        // The largest answer that is allowed: documents that the query does not select do not
        // count.
        let most = doc! {"find": "c", "filter": {"_id": {"$lt": 20}}, "batchSize": 50};
        assert_eq!(documents(&client.ok(at(level, most)).await, "firstBatch").len(), 20);
        for few in [doc! {"limit": 3}, doc! {"batchSize": 3, "singleBatch": true}] {
            let mut find = doc! {"find": "c", "sort": {"_id": 1}};
            find.extend(few);
            let found = client.ok(at(level, find)).await;
            assert_eq!((documents(&found, "firstBatch").len(), cursor_id(&found)), (3, 0));
        }
    }
}

#[tokio::test]
async fn what_waits_in_cursors_leaves_half_of_the_memory_to_others() {
    const LIMIT_BYTES: usize = 1024 * 1024;
    let limits = Limits { memory_bytes: LIMIT_BYTES, ..Limits::default() };
    let client = Client::with_options(
        local_mongod::unique_db("gw_validated_memory"),
        GatewayOptions { limits, ..GatewayOptions::default() },
    )
    .await;
    for id in 0..3 {
        client.ok(doc! {"insert": "c", "documents": [{"_id": id, "v": "x".repeat(LIMIT_BYTES / 5)}]}).await;
    }
    let first = |count: i32| at("snapshot", doc! {"find": "c", "limit": count, "batchSize": 0});
    assert_eq!(code(&client.run_command(first(3)).await), 146);
    let waits = cursor_id(&client.ok(first(2)).await);
    let refused = client.run_command(first(1)).await;
    assert!(code(&refused) == 146 && refused.get_str("errmsg").unwrap().contains("snapshot"), "{refused}");
    client.ok(doc! {"find": "c", "limit": 1}).await;
    client.ok(doc! {"getMore": waits, "collection": "c", "batchSize": 1}).await;
    client.ok(first(1)).await;
    client.ok(doc! {"killCursors": "c", "cursors": [waits]}).await;
}

#[tokio::test]
async fn a_moment_that_is_named_is_refused_everywhere() {
    let client = Client::start("gw_validated_named").await;
    with_documents(&client, 2).await;
    let found = client.ok(at("snapshot", sorted(9))).await;
    let moment = found.get_document("cursor").unwrap().get_timestamp("atClusterTime").unwrap();
    let session = Session::new();
    let named = |mut command: Document| {
        command.insert("readConcern", doc! {"level": "snapshot", "atClusterTime": moment});
        command
    };
    for command in [named(sorted(9)), session.first(named(sorted(9))), named(doc! {"distinct": "c", "key": "a"})] {
        let refused = client.run_command(command).await;
        assert!(code(&refused) == 239 && !refused.contains_key("errorLabels"), "{refused}");
        assert!(refused.get_str("errmsg").unwrap().contains("atClusterTime"), "{refused}");
    }
    let after = doc! {"level": "linearizable", "afterClusterTime": Timestamp { time: 1, increment: 1 }};
    let mut find = sorted(9);
    find.insert("readConcern", after);
    assert_eq!(code(&client.run_command(find).await), 72);
}

#[tokio::test]
async fn pipelines_that_write_and_other_commands_take_no_such_level() {
    let client = Client::start("gw_validated_writes").await;
    with_documents(&client, 2).await;
    let writing = |stage: Document| doc! {"aggregate": "c", "pipeline": [stage], "cursor": {}};
    let session = Session::new();
    for level in LEVELS {
        for command in [
            writing(doc! {"$out": "d"}),
            writing(doc! {"$merge": {"into": "d"}}),
            doc! {"insert": "c", "documents": [{"_id": 9}]},
            session.write(doc! {"insert": "c", "documents": [{"_id": 9}]}),
            doc! {"findAndModify": "c", "query": {"_id": 1}, "remove": true},
            doc! {"listCollections": 1},
        ] {
            let refused = client.run_command(at(level, command.clone())).await;
            assert!(code(&refused) == 72 && refused.get_str("errmsg").unwrap().contains(level), "{command}: {refused}");
        }
        for plan in [doc! {"explain": {"find": "c"}}, doc! {"aggregate": "c", "pipeline": [], "explain": true}] {
            assert_eq!(code(&client.run_command(at(level, plan)).await), 72);
        }
    }
    assert_eq!(code(&client.run_command(at("snapshot", doc! {"count": "c"})).await), 72);
    assert_eq!(client.all("c").await.len(), 2);
}

#[tokio::test]
async fn where_the_levels_cannot_be_had_the_refusal_says_why() {
    let client =
        ClientOptions { layout: Layout::Published, isolation: Isolation::ReadCommitted, ..ClientOptions::default() };
    let client = Client::with_options(
        local_mongod::unique_db("gw_validated_layout"),
        GatewayOptions { client, ..GatewayOptions::default() },
    )
    .await;
    with_documents(&client, 1).await;
    for level in LEVELS {
        let refused = client.run_command(at(level, sorted(9))).await;
        let words = refused.get_str("errmsg").unwrap();
        assert!(code(&refused) == 115 && words.contains(level) && words.contains("layout"), "{refused}");
    }
    client.ok(at("majority", sorted(9))).await;
}

/// A rival that is not decided holds the document read: after a while it is passed by, and the
/// document is read as it was.
#[tokio::test]
async fn a_linearizable_read_passes_by_a_rival_that_is_not_decided() {
    let client = Client::start("gw_validated_rival").await;
    with_documents(&client, 2).await;
    let rival = Session::new();
    client.ok(rival.first(doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"v": 1}}}]})).await;
    let find = |id: i32| doc! {"find": "c", "filter": {"_id": id}};
    let reads = [
        find(1),
        doc! {"aggregate": "c", "pipeline": [{"$group": {"_id": null, "n": {"$sum": "$v"}}}], "cursor": {}},
        doc! {"distinct": "c", "key": "v"},
        doc! {"count": "c", "query": {"v": 1}},
    ];
    // One of them at a time is given quiet; the others try again, a bounded number of times.
    for read in soon(join_all(reads.map(|read| client.run_command(at("linearizable", read))))).await {
        assert!([0, 262].contains(&code(&read)), "{read}");
    }
    client.ok(at("linearizable", doc! {"distinct": "c", "key": "v"})).await;
    let mut bounded = at("linearizable", find(1));
    bounded.insert("maxTimeMS", 50);
    assert_eq!(code(&client.run_command(bounded).await), 50);
    // No other reader waits.
    client.ok(at("linearizable", find(0))).await;
    assert_eq!(documents(&client.ok(at("snapshot", find(1))).await, "firstBatch"), [doc! {"_id": 1, "a": 1, "v": 1}]);
    assert!(is_ok(&client.run_on("admin", rival.commit()).await));
    let found = client.ok(at("linearizable", find(1))).await;
    assert_eq!(documents(&found, "firstBatch"), [doc! {"_id": 1, "a": 1, "v": 2}]);
}

#[tokio::test]
async fn a_snapshot_session_reads_once_and_the_second_read_is_refused_by_name() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let client = driver(address, "").await;
    let collection = client.database(&local_mongod::unique_db("gw_snapshot_session")).collection::<Document>("c");
    collection.insert_many((0..5).map(|n| doc! {"_id": n})).await.unwrap();
    for first in ["find", "aggregate", "distinct"] {
        let options = SessionOptions::builder().snapshot(true).build();
        let mut session = client.start_session().with_options(options).await.unwrap();
        match first {
            "find" => {
                let mut cursor = collection.find(doc! {}).batch_size(2).session(&mut session).await.unwrap();
                let mut count = 0;
                while let Some(found) = soon(cursor.next(&mut session)).await {
                    found.unwrap();
                    count += 1;
                }
                assert_eq!(count, 5);
            }
            "aggregate" => assert_eq!(collection.count_documents(doc! {}).session(&mut session).await.unwrap(), 5),
            _ => assert_eq!(collection.distinct("_id", doc! {}).session(&mut session).await.unwrap().len(), 5),
        }
        assert!(session.snapshot_time().is_some(), "{first}");
        let refused = soon(collection.find_one(doc! {}).session(&mut session)).await.unwrap_err();
        let mongodb::error::ErrorKind::Command(refused) = refused.kind.as_ref() else { panic!("{refused:?}") };
        assert!(refused.code == 239 && refused.message.contains("atClusterTime"), "{first}: {refused:?}");
    }
}
