//! `comment`: it reaches the server with the commands that the gateway sends for the client's, and
//! the profiler shows it there.

use bson::{Bson, Document, Timestamp, doc};
use futures_util::TryStreamExt;

use crate::common::commands::{Client, Session, cursor_id, is_ok};

/// A database whose profiler writes down every command.
async fn profiled(test: &str) -> (Client, mongodb::Database) {
    let client = Client::start(test).await;
    let server = local_mongod::shared_standalone().await.unwrap();
    let stored = mongodb::Client::with_uri_str(server.uri()).await.unwrap().database(&client.db);
    client.ok(doc! {"insert": "c", "documents": [{"_id": 1, "a": 1}, {"_id": 2, "a": 2}, {"_id": 3, "a": 3}]}).await;
    stored.run_command(doc! {"profile": 2}).await.unwrap();
    (client, stored)
}

/// Kinds of operations (`insert`, `query`, ...) of the collection that the profiler has seen with
/// this comment.
async fn seen(stored: &mongodb::Database, comment: &Bson) -> Vec<String> {
    let profile = stored.collection::<Document>("system.profile");
    let filter = doc! {"command.comment": {"$eq": comment}, "ns": format!("{}.c", stored.name())};
    let all: Vec<Document> = profile.find(filter).await.unwrap().try_collect().await.unwrap();
    all.iter().map(|one| one.get_str("op").unwrap().to_owned()).collect()
}

fn commands() -> [(Document, &'static str); 11] {
    [
        (doc! {"insert": "c", "documents": [{"_id": 4}]}, "insert"),
        (doc! {"insert": "c", "documents": [{"_id": 5}, {"_id": 6}]}, "insert"),
        (doc! {"update": "c", "updates": [{"q": {"_id": 4}, "u": {"$set": {"a": 5}}}]}, "update"),
        (doc! {"update": "c", "updates": [{"q": {"a": 5}, "u": {"$inc": {"b": 1}}, "multi": true}]}, "update"),
        (doc! {"update": "c", "updates": [{"q": {"_id": 9}, "u": {"a": 1}, "upsert": true}]}, "update"),
        (doc! {"find": "c", "filter": {"_id": 4}}, "query"),
        (doc! {"find": "c", "filter": {"a": 5}}, "query"),
        (doc! {"distinct": "c", "key": "a"}, "command"),
        (doc! {"aggregate": "c", "pipeline": [{"$group": {"_id": "$a"}}], "cursor": {}}, "command"),
        (doc! {"findAndModify": "c", "query": {"_id": 4}, "update": {"$set": {"a": 6}}}, "command"),
        (doc! {"delete": "c", "deletes": [{"q": {"_id": 4}, "limit": 1}]}, "remove"),
    ]
}

#[tokio::test]
async fn commands_outside_transactions_carry_their_comments() {
    let (client, stored) = profiled("comments").await;
    let more = [
        (doc! {"count": "c", "query": {"a": 1}}, "command"),
        (doc! {"explain": {"find": "c"}}, "command"),
        (doc! {"explain": {"distinct": "c", "key": "a"}}, "command"),
        (doc! {"collStats": "c"}, "command"),
        (doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}, "command"),
    ];
    for (n, (mut command, kind)) in commands().into_iter().chain(more).enumerate() {
        let comment = Bson::from(doc! {"command": n as i32});
        command.insert("comment", comment.clone());
        client.ok(command.clone()).await;
        let seen = seen(&stored, &comment).await;
        // A query may be sent as a pipeline. Several documents may be a transaction of their own,
        // whose locks are updates.
        let or =
            [("query", "command"), ("insert", "update")].into_iter().find(|(one, _)| *one == kind).map(|(_, or)| or);
        assert!(seen.iter().any(|one| one == kind || or.is_some_and(|or| one == or)), "{command}: {seen:?}");
    }
}

#[tokio::test]
async fn statements_of_transactions_carry_their_comments() {
    let (client, stored) = profiled("comments_tx").await;
    let session = Session::new();
    for (n, (mut command, _)) in commands().into_iter().enumerate() {
        let comment = Bson::from(doc! {"statement": n as i32});
        command.insert("comment", comment.clone());
        client.ok(if n == 0 { session.first(command.clone()) } else { session.next(command.clone()) }).await;
        assert_ne!(seen(&stored, &comment).await, [""; 0], "{command}");
    }
    assert!(is_ok(&client.run_on("admin", session.commit()).await));
}

#[tokio::test]
async fn comments_are_of_any_type() {
    let (client, stored) = profiled("comments_types").await;
    let comments: [Bson; 9] = [
        Bson::Null,
        Bson::Int32(7),
        Bson::Int64(1 << 40),
        Bson::from("words"),
        Bson::from(vec![Bson::Int32(1), Bson::Null]),
        Bson::from(doc! {"$a": {"b.c": 1}}),
        Bson::Boolean(false),
        Bson::Timestamp(Timestamp { time: 1, increment: 2 }),
        Bson::MaxKey,
    ];
    for comment in comments {
        client.ok(doc! {"find": "c", "filter": {"a": 1}, "comment": comment.clone()}).await;
        assert_ne!(seen(&stored, &comment).await, [""; 0], "{comment:?}");
    }
}

/// `getMore` has a comment as it has in the server.
#[tokio::test]
async fn get_more_has_the_comment_of_its_query_or_its_own() {
    let (client, stored) = profiled("comments_cursor").await;
    // More than the server answers at once, so that a `getMore` follows.
    let many: Vec<Document> = (10..400).map(|n| doc! {"_id": n, "a": 0}).collect();
    client.ok(doc! {"insert": "c", "documents": many}).await;
    for own in [None, Some(Bson::from("of getMore"))] {
        let query = Bson::from(format!("of the query, {own:?}"));
        let find = doc! {"find": "c", "filter": {"a": 0}, "batchSize": 2, "comment": query.clone()};
        let id = cursor_id(&client.ok(find).await);
        let mut more = doc! {"getMore": id, "collection": "c"};
        more.extend(own.clone().map(|own| ("comment".to_owned(), own)));
        client.ok(more).await;
        let expected = own.unwrap_or(query);
        assert!(seen(&stored, &expected).await.contains(&"getmore".to_owned()), "{expected}");
    }
}
