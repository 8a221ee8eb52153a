//! `bypassDocumentValidation`, beside a one-node replica set: what it lets in, in and outside
//! transactions, and what is judged afterwards. Documents that break the validator are finished and
//! given back like others.

use bson::{Bson, Document, doc};

use crate::{
    common::{
        commands::{Client, Session, is_ok},
        until_free,
    },
    side_by_side::pair::Pair,
};

fn bypassing(mut command: Document) -> Document {
    command.insert("bypassDocumentValidation", true);
    command
}

fn validated(name: &str) -> Document {
    doc! {"create": name, "validator": {"n": {"$gt": 0}}}
}

/// Writes that break the validator of `c`, one after the other.
fn breaking() -> Vec<Document> {
    vec![
        doc! {"insert": "c", "documents": [{"_id": 1, "n": -1}]},
        doc! {"insert": "c", "documents": [{"_id": 2, "n": -1}, {"_id": 3, "n": 3}, {"_id": 4}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 3}, "u": {"$set": {"n": -3}}}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 3}, "u": {"n": 0}}]},
        doc! {"update": "c", "updates": [{"q": {"n": {"$lt": 0}}, "u": {"$inc": {"n": -1}}, "multi": true}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}, {"q": {"_id": 2}, "u": [{"$set": {"a": 2}}]}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 5}, "u": {"$set": {"n": -5}}, "upsert": true}]},
        doc! {"findAndModify": "c", "query": {"_id": 5}, "update": {"$inc": {"n": -1}}, "new": true},
        doc! {"findAndModify": "c", "query": {"_id": 6}, "update": {"n": -6}, "upsert": true, "new": true},
    ]
}

fn everything() -> Document {
    doc! {"find": "c", "sort": {"_id": 1}}
}

#[tokio::test]
async fn outside_transactions_it_is_heeded_as_by_the_server() {
    let mut pair = Pair::start("bypass").await;
    pair.same(validated("c")).await;
    pair.same(validated("d")).await;
    for command in breaking() {
        pair.ask(command.clone()).await;
        pair.same(bypassing(command)).await;
        pair.same(everything()).await;
    }
    for (target, stage) in [("d", doc! {"$merge": "d"}), ("e", doc! {"$out": "e"})] {
        let command = doc! {"aggregate": "c", "pipeline": [{"$sort": {"_id": 1}}, stage], "cursor": {}};
        pair.ask(command.clone()).await;
        pair.same(bypassing(command)).await;
        pair.same(doc! {"find": target, "sort": {"_id": 1}}).await;
    }
    // Documents are judged if the option is not set.
    for off in [Bson::Boolean(false), 0.into(), Bson::Null] {
        let mut command = doc! {"insert": "c", "documents": [{"_id": 9, "n": -1}]};
        command.insert("bypassDocumentValidation", off);
        pair.same(command).await;
    }
    for of_another_type in [Bson::from("x"), doc! {}.into(), vec![Bson::Null].into()] {
        for mut command in
            breaking().into_iter().chain([doc! {"delete": "c", "deletes": [{"q": {"_id": 99}, "limit": 1}]}])
        {
            command.insert("bypassDocumentValidation", of_another_type.clone());
            pair.same(command).await;
        }
    }
}

/// A unique index makes of each write a transaction of its own: there the pending version is
/// judged.
#[tokio::test]
async fn beside_a_unique_index_it_is_heeded_as_by_the_server() {
    let mut pair = Pair::start("bypass_unique").await;
    pair.same(validated("c")).await;
    let index =
        doc! {"createIndexes": "c", "indexes": [{"key": {"u": 1}, "name": "u", "unique": true, "sparse": true}]};
    pair.same(index).await;
    for command in breaking() {
        pair.same(bypassing(command)).await;
        pair.same(everything()).await;
    }
}

#[tokio::test]
async fn in_transactions_it_is_heeded_as_by_the_server() {
    let mut pair = Pair::start("bypass_tx").await;
    for commits in [true, false] {
        pair.same(doc! {"drop": "c"}).await;
        pair.same(validated("c")).await;
        pair.same(bypassing(doc! {"insert": "c", "documents": [{"_id": 0, "n": -9}]})).await;
        let session = Session::new();
        for (n, command) in breaking().into_iter().enumerate() {
            let command = bypassing(command);
            pair.same(if n == 0 { session.first(command) } else { session.next(command) }).await;
            pair.same(session.next(everything())).await;
        }
        pair.same(
            session.next(bypassing(doc! {"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"n": 1}}}]})),
        )
        .await;
        pair.same(if commits { session.commit() } else { session.abort() }).await;
        pair.same(everything()).await;
    }
}

/// A statement that does not bypass the validator is judged, also of a document that the
/// transaction has written past it.
#[tokio::test]
async fn later_statements_of_a_transaction_are_judged() {
    let mut pair = Pair::start("bypass_later").await;
    pair.same(validated("c")).await;
    for judged in [
        doc! {"insert": "c", "documents": [{"_id": 2, "n": -1}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]},
        doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"n": -1}}},
    ] {
        let session = Session::new();
        pair.same(session.first(bypassing(doc! {"insert": "c", "documents": [{"_id": 1, "n": -1}]}))).await;
        let (ours, theirs) = pair.ask(session.next(judged.clone())).await;
        let codes = |reply: &Document| {
            let first = reply.get_array("writeErrors").ok().and_then(|errors| errors.first()?.as_document().cloned());
            first.as_ref().unwrap_or(reply).get_i32("code").ok()
        };
        assert_eq!((codes(&ours), codes(&theirs)), (Some(121), Some(121)), "{judged}: {ours} {theirs}");
        pair.same(session.abort()).await;
    }
}

/// Nothing is left of the transaction in what it has written past the validator, whether it was
/// committed or rolled back.
#[tokio::test]
async fn documents_that_break_the_validator_are_finished() {
    let client = Client::start("bypass_finished").await;
    let server = local_mongod::shared_standalone().await.unwrap();
    let stored = mongodb::Client::with_uri_str(server.uri()).await.unwrap().database(&client.db);
    client.ok(validated("c")).await;
    client.ok(doc! {"insert": "c", "documents": [{"_id": 3, "n": 3}, {"_id": 5, "n": 5}]}).await;
    let commands = [
        doc! {"insert": "c", "documents": [{"_id": 1, "n": -1}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 3}, "u": {"$set": {"n": -3}}}]},
        doc! {"delete": "c", "deletes": [{"q": {"_id": 5}, "limit": 1}]},
    ];
    for commits in [false, true] {
        let session = Session::new();
        for (n, command) in commands.clone().map(bypassing).into_iter().enumerate() {
            client.ok(if n == 0 { session.first(command) } else { session.next(command) }).await;
        }
        let end = if commits { session.commit() } else { session.abort() };
        assert!(is_ok(&client.run_on("admin", end).await));
        until_free(&stored, "c").await;
        let expected = match commits {
            false => vec![doc! {"_id": 3, "n": 3}, doc! {"_id": 5, "n": 5}],
            true => vec![doc! {"_id": 1, "n": -1}, doc! {"_id": 3, "n": -3}],
        };
        assert_eq!(client.all("c").await, expected);
    }
}
