//! Commands of several statements inside transactions: the number of commands to the server, and
//! the replies, beside a replica set.

use std::collections::BTreeMap;

use bson::{Document, doc};

use crate::{
    common::commands::{Client, Session, code},
    side_by_side::pair::Pair,
};

/// Makes a statement for the documents of a filter, which gives them a number.
type Kind = fn(Document, i32) -> Document;

/// The kinds of statements that go together.
const KINDS: [(&str, Kind); 10] = [
    ("$inc", |q, _| doc! {"q": q, "u": {"$inc": {"n": 1}}}),
    ("$set", |q, n| doc! {"q": q, "u": {"$set": {"z": n}}}),
    ("a path", |q, n| doc! {"q": q, "u": {"$set": {"in.a": n}}}),
    ("$unset", |q, _| doc! {"q": q, "u": {"$unset": {"s": 1}}}),
    ("$push", |q, n| doc! {"q": q, "u": {"$push": {"l": n}}}),
    ("a pipeline", |q, n| doc! {"q": q, "u": [{"$set": {"z": {"$add": ["$n", n]}}}]}),
    ("of many", |q, _| doc! {"q": q, "u": {"$inc": {"n": 1}}, "multi": true}),
    ("a replacement", |q, n| doc! {"q": q, "u": {"k": n, "r": 1}}),
    ("a deletion", |q, _| doc! {"q": q, "limit": 1}),
    ("a deletion of many", |q, _| doc! {"q": q, "limit": 0}),
];

/// The command with these statements.
fn command(name: &str, statements: Vec<Document>, ordered: bool) -> Document {
    let (command, field) = if name.contains("deletion") { ("delete", "deletes") } else { ("update", "updates") };
    doc! {command: "c", field: statements, "ordered": ordered}
}

fn documents() -> Document {
    let document = |id: i32| doc! {"_id": id, "k": id, "n": 0, "s": 1, "in": {"b": 1}};
    doc! {"insert": "c", "documents": (1..=10).map(document).collect::<Vec<_>>()}
}

/// The commands that the server gets for this one, in a transaction that has begun.
async fn sent(client: &Client, command: Document) -> BTreeMap<String, u64> {
    let session = Session::new();
    client.ok(session.first(doc! {"insert": "other", "documents": [{}]})).await;
    let before = client.sent();
    let reply = client.ok(session.next(command)).await;
    assert_eq!(reply.get_i32("n").unwrap(), 10, "{reply}");
    let counts = client.sent().into_iter();
    let since = counts.map(|(name, count)| (name.clone(), count - before.get(&name).copied().unwrap_or(0)));
    let since = since.filter(|(_, count)| *count > 0).collect();
    client.run_on("admin", session.abort()).await;
    since
}

#[tokio::test]
async fn ten_statements_are_one_command_or_two() {
    let client = Client::start("together").await;
    client.ok(documents()).await;
    let one = BTreeMap::from([("update".to_owned(), 1)]);
    // Look-ups are made once.
    let warm_up = || command("$inc", (1..=10).map(|id| KINDS[0].1(doc! {"_id": id}, id)).collect(), true);
    sent(&client, warm_up()).await;
    for ordered in [true, false] {
        for (name, kind) in KINDS {
            let statements = (1..=10).map(|id| kind(doc! {"_id": id}, id)).collect();
            assert_eq!(sent(&client, command(name, statements, ordered)).await, one, "{name}");
        }
    }
    client.ok(doc! {"createIndexes": "c", "indexes": [{"key": {"k": 1}, "name": "k", "unique": true}]}).await;
    sent(&client, warm_up()).await;
    let two = BTreeMap::from([("find".to_owned(), 1), ("update".to_owned(), 1)]);
    // A replacement may give the key to another document, and what is meant for many goes alone by
    // a key: several documents have it if the index is gone by now.
    for (name, kind) in
        KINDS.into_iter().filter(|(name, _)| !["a replacement", "of many", "a deletion of many"].contains(name))
    {
        let statements = (1..=10).map(|id| kind(doc! {"k": id}, id)).collect();
        assert_eq!(sent(&client, command(name, statements, true)).await, two, "{name}");
    }
}

/// Documents that are missing, that stay as they are, that are named twice, and one that the server
/// refuses to change.
#[tokio::test]
async fn replies_are_those_of_a_replica_set() {
    let mut pair = Pair::start("cmp_together").await;
    pair.same(documents()).await;
    pair.same(doc! {"update": "c", "updates": [
        {"q": {"_id": 4}, "u": {"$set": {"l": "no array", "n": "no number", "in": 1}}},
        {"q": {"_id": 2}, "u": {"k": 2, "r": 1, "z": 2}},
    ]})
    .await;
    for ids in [vec![1, 2, 3], vec![1, 2, 3, 2], vec![3, 99, 2, 98, 1], vec![1, 2, 3, 4, 5], vec![4, 1]] {
        for (name, kind) in KINDS {
            for ordered in [true, false] {
                let session = Session::new();
                // A replica set counts a replacement that changes nothing, too, and MongoTx does
                // not.
                let statements = ids.iter().zip(1..).map(|(id, n)| kind(doc! {"_id": *id}, n)).collect();
                pair.same(session.first(doc! {"find": "c", "filter": {"_id": 7}})).await;
                pair.same(session.next(command(name, statements, ordered))).await;
                pair.same(session.next(doc! {"find": "c", "sort": {"_id": 1}})).await;
                pair.same(session.abort()).await;
            }
        }
    }
    pair.same(doc! {"find": "c", "sort": {"_id": 1}}).await;
}

/// A rival holds the fifth document: the transaction ends, as a replica set's does, and nothing of
/// the first four stays.
#[tokio::test]
async fn a_document_that_a_rival_holds_ends_the_transaction_as_on_a_replica_set() {
    let mut pair = Pair::start("cmp_together_held").await;
    pair.same(documents()).await;
    for (name, kind) in KINDS {
        for ordered in [true, false] {
            let (rival, session) = (Session::new(), Session::new());
            let held = doc! {"update": "c", "updates": [{"q": {"_id": 5}, "u": {"$inc": {"n": 1}}}]};
            pair.same(rival.first(held)).await;
            // By the `_id` alone it would be known here who holds it.
            let statements = (1..=10).map(|id| kind(doc! {"_id": id, "n": {"$lt": 100}}, id)).collect();
            let refused = pair.same(session.first(command(name, statements, ordered))).await;
            assert_eq!(code(&refused), 112, "{name}: {refused}");
            pair.same(session.commit()).await;
            pair.same(rival.commit()).await;
            pair.same(doc! {"find": "c", "sort": {"_id": 1}}).await;
        }
    }
}
