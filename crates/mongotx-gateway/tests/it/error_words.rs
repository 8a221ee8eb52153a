//! The words of errors: the server's where the server refuses, none of MongoTx's stored fields,
//! nothing of a driver's or this program's debug output, and the option by which a limit is set.

use bson::{Document, doc};
use mongotx::ClientOptions;
use mongotx_gateway::{GatewayOptions, RetryableWrites};

use crate::{
    common::commands::{Client, Session, code, has_label, is_ok},
    side_by_side::pair::Pair,
};

/// Checks that the words hold nothing that only MongoTx, the driver or a debugger knows.
fn assert_plain(words: &str, what: impl std::fmt::Display) {
    let not_the_applications = [
        "_unsafe", "_xTxId", "_sTxIds", "_insert", "_remove", "_slot", "_mongotx", "txs", "mongotx.", "Kind:",
        "labels:", "Topology", "Some(", "Err(",
    ];
    for odd in not_the_applications {
        assert!(!words.contains(odd), "{odd} in the error of {what}: {words}");
    }
}

/// Writes that the server refuses for what the document would be, or for what it is.
fn refused() -> Vec<Document> {
    let update = |collection: &str, change: Document| {
        doc! {"update": collection, "updates": [{"q": {"_id": 1}, "u": change}]}
    };
    let pipeline = |collection: &str, stage: Document| {
        doc! {"update": collection, "updates": [{"q": {"_id": 1}, "u": [stage]}]}
    };
    vec![
        update("c", doc! {"$inc": {"a": 1}}),
        update("c", doc! {"$push": {"a": 1}}),
        update("c", doc! {"$set": {"a.b": 1}}),
        update("c", doc! {"$set": {"u": 2}}),
        pipeline("c", doc! {"$replaceWith": "$a"}),
        pipeline("c", doc! {"$set": {"x": {"$divide": ["$a", 1]}}}),
        doc! {"findAndModify": "c", "query": {"_id": 1}, "update": [{"$replaceWith": "$a"}]},
        doc! {"insert": "c", "documents": [{"_id": 9, "u": 1}]},
        doc! {"insert": "c", "documents": [{"_id": 1}]},
        doc! {"insert": "g", "documents": [{"_id": 9, "g": "x"}]},
        doc! {"insert": "g", "documents": [{"_id": 9, "g": {"type": "Point", "coordinates": [500, 1]}}]},
        doc! {"insert": "g", "documents": [{"_id": 9, "h": [1e9, 1]}]},
        doc! {"insert": "g", "documents": [{"_id": 9, "k": [1], "l": [2]}]},
        update("g", doc! {"$set": {"g": "x"}}),
        update("g", doc! {"$set": {"h": [1e9, 1]}}),
        update("g", doc! {"$set": {"k": [1], "l": [2]}}),
        doc! {"find": "c", "filter": {"a": {"$near": [0, 0]}}},
        doc! {"find": "c", "hint": "none"},
        doc! {"aggregate": "c", "pipeline": [{"$replaceWith": "$a"}], "cursor": {}},
    ]
}

async fn prepared(test: &str) -> Pair {
    let mut pair = Pair::start(test).await;
    let index = |key: Document, name: &str| doc! {"key": key, "name": name};
    let mut unique = index(doc! {"u": 1}, "u");
    unique.insert("unique", true);
    let geo =
        vec![index(doc! {"g": "2dsphere"}, "g"), index(doc! {"h": "2d"}, "h"), index(doc! {"k": 1, "l": 1}, "kl")];
    pair.same(doc! {"createIndexes": "c", "indexes": [unique]}).await;
    pair.same(doc! {"createIndexes": "g", "indexes": geo}).await;
    pair.same(doc! {"insert": "c", "documents": [{"_id": 1, "a": "x", "u": 1}, {"_id": 2, "u": 2}]}).await;
    pair.same(doc! {"insert": "g", "documents": [{"_id": 1, "g": [0, 0]}]}).await;
    pair
}

