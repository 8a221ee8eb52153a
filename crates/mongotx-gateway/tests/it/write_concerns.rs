//! What a write waits for before it is answered, in front of one server: the journal, if the client
//! demands it, and the error for more members than there are.

use bson::{Document, doc};
use local_mongod::{Server, ServerOptions};
use mongotx_gateway::GatewayOptions;

use crate::common::commands::{Client, Session, code, has_label, is_ok};

/// A server that writes its journal by itself as seldom as it can.
async fn lazy_server() -> Server {
    ServerOptions::standalone().arg("--journalCommitInterval").arg("500").start().await.unwrap()
}

#[tokio::test]
async fn what_is_to_be_in_the_journal_outlives_the_server() {
    let server = lazy_server().await;
    let db = local_mongod::unique_db("gw_concern_journal");
    let journal = || doc! {"w": 1, "j": true};
    let insert = |coll: &str, concern: Document| {
        doc! {"insert": coll, "documents": [{"_id": 1}], "writeConcern": concern}
    };
    let modify = doc! {"findAndModify": "modified", "query": {"_id": 1}, "update": {"$set": {"a": 1}}, "upsert": true,
    "writeConcern": journal()};
    for command in [
        insert("journaled", journal()),
        insert("fsynced", doc! {"fsync": true}),
        insert("majority", doc! {"w": "majority"}),
        insert("capped", journal()),
        modify,
    ] {
        let client = Client::in_front_of(server.uri(), db.clone(), GatewayOptions::default()).await;
        let coll = command.iter().next().and_then(|(_, coll)| coll.as_str()).unwrap().to_owned();
        let create = doc! {"create": &coll, "writeConcern": journal()};
        client.ok(if coll == "capped" { with(create, doc! {"capped": true, "size": 4096}) } else { create }).await;
        client.ok(command.clone()).await;
        server.kill().unwrap();
        server.restart().await.unwrap();
        let stored = server.client().await.unwrap().database(&db).collection::<Document>(&coll);
        assert_eq!(stored.count_documents(doc! {}).await.unwrap(), 1, "{command}");
    }
}

fn with(mut command: Document, more: Document) -> Document {
    command.extend(more);
    command
}

/// There the server gets the command as it came, which must not fail for the members that it has
/// not.
#[tokio::test]
async fn writes_that_go_to_the_server_as_they_are_miss_other_members() {
    let client = Client::start("gw_concern_plain").await;
    client.ok(doc! {"create": "capped", "capped": true, "size": 4096}).await;
    let session = Session::new();
    let insert = doc! {"insert": "capped", "documents": [{"_id": 1}], "writeConcern": {"w": 2, "j": true}};
    let session_insert = session.write(insert.clone());
    for again in [false, true] {
        let made = client.run_command(session_insert.clone()).await;
        assert!(is_ok(&made) && made.get_i32("n").unwrap() == 1, "{again} {made}");
        assert_eq!(code(made.get_document("writeConcernError").unwrap()), 100, "{again} {made}");
        assert!(!has_label(&made, "RetryableWriteError"), "{made}");
    }
    // A write that is refused as a whole has made nothing that could be lost.
    let wrong = doc! {"update": "capped", "updates": 5, "writeConcern": {"w": 2}};
    let refused = client.run_command(wrong).await;
    assert!(!is_ok(&refused) && !refused.contains_key("writeConcernError"), "{refused}");
    assert_eq!(client.all("capped").await, [doc! {"_id": 1}]);
}
