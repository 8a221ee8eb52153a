//! `find` with what only it can do: bounds of an index (`min`, `max`), its keys (`returnKey`),
//! places (`showRecordId`).

use bson::{Document, doc};

use crate::common::commands::{Session, code};
use crate::side_by_side::pair::Pair;

async fn indexed(test: &str) -> Pair {
    let mut pair = Pair::start(test).await;
    let documents: Vec<Document> = (0..6).map(|n| doc! {"_id": n, "a": n % 3, "b": n}).collect();
    let indexes = vec![
        doc! {"key": {"a": 1}, "name": "a_1"},
        doc! {"key": {"b": 1}, "name": "b_1", "unique": true},
        doc! {"key": {"b": -1, "a": 1}, "name": "b_-1_a_1", "unique": true},
        doc! {"key": {"a": 1, "b": -1}, "name": "a_1_b_-1"},
    ];
    pair.same(doc! {"createIndexes": "c", "indexes": indexes}).await;
    pair.same(doc! {"insert": "c", "documents": documents}).await;
    pair.same(doc! {"create": "v", "viewOn": "c", "pipeline": [{"$match": {"a": 1}}]}).await;
    pair
}

fn find(more: Document) -> Document {
    let mut find = doc! {"find": "c"};
    find.extend(more);
    find
}

fn finds() -> Vec<Document> {
    vec![
        find(doc! {"min": {"b": 1}, "max": {"b": 4}, "hint": {"b": 1}}),
        find(doc! {"min": {"b": 1}, "max": {"b": 4}, "hint": "b_1", "filter": {"a": {"$ne": 2}}, "sort": {"_id": -1}}),
        find(doc! {"min": {"b": 1}, "hint": "b_1", "skip": 1, "limit": 2, "projection": {"b": 1}}),
        find(doc! {"max": {"b": 3}, "hint": "b_1"}),
        find(doc! {"min": {"b": 4, "a": 0}, "max": {"b": 1, "a": 1}, "hint": "b_-1_a_1"}),
        find(doc! {"min": {"a": 1, "b": 3}, "hint": {"a": 1, "b": -1}}),
        find(doc! {"min": {"_id": 2}, "max": {"_id": 4}, "hint": "_id_"}),
        find(doc! {"min": {}, "max": {}, "sort": {"_id": 1}}),
        find(doc! {"returnKey": true, "hint": "b_1"}),
        find(doc! {"returnKey": true, "hint": "a_1", "projection": {"b": 1}, "sort": {"b": -1}}),
        find(doc! {"returnKey": true, "filter": {"_id": 3}}),
        find(doc! {"returnKey": true}),
        find(doc! {"showRecordId": true, "sort": {"_id": 1}}),
        find(doc! {"showRecordId": true, "filter": {"_id": 3}, "projection": {"a": 1}}),
        find(doc! {"returnKey": true, "showRecordId": true, "hint": "a_1"}),
        find(doc! {"min": {"b": 1}, "max": {"b": 4}, "hint": "b_1", "batchSize": 2}),
        find(doc! {"returnKey": false, "showRecordId": false, "sort": {"_id": 1}}),
    ]
}

fn refused() -> Vec<Document> {
    vec![
        find(doc! {"min": {"b": 1}, "max": {"b": 4}}),
        find(doc! {"min": {"b": 4}, "max": {"b": 1}, "hint": {"b": 1}}),
        find(doc! {"min": {"q": 1}, "hint": {"b": 1}}),
        find(doc! {"min": {"a": 1}, "hint": {"a": 1, "b": -1}}),
        find(doc! {"min": {"b": 1}, "hint": {"$natural": 1}}),
        find(doc! {"min": 5}),
        find(doc! {"returnKey": 5}),
        doc! {"find": "v", "min": {"b": 1}, "hint": {"b": 1}},
        doc! {"find": "v", "returnKey": true},
        doc! {"find": "v", "showRecordId": true},
    ]
}

#[tokio::test]
async fn bounds_and_keys_of_indexes_are_answered_the_same() {
    let mut pair = indexed("cmp_bounds").await;
    for command in finds().into_iter().chain(refused()) {
        pair.same(command.clone()).await;
        let session = Session::new();
        pair.same(session.first(command)).await;
        pair.same(session.commit()).await;
    }
    for level in ["snapshot", "linearizable"] {
        let mut command = finds().swap_remove(0);
        command.insert("readConcern", doc! {"level": level});
        pair.same(command).await;
    }
}

/// Writes of others that are not committed are not seen; those that are committed are, in their new
/// place.
#[tokio::test]
async fn bounds_beside_a_rival_are_of_what_is_committed() {
    let mut pair = indexed("cmp_bounds_rival").await;
    let rival = Session::new();
    let update = |id: i32, b: i32| doc! {"q": {"_id": id}, "u": {"$set": {"b": b}}};
    pair.same(rival.first(doc! {"update": "c", "updates": [update(2, 50), update(5, 2)]})).await;
    pair.same(rival.next(doc! {"insert": "c", "documents": [{"_id": 9, "a": 1, "b": 70}]})).await;
    pair.same(rival.next(doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]})).await;
    for command in finds() {
        pair.same(command).await;
    }
    pair.same(rival.commit()).await;
    for command in finds() {
        pair.same(command).await;
    }
}

#[tokio::test]
async fn bounds_in_a_transaction_are_validated() {
    let mut pair = indexed("cmp_bounds_own").await;
    let bounded = || find(doc! {"min": {"b": 1}, "max": {"b": 4}, "hint": "b_1"});
    let reader = Session::new();
    pair.same(reader.first(bounded())).await;
    pair.same(doc! {"update": "c", "updates": [{"q": {"_id": 2}, "u": {"$set": {"x": 1}}}]}).await;
    let (ours, theirs) =
        pair.ask(reader.next(doc! {"update": "c", "updates": [{"q": {"_id": 5}, "u": {"$set": {"x": 1}}}]})).await;
    assert_eq!((code(&ours), code(&theirs)), (0, 0));
    // A replica set lets the reader write beside what has changed; here everything that was read is
    // validated.
    let (ours, theirs) = pair.ask(reader.commit()).await;
    assert_eq!((code(&ours), code(&theirs)), (112, 0));
}