/// Where the server has rewritten a query, its words about the query are left out.
fn without_tree(words: &str) -> String {
    let begins = "error processing query: ";
    let reason = words.split_once("planner returned error").map(|(_, reason)| reason);
    match (words.split_once(begins), reason) {
        (Some((before, _)), Some(reason)) => format!("{before}{begins}{reason}"),
        _ => words.to_owned(),
    }
}

/// Both errors' words without the document that a pipeline has read: the server may read a part of
/// it, and the gateway's view reads all of it.
fn without_input((ours, theirs): (String, String)) -> (String, String) {
    let before = |words: String| words.split(" Input document: ").next().unwrap_or_default().to_owned();
    (before(ours), before(theirs))
}

fn assert_same((ours, theirs): (String, String), what: &str) {
    assert_plain(&ours, what);
    assert!(!theirs.is_empty(), "{what} is not refused");
    // Only the place distinguishes one kind of command from another.
    let place = "PlanExecutor error during aggregation :: caused by :: ";
    let of = |words: &str| {
        without_tree(&words.replace(place, "").replace("Plan executor error during findAndModify :: caused by :: ", ""))
    };
    assert_eq!(of(&ours), of(&theirs), "{what}");
}

#[tokio::test]
async fn what_the_server_refuses_it_refuses_in_its_own_words() {
    let mut pair = prepared("words").await;
    for command in refused() {
        let words = pair.errors_words(command.clone()).await;
        assert_same(words, &command.to_string());
    }
}

#[tokio::test]
async fn the_words_are_the_same_in_transactions() {
    let mut pair = prepared("words_tx").await;
    for command in refused() {
        for has_written in [false, true] {
            let session = Session::new();
            let what = format!("{command}, has written: {has_written}");
            let words = if has_written {
                for collection in ["c", "g"] {
                    let own = doc! {"update": collection, "updates": [{"q": {"_id": 1}, "u": {"$set": {"own": 1}}}]};
                    pair.same(if collection == "c" { session.first(own) } else { session.next(own) }).await;
                }
                pair.errors_words(session.next(command.clone())).await
            } else {
                pair.errors_words(session.first(command.clone())).await
            };
            let is_own_view = has_written && command.contains_key("aggregate");
            assert_same(if is_own_view { without_input(words) } else { words }, &what);
            pair.ask(session.abort()).await;
        }
    }
}

/// A TTL index is stored with a condition of MongoTx's own.
#[tokio::test]
async fn refused_indexes_are_shown_as_they_were_asked_for() {
    let mut pair = Pair::start("words_index").await;
    let index = doc! {"key": {"t": 1}, "name": "t", "expireAfterSeconds": "x"};
    let (ours, theirs) = pair.errors_words(doc! {"createIndexes": "c", "indexes": [index]}).await;
    assert_plain(&ours, "a TTL index");
    let reason = "TTL index 'expireAfterSeconds' option must be numeric, but received a type of 'string'";
    assert!(ours.starts_with(reason) && theirs.starts_with(reason), "{ours}\n{theirs}");
}

/// The server is gone for good.
#[tokio::test]
async fn a_server_that_is_gone_is_reported_without_the_drivers_states() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let uri = format!("{}&serverSelectionTimeoutMS=100", server.uri());
    let client = Client::in_front_of(uri, local_mongod::unique_db("words_gone"), GatewayOptions::default()).await;
    client.ok(doc! {"insert": "c", "documents": [{"_id": 1, "a": 1}]}).await;
    let (reads, writes) = (Session::new(), Session::new());
    client.ok(reads.first(doc! {"find": "c"})).await;
    client.ok(writes.first(doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 2}}}]})).await;
    server.kill().unwrap();
    for command in [
        doc! {"find": "c", "filter": {"_id": 1}, "limit": 1, "singleBatch": true},
        doc! {"find": "c"},
        doc! {"insert": "c", "documents": [{"_id": 2}]},
        doc! {"insert": "c", "documents": [{"_id": 2}, {"_id": 3}]},
        doc! {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "multi": true}]},
        doc! {"aggregate": "c", "pipeline": [], "cursor": {}},
        doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a", "unique": true}]},
        doc! {"listCollections": 1},
        doc! {"dbStats": 1},
        doc! {"buildInfo": 1},
        reads.next(doc! {"find": "c", "filter": {"a": 1}}),
        Session::new().write(doc! {"insert": "c", "documents": [{"_id": 2}]}),
    ] {
        let reply = client.run_command(command.clone()).await;
        assert!([6, 89].contains(&code(&reply)), "{command}: {reply}");
        assert_plain(reply.get_str("errmsg").unwrap(), &command);
        let is_in_transaction = command.contains_key("autocommit");
        assert_eq!(has_label(&reply, "TransientTransactionError"), is_in_transaction, "{command}: {reply}");
        assert_eq!(
            has_label(&reply, "RetryableWriteError"),
            command.contains_key("txnNumber") && !is_in_transaction,
            "{command}: {reply}"
        );
    }
    let committed = client.run_on("admin", writes.commit()).await;
    assert!(!is_ok(&committed));
    assert_plain(committed.get_str("errmsg").unwrap(), "a commit");
}

