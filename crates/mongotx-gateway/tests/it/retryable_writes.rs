//! A write that is sent again is answered again, and made once.

use crate::common;

use bson::{Document, doc};
use common::commands::{Client, Session, code, has_label};
use local_mongod::ServerOptions;
use mongotx_gateway::GatewayOptions;

async fn twice(client: &Client, session: &Session, command: Document) -> (Document, Document) {
    let first = client.run_command(session.write(command.clone())).await;
    (first, client.run_command(session.again(command)).await)
}

#[tokio::test]
async fn every_kind_of_write_is_made_once() {
    let client = Client::start("gw_retry").await;
    let session = Session::new();
    let inserts = doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]};
    let (first, again) = twice(&client, &session, inserts).await;
    assert_eq!(first, doc! {"n": 2, "ok": 1.0});
    assert_eq!(again, doc! {"n": 2, "retriedStmtIds": [0, 1], "ok": 1.0});
    let updates = doc! {"update": "c", "updates": [
        {"q": {"_id": 1}, "u": {"$inc": {"a": 1}}}, {"q": {"_id": 9}, "u": {"$inc": {"a": 1}}, "upsert": true},
    ]};
    let (first, again) = twice(&client, &session, updates).await;
    let upserted = doc! {"index": 1, "_id": 9};
    assert_eq!(first, doc! {"n": 2, "upserted": [upserted.clone()], "nModified": 1, "ok": 1.0});
    assert_eq!(again, doc! {"n": 2, "retriedStmtIds": [0, 1], "upserted": [upserted], "nModified": 1, "ok": 1.0});
    let modify = doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"a": 1}}, "new": true};
    let (first, again) = twice(&client, &session, modify).await;
    let done = doc! {"lastErrorObject": {"n": 1, "updatedExisting": true}, "value": {"_id": 1, "a": 2}, "ok": 1.0};
    assert_eq!(first, done);
    assert_eq!(again.get_i32("retriedStmtId").unwrap(), 0);
    assert_eq!(again.get("value"), done.get("value"));
    let (first, again) = twice(&client, &session, doc! {"delete": "c", "deletes": [{"q": {}, "limit": 1}]}).await;
    assert_eq!((first.get_i32("n").unwrap(), again.get_i32("n").unwrap()), (1, 1));
    assert_eq!(client.all("c").await.len(), 2);
}

#[tokio::test]
async fn a_statement_that_was_refused_is_tried_again() {
    let client = Client::start("gw_retry_refused").await;
    let session = Session::new();
    let inserts = doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 1}, {"_id": 2}]};
    let first = client.run_command(session.write(inserts.clone())).await;
    assert_eq!((first.get_i32("n").unwrap(), first.get_array("writeErrors").unwrap().len()), (1, 1));
    client.ok(doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]}).await;
    let again = client.run_command(session.again(inserts)).await;
    assert_eq!(again, doc! {"n": 3, "retriedStmtIds": [0], "ok": 1.0});
    assert_eq!(client.all("c").await, [doc! {"_id": 1}, doc! {"_id": 2}]);
}

#[tokio::test]
async fn what_cannot_be_retried_is_refused_as_by_the_server() {
    let client = Client::start("gw_retry_not").await;
    let session = Session::new();
    let code_of = |reply: Document| {
        let refused = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().clone();
        refused.get_i32("code").unwrap()
    };
    let many = doc! {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "multi": true}]};
    assert_eq!(code_of(client.run_command(session.write(many)).await), 72);
    let all = doc! {"delete": "c", "deletes": [{"q": {}, "limit": 0}]};
    assert_eq!(code_of(client.run_command(session.write(all)).await), 72);
    assert_eq!(code(&client.run_command(session.write(doc! {"find": "c"})).await), 50_768);
    let older = session.again(doc! {"insert": "c", "documents": [{"_id": 1}]});
    client.ok(session.write(doc! {"insert": "c", "documents": [{"_id": 2}]})).await;
    assert_eq!(code(&client.run_command(older).await), 225);
}

/// There the command goes to the server as it came, and what it answered is what is remembered.
#[tokio::test]
async fn writes_to_collections_in_which_nothing_is_locked_are_made_once() {
    let client = Client::start("gw_retry_plain").await;
    client.ok(doc! {"create": "capped", "capped": true, "size": 4_096}).await;
    client.ok(doc! {"insert": "capped", "documents": [{"_id": 1, "n": 0}]}).await;
    let session = Session::new();
    let increase = doc! {"update": "capped", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]};
    let (first, again) = twice(&client, &session, increase).await;
    assert_eq!((first.get_i32("nModified").unwrap(), again.get_i32("nModified").unwrap()), (1, 1));
    let modify = doc! {"findAndModify": "capped", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "new": true};
    let (first, again) = twice(&client, &session, modify).await;
    assert_eq!(first.get("value"), again.get("value"));
    assert_eq!(client.all("capped").await, [doc! {"_id": 1, "n": 2}]);
    // A write that was refused as a whole was not made.
    let nonsense = doc! {"update": "capped", "updates": [{"q": {"_id": 1}, "u": {"$nonsense": {"n": 1}}}]};
    let (first, again) = twice(&client, &session, nonsense).await;
    assert_eq!(first, again);
}

