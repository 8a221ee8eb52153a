//! Transactions: every transition of a session's state machine, and what ends one.

use bson::{Document, doc};

use crate::common::commands::Session;
use crate::side_by_side::pair::Pair;

fn find() -> Document {
    doc! {"find": "c", "sort": {"_id": 1}}
}

fn insert(id: i32) -> Document {
    doc! {"insert": "c", "documents": [{"_id": id}]}
}

fn with(mut command: Document, more: Document) -> Document {
    command.extend(more);
    command
}

#[tokio::test]
async fn every_transition_is_answered_the_same() {
    let mut pair = Pair::start("cmp_states").await;
    pair.same(insert(1)).await;
    let session = Session::new();
    pair.same(session.next(find())).await;
    pair.same(session.commit()).await;
    pair.same(session.abort()).await;
    pair.same(doc! {"commitTransaction": 1}).await;
    pair.same(session.again(doc! {"commitTransaction": 1})).await;
    let begun = session.first(find());
    pair.same(begun.clone()).await;
    pair.same(begun.clone()).await;
    pair.same(session.next(find())).await;
    pair.same(session.again(insert(2))).await;
    pair.same(with(session.commit(), doc! {"startTransaction": true})).await;
    pair.same(session.commit()).await;
    pair.same(session.commit()).await;
    pair.same(session.abort()).await;
    pair.same(session.next(find())).await;
    pair.same(begun.clone()).await;
    pair.same(session.first(insert(3))).await;
    pair.same(begun).await;
    pair.same(session.abort()).await;
    pair.same(session.abort()).await;
    pair.same(session.commit()).await;
    pair.same(session.again(insert(4))).await;
    pair.same(session.write(insert(5))).await;
    pair.same(session.again(insert(5))).await;
    pair.same(session.next(find())).await;
    pair.same(session.commit()).await;
    pair.same(session.first(insert(6))).await;
    pair.same(session.first(insert(7))).await;
    pair.same(session.commit()).await;
    pair.same(find()).await;
}

#[tokio::test]
async fn what_ends_a_transaction_ends_it_in_both() {
    let mut pair = Pair::start("cmp_ends").await;
    pair.same(insert(1)).await;
    for command in [
        doc! {"insert": "c", "documents": [{"_id": 5}, {"_id": 1}, {"_id": 6}]},
        doc! {"insert": "c", "documents": [{"_id": 5}, {"_id": 1}, {"_id": 6}], "ordered": false},
        doc! {"find": "c", "unknown": 1},
        doc! {"find": "c", "filter": {"a": {"$foo": 1}}},
        doc! {"aggregate": "c", "pipeline": [{"$out": "x"}], "cursor": {}},
        doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"_id": 1}}}]},
        doc! {"create": "v", "viewOn": "c", "pipeline": []},
        doc! {"create": "t", "timeseries": {"timeField": "at"}},
        doc! {"getMore": 5_i64, "collection": "c"},
        doc! {"count": "c"},
        doc! {"listCollections": 1},
        doc! {"listIndexes": "c"},
        doc! {"drop": "c"},
        doc! {"dropDatabase": 1},
        doc! {"explain": {"find": "c"}},
        doc! {"ping": 1},
        doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]},
        doc! {"insert": "c", "documents": [{"_id": 9}], "writeConcern": {"w": 1}},
        doc! {"find": "c", "readConcern": {"level": "local"}},
    ] {
        let session = Session::new();
        pair.same(session.first(insert(100))).await;
        pair.same(session.next(command)).await;
        pair.same(session.next(find())).await;
        pair.same(session.abort()).await;
    }
    pair.same(find()).await;
}

#[tokio::test]
async fn what_cannot_begin_a_transaction_does_not() {
    let mut pair = Pair::start("cmp_begin").await;
    pair.same(insert(1)).await;
    for command in [
        doc! {"killCursors": "c", "cursors": [5_i64]},
        doc! {"count": "c"},
        doc! {"find": "c", "readConcern": {"level": "available"}},
        doc! {"find": "c", "readConcern": {"level": "x"}},
        doc! {"find": "c", "readConcern": {"level": "snapshot"}},
        doc! {"find": "c", "readConcern": {"level": "majority"}},
        doc! {"find": "c", "autocommit": true},
    ] {
        let session = Session::new();
        let first = session.first(doc! {});
        pair.same(with(command, first)).await;
        pair.same(session.next(find())).await;
        pair.same(session.abort()).await;
    }
}

#[tokio::test]
async fn conflicts_are_answered_the_same() {
    let mut pair = Pair::start("cmp_conflict").await;
    pair.same(insert(1)).await;
    let update = || doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"a": 1}}}]};
    let (one, two) = (Session::new(), Session::new());
    pair.same(one.first(update())).await;
    for command in [
        update(),
        doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
        doc! {"findAndModify": "c", "query": {"_id": 1}, "remove": true},
    ] {
        pair.same(two.first(command)).await;
        pair.same(two.commit()).await;
    }
    pair.same(one.commit()).await;
    pair.same(find()).await;
}