#[tokio::test]
async fn a_conflict_names_the_option_that_limits_its_wait() {
    let client = Client::start("words_wait").await;
    client.ok(doc! {"insert": "c", "documents": [{"_id": 1}]}).await;
    let (one, other) = (Session::new(), Session::new());
    let update = doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"a": 1}}}]};
    client.ok(one.first(update.clone())).await;
    let reply = client.run_command(other.first(update)).await;
    assert_eq!(code(&reply), 112, "{reply}");
    assert!(reply.get_str("errmsg").unwrap().contains("--lock-wait-ms"), "{reply}");
}

/// A transaction that is too large is refused by the server's code, and the option is the
/// gateway's.
#[tokio::test]
async fn a_transaction_that_is_too_large_names_the_option() {
    let few = ClientOptions { max_documents: 2, ..ClientOptions::default() };
    let client = Client::with_options(
        local_mongod::unique_db("words_large"),
        GatewayOptions { client: few, ..GatewayOptions::default() },
    )
    .await;
    client.ok(doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}, {"_id": 3}]}).await;
    for too_much in [
        doc! {"insert": "c", "documents": [{"_id": 4}, {"_id": 5}, {"_id": 6}]},
        doc! {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "multi": true}]},
    ] {
        let session = Session::new();
        let reply = client.run_command(session.first(too_much.clone())).await;
        let refused = reply.get_array("writeErrors").map_or(reply.clone(), |all| all[0].as_document().unwrap().clone());
        assert_eq!(code(&refused), 257, "{too_much}: {reply}");
        assert!(refused.get_str("errmsg").unwrap().contains("(--max-transaction-documents)"), "{reply}");
        client.run_on("admin", session.abort()).await;
    }
}

/// The record of a durable write is not a document of the application's.
#[tokio::test]
async fn conflicts_about_records_do_not_name_them() {
    let wait = ClientOptions { write_wait: std::time::Duration::from_millis(50), ..ClientOptions::default() };
    let options =
        GatewayOptions { retryable_writes: RetryableWrites::Durable, client: wait, ..GatewayOptions::default() };
    let client = Client::with_options(local_mongod::unique_db("words_record"), options).await;
    let session = Session::new();
    let insert = |id: i32| doc! {"insert": "c", "documents": [{"_id": id}]};
    client.ok(session.write(insert(1))).await;
    // For this gateway the record's holder is another gateway's transaction.
    let server = local_mongod::shared_standalone().await.unwrap();
    let database = format!("{}_tx", client.db);
    let holder = ClientOptions { tx_database: database.clone(), sweep: false, ..ClientOptions::default() };
    let holder = mongotx::Client::connect_with(&server.uri(), holder).await.unwrap();
    let records = holder.database(&database).collection::<Document>("writes");
    let mut held = holder.session();
    held.begin().unwrap();
    records.update_many(doc! {}, doc! {"$set": {"held": true}}).session(&mut held).await.unwrap();
    let reply = client.run_command(session.write(insert(2))).await;
    assert_eq!(code(&reply), 112, "{reply}");
    let words = reply.get_str("errmsg").unwrap();
    assert!(!words.contains("writes,") && !words.contains(&database), "{words}");
    held.rollback().await.unwrap();
    client.ok(session.write(insert(2))).await;
    holder.shutdown().await.unwrap();
}