/// Messages of an attempt that was stopped may arrive yet: its outcome is not known, and it is not
/// sent a second time.
#[tokio::test]
async fn a_write_that_was_interrupted_is_not_tried_again() {
    let client = Client::start("gw_retry_stopped").await;
    client.ok(doc! {"insert": "c", "documents": [{"_id": 1, "n": 0}]}).await;
    let (holder, session) = (Session::new(), Session::new());
    let increase = doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]};
    client.ok(holder.first(increase.clone())).await;
    let mut hasty = increase.clone();
    hasty.insert("maxTimeMS", 50);
    assert_eq!(code(&client.run_command(session.write(hasty)).await), 50);
    client.run_on("admin", holder.abort()).await;
    for _ in 0..2 {
        let again = client.run_command(session.again(increase.clone())).await;
        assert_eq!(code(&again), 11_601, "{again}");
        assert!(!common::commands::has_label(&again, "RetryableWriteError"), "{again}");
    }
    // The first attempt may have been on its way.
    let stored = client.all("c").await[0].get_i32("n").unwrap();
    assert!(stored <= 1, "{stored}");
    client.ok(session.write(increase)).await;
}

/// The server gets them without their number, so it gives no labels by itself.
#[tokio::test]
async fn writes_that_go_to_the_server_as_they_are_have_the_label_of_what_may_be_sent_again() {
    let server = ServerOptions::standalone().arg("--setParameter").arg("enableTestCommands=1").start().await.unwrap();
    let db = local_mongod::unique_db("gw_retry_label");
    let client = Client::in_front_of(server.uri(), db.clone(), GatewayOptions::default()).await;
    client.ok(doc! {"create": "capped", "capped": true, "size": 4096}).await;
    let direct = server.client().await.unwrap();
    let failing = async |mut how: Document| {
        how.extend(doc! {"failCommands": ["insert"], "namespace": format!("{db}.capped")});
        let point = doc! {"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": how};
        direct.database("admin").run_command(point).await.unwrap();
    };
    let insert = |ids: &[i32]| {
        let documents: Vec<Document> = ids.iter().map(|id| doc! {"_id": id}).collect();
        doc! {"insert": "capped", "documents": documents}
    };
    let is_labelled = |reply: &Document| has_label(reply, "RetryableWriteError");
    let session = Session::new();
    // One statement was not made, and is made when it is sent again.
    failing(doc! {"errorCode": 10_107}).await;
    let (first, again) = twice(&client, &session, insert(&[1])).await;
    assert!(code(&first) == 10_107 && is_labelled(&first), "{first}");
    assert_eq!(again.get_i32("n").ok(), Some(1), "{again}");
    // Of several, the first may be made.
    failing(doc! {"errorCode": 91}).await;
    let (first, again) = twice(&client, &session, insert(&[2, 3])).await;
    assert!(code(&first) == 91 && !is_labelled(&first) && again == first, "{first} {again}");
    // The answer is lost: it is sent again, and not made again.
    failing(doc! {"closeConnection": true}).await;
    let (first, again) = twice(&client, &session, insert(&[4])).await;
    assert!(code(&first) == 6 && is_labelled(&first), "{first}");
    assert!(code(&again) == 6 && !is_labelled(&again), "{again}");
    // Without a number no driver sends it again.
    failing(doc! {"errorCode": 10_107}).await;
    let plain = client.run_command(insert(&[5])).await;
    assert!(code(&plain) == 10_107 && !is_labelled(&plain), "{plain}");
    assert_eq!(client.all("capped").await, [doc! {"_id": 1}]);
}

/// A server that is away for a moment: what never reached it is made when it is sent again.
#[tokio::test]
async fn writes_that_were_never_sent_are_made_when_they_are_sent_again() {
    let server = ServerOptions::standalone().start().await.unwrap();
    let db = local_mongod::unique_db("gw_retry_unsent");
    let client = Client::in_front_of(server.uri(), db, GatewayOptions::default()).await;
    client.ok(doc! {"create": "capped", "capped": true, "size": 4096}).await;
    client.ok(doc! {"insert": "capped", "documents": [{"_id": 1}]}).await;
    server.stop().await.unwrap();
    // The connections that were there are gone.
    assert_eq!(code(&client.run_on("admin", doc! {"buildInfo": 1}).await), 6);
    let session = Session::new();
    let insert = doc! {"insert": "capped", "documents": [{"_id": 2}, {"_id": 3}]};
    let unsent = client.run_command(session.write(insert.clone())).await;
    assert!(code(&unsent) == 6 && has_label(&unsent, "RetryableWriteError"), "{unsent}");
    server.restart().await.unwrap();
    let again = client.run_command(session.again(insert.clone())).await;
    assert_eq!(again.get_i32("n").ok(), Some(2), "{again}");
    assert_eq!(client.run_command(session.again(insert)).await, again);
    assert_eq!(client.all("capped").await, [doc! {"_id": 1}, doc! {"_id": 2}, doc! {"_id": 3}]);
}
