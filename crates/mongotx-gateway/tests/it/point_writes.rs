//! Writes of one document take a shorter way through the gateway, and do and answer what they do by
//! the long one.

use bson::{Binary, Document, doc, spec::BinarySubtype};

use crate::common::commands::{Client, Session, code};

/// A command that takes the long way, because it has a time limit.
fn long(mut command: Document) -> Document {
    command.insert("maxTimeMS", 60_000);
    command
}

/// The reply by the short way, in one collection, which is that by the long way in another that is
/// alike.
async fn run_command(gateway: &Client, command: Document) -> Document {
    let renamed = |coll: &str| {
        let mut command = command.clone();
        let name = command.keys().next().unwrap().clone();
        if command.get_str(&name).is_ok_and(|coll| coll == "c") {
            command.insert(name, coll);
        }
        command
    };
    let (short, other) =
        (gateway.run_command(renamed("short")).await, gateway.run_command(long(renamed("long"))).await);
    assert_eq!(unnamed(&short, "short"), unnamed(&other, "long"), "{command}");
    assert_eq!(gateway.all("short").await, gateway.all("long").await, "{command}");
    short
}

/// The text of a reply without the collection's name, which errors have.
fn unnamed(reply: &Document, coll: &str) -> String {
    let text = reply.to_string().replace(&format!(".{coll}"), ".c");
    // The holder of a document is another transaction each time.
    text.split("is held by").next().unwrap().to_owned()
}

fn commands() -> Vec<Document> {
    let update = |q: Document, u: Document| doc! {"update": "c", "updates": [{"q": q, "u": u}]};
    let insert = |document: Document| doc! {"insert": "c", "documents": [document]};
    vec![
        update(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}),
        insert(doc! {"_id": 1, "n": 1}),
        insert(doc! {"_id": 1, "n": 1}),
        update(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}),
        update(doc! {"_id": 1}, doc! {"n": 5, "m": [1, {"a": 1}]}),
        update(doc! {"_id": 1}, doc! {"n": 5, "m": [1, {"a": 1}]}),
        update(doc! {"_id": 1}, doc! {"_id": 2}),
        update(doc! {"_id": 1}, doc! {"$inc": {"m": 1}}),
        update(doc! {"_id": 1}, doc! {"$set": {"_slot": 1}}),
        update(doc! {"_id": 1}, doc! {"$nonsense": {"a": 1}}),
        insert(doc! {"_id": 2, "_unsafe": {}}),
        insert(doc! {"_id": [2]}),
        insert(doc! {"_id": 3, "a.b": 1, "$c": 1}),
        doc! {"insert": "", "documents": [{"_id": 1}]},
        doc! {"insert": "c", "documents": [{"_id": 5}], "lsid": {"id": 1}},
        doc! {"insert": "c", "documents": [{"_id": 5}], "txnNumber": 1_i64},
        doc! {"insert": "c", "documents": [{"_id": 6}], "lsid": {"id": Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 16] }}},
        doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
        doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}], "ordered": false},
    ]
}

#[tokio::test]
async fn both_ways_do_and_answer_the_same() {
    let gateway = Client::start("point_writes").await;
    for command in commands() {
        run_command(&gateway, command).await;
    }
}

#[tokio::test]
async fn documents_that_somebody_holds_are_in_the_way_of_both() {
    let options = mongotx_gateway::GatewayOptions {
        client: mongotx::ClientOptions {
            write_wait: std::time::Duration::from_millis(20),
            ..mongotx_gateway::GatewayOptions::default().client
        },
        ..mongotx_gateway::GatewayOptions::default()
    };
    let gateway = Client::with_options(local_mongod::unique_db("point_held"), options).await;
    let holder = Session::new();
    for coll in ["short", "long"] {
        gateway.ok(doc! {"insert": coll, "documents": [{"_id": 1, "n": 1}]}).await;
    }
    let change = |coll: &str| doc! {"update": coll, "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 2}}}]};
    gateway.ok(holder.first(change("short"))).await;
    gateway.ok(holder.next(change("long"))).await;
    for command in [
        doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]},
        doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
    ] {
        let refused = run_command(&gateway, command.clone()).await;
        assert_eq!(code(&refused), 112, "{command}: {refused}");
    }
}

/// Sent again, it is answered from what the session remembers, whichever way it came first.
#[tokio::test]
async fn a_write_that_is_sent_again_is_made_once() {
    let gateway = Client::start("point_again").await;
    let session = Session::new();
    gateway.ok(doc! {"insert": "c", "documents": [{"_id": 1, "n": 0}]}).await;
    let increase = doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]};
    let again = doc! {"n": 1, "retriedStmtIds": [0], "nModified": 1, "ok": 1.0};
    for (first, second) in [
        (increase.clone(), increase.clone()),
        (long(increase.clone()), increase.clone()),
        (increase.clone(), long(increase.clone())),
    ] {
        assert_eq!(gateway.run_command(session.write(first)).await, doc! {"n": 1, "nModified": 1, "ok": 1.0});
        assert_eq!(gateway.run_command(session.again(second)).await, again);
    }
    assert_eq!(gateway.all("c").await, [doc! {"_id": 1, "n": 3}]);
    let insert = doc! {"insert": "c", "documents": [{"_id": 2}]};
    assert_eq!(gateway.run_command(session.write(insert.clone())).await, doc! {"n": 1, "ok": 1.0});
    assert_eq!(gateway.run_command(session.again(insert)).await, doc! {"n": 1, "retriedStmtIds": [0], "ok": 1.0});
    let delete = doc! {"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}]};
    let older = session.again(delete.clone());
    assert_eq!(gateway.run_command(session.write(delete.clone())).await, doc! {"n": 1, "ok": 1.0});
    assert_eq!(
        gateway.run_command(session.again(delete.clone())).await,
        doc! {"n": 1, "retriedStmtIds": [0], "ok": 1.0}
    );
    // A number below the newest is refused.
    assert_eq!(code(&gateway.run_command(older).await), 225);
    // A new number ends the transaction that is open under an older one.
    let held = doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 77}}}]};
    gateway.ok(session.first(held)).await;
    assert_eq!(gateway.run_command(session.write(increase)).await, doc! {"n": 1, "nModified": 1, "ok": 1.0});
    assert_eq!(gateway.all("c").await, [doc! {"_id": 1, "n": 4}]);
}
