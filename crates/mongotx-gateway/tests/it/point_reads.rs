//! A `find` of one `_id` takes a shorter way through the gateway, and answers what the long one
//! answers.

use bson::{Binary, Document, Timestamp, doc, spec::BinarySubtype};

use crate::common::commands::Client;

/// The reply by the short way, which must be that of the long one: `skip: 0` has no effect, but
/// takes the long way.
async fn find(gateway: &Client, besides: Document) -> Document {
    let mut command = doc! {"find": "c", "filter": {"_id": 1}};
    command.extend(besides);
    let mut replies = Vec::new();
    for skip in [doc! {}, doc! {"skip": 0}] {
        let mut command = command.clone();
        command.extend(skip);
        replies.push(gateway.run_command(command).await);
    }
    assert_eq!(replies[0], replies[1], "{command}");
    replies.remove(0)
}

fn session() -> Document {
    doc! {"id": Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 16] }}
}

fn batch(reply: &Document) -> Vec<Document> {
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.iter().map(|one| one.as_document().unwrap().clone()).collect()
}

#[tokio::test]
async fn both_ways_answer_the_same() {
    let gateway = Client::start("point_reads").await;
    assert!(batch(&find(&gateway, doc! {}).await).is_empty());
    gateway.ok(doc! {"insert": "c", "documents": [{"_id": 1, "n": 1}, {"_id": "x"}]}).await;
    for besides in [
        doc! {},
        doc! {"limit": 1, "singleBatch": true},
        doc! {"limit": 1_i64, "batchSize": 2},
        doc! {"lsid": session()},
        doc! {"$readPreference": {"mode": "primary"}, "$clusterTime": {"clusterTime": Timestamp { time: 1, increment: 1 }}},
    ] {
        assert_eq!(batch(&find(&gateway, besides).await), [doc! {"_id": 1, "n": 1}]);
    }
    assert_eq!(batch(&find(&gateway, doc! {"filter": {"_id": "x"}}).await), [doc! {"_id": "x"}]);
    // A document that a transaction is about to change is as it was, and is as it became when that
    // has committed.
    let statement = |command: Document, starts: bool| {
        let mut command = command;
        command.extend(doc! {"lsid": session(), "txnNumber": 1_i64, "autocommit": false});
        if starts {
            command.insert("startTransaction", true);
        }
        command
    };
    let update = doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 2}}}]};
    gateway.ok(statement(update, true)).await;
    assert_eq!(batch(&find(&gateway, doc! {}).await), [doc! {"_id": 1, "n": 1}]);
    let commit = statement(doc! {"commitTransaction": 1}, false);
    gateway.run_on("admin", commit).await;
    assert_eq!(batch(&find(&gateway, doc! {}).await), [doc! {"_id": 1, "n": 2}]);
}

/// In a view an `_id` may be there several times.
#[tokio::test]
async fn views_show_all_that_have_the_id() {
    let gateway = Client::start("point_views").await;
    gateway.ok(doc! {"insert": "stored", "documents": [{"_id": 1, "of": [5, 6]}, {"_id": 2, "of": [7]}]}).await;
    gateway.ok(doc! {"create": "c", "viewOn": "stored", "pipeline": [{"$unwind": "$of"}]}).await;
    assert_eq!(batch(&find(&gateway, doc! {}).await), [doc! {"_id": 1, "of": 5}, doc! {"_id": 1, "of": 6}]);
    assert_eq!(batch(&find(&gateway, doc! {"limit": 1}).await), [doc! {"_id": 1, "of": 5}]);
}

#[tokio::test]
async fn refusals_are_the_same() {
    let gateway = Client::start("point_refusals").await;
    for besides in [
        doc! {"find": ""},
        doc! {"find": ".c"},
        doc! {"find": 5},
        doc! {"limit": -1, "batchSize": "x"},
        doc! {"lsid": {"id": 1}},
        doc! {"filter": {"_id": {"$nonsense": 1}}},
        doc! {"unknown": 1},
    ] {
        let refused = find(&gateway, besides.clone()).await;
        assert_eq!(refused.get("ok").and_then(bson::Bson::as_f64), Some(0.0), "{besides}: {refused}");
    }
}
