//! Intended differences between the gateway's answers and those of a replica set. Each test fails
//! when the difference is gone.

use bson::{Document, Timestamp, doc};
use mongotx_gateway::GatewayOptions;

use crate::common::commands::{Client, Session};
use crate::side_by_side::pair::Pair;

fn code(reply: &Document) -> i32 {
    reply.get_i32("code").unwrap_or(0)
}

#[tokio::test]
async fn difference_g1_collections_made_in_a_transaction_stay() {
    let mut pair = Pair::start("cmp_g1").await;
    let session = Session::new();
    pair.same(session.first(doc! {"create": "c"})).await;
    pair.same(session.abort()).await;
    let listed = doc! {"listCollections": 1, "nameOnly": true};
    let (ours, theirs) = pair.ask(listed).await;
    let count = |reply: &Document| reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len();
    assert_eq!((count(&ours), count(&theirs)), (1, 0));
}

#[tokio::test]
async fn difference_g2_moments_are_not_read_again() {
    let mut pair = Pair::start("cmp_g2").await;
    pair.same(doc! {"insert": "c", "documents": [{"_id": 1}]}).await;
    let find = |concern: Document| doc! {"find": "c", "readConcern": concern};
    let (ours, theirs) = pair.moments(find(doc! {"level": "snapshot"})).await;
    let at = |moment: Timestamp| find(doc! {"level": "snapshot", "atClusterTime": moment});
    let (ours, theirs) = pair.ask_each(at(ours), at(theirs)).await;
    assert_eq!((code(&ours), code(&theirs)), (239, 0));
}

#[tokio::test]
async fn difference_g2_pipelines_that_write_do_not_read_at_snapshot() {
    let mut pair = Pair::start("cmp_g2_out").await;
    let level = doc! {"level": "snapshot"};
    pair.same(doc! {"insert": "c", "documents": [{"_id": 1}]}).await;
    let out = doc! {"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}, "readConcern": level};
    let (ours, theirs) = pair.ask(out).await;
    assert_eq!((code(&ours), code(&theirs)), (72, 0));
}

#[tokio::test]
async fn linearizable_reads_pass_by_who_is_about_to_change_what_they_read() {
    let mut pair = Pair::start("cmp_g3_rival").await;
    pair.same(doc! {"insert": "c", "documents": [{"_id": 1}]}).await;
    let rival = Session::new();
    pair.same(rival.first(doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"a": 1}}}]})).await;
    pair.same(rival.next(doc! {"insert": "c", "documents": [{"_id": 2}]})).await;
    let level = doc! {"level": "linearizable"};
    for filter in [doc! {}, doc! {"_id": 1}, doc! {"_id": 2}, doc! {"_id": {"$in": [1, 2]}}] {
        pair.same(doc! {"find": "c", "filter": filter, "readConcern": level.clone()}).await;
    }
    let sum = doc! {"$group": {"_id": null, "n": {"$sum": 1}}};
    pair.same(doc! {"aggregate": "c", "pipeline": [sum], "cursor": {}, "readConcern": level.clone()}).await;
    pair.same(doc! {"distinct": "c", "key": "_id", "readConcern": level.clone()}).await;
    pair.same(doc! {"count": "c", "query": {"_id": {"$gt": 0}}, "readConcern": level}).await;
    pair.same(rival.abort()).await;
}

#[tokio::test]
async fn difference_g4_reserved_names_are_refused() {
    let mut pair = Pair::start("cmp_g4").await;
    let (ours, theirs) = pair.ask(doc! {"insert": "c", "documents": [{"_id": 1, "_unsafe": 1}]}).await;
    assert!(ours.contains_key("writeErrors") && !theirs.contains_key("writeErrors"), "{ours} {theirs}");
}

#[tokio::test]
async fn difference_g5_tailable_cursors_are_refused_in_front_of_a_replica_set() {
    let set = local_mongod::shared_replica_set().await.unwrap();
    let client = Client::in_front_of(set.uri(), local_mongod::unique_db("cmp_g5"), GatewayOptions::default()).await;
    client.ok(doc! {"create": "c", "capped": true, "size": 10_000}).await;
    client.ok(doc! {"insert": "c", "documents": [{"_id": 1}]}).await;
    for find in [doc! {"find": "c", "tailable": true}, doc! {"find": "c", "tailable": true, "awaitData": true}] {
        let refused = client.run_command(find).await;
        assert_eq!(code(&refused), 115);
        assert!(refused.get_str("errmsg").unwrap().contains("tailable"), "{refused}");
    }
}

#[tokio::test]
async fn difference_g8_what_is_not_known_at_the_top_of_a_filter_is_not_supported() {
    let mut pair = Pair::start("cmp_g8").await;
    pair.same(doc! {"insert": "c", "documents": [{"_id": 1}]}).await;
    let (ours, theirs) = pair.ask(doc! {"find": "c", "filter": {"$foo": 1}}).await;
    assert_eq!((code(&ours), code(&theirs)), (115, 2));
}

#[tokio::test]
async fn difference_g9_what_others_have_changed_since_is_a_conflict_when_it_is_read_again() {
    let mut pair = Pair::start("cmp_g9").await;
    pair.same(doc! {"insert": "c", "documents": [{"_id": 1}]}).await;
    for level in [None, Some("local"), Some("majority"), Some("snapshot")] {
        let reader = Session::new();
        let find = || doc! {"find": "c", "sort": {"_id": 1}};
        let mut first = reader.first(find());
        if let Some(level) = level {
            first.insert("readConcern", doc! {"level": level});
        }
        pair.same(first).await;
        // No writer waits for a transaction that only reads.
        let update = doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"a": 1}}}]};
        pair.same(update).await;
        let (ours, theirs) = pair.ask(reader.next(find())).await;
        assert_eq!((code(&ours), code(&theirs)), (112, 0), "{level:?}");
        pair.ask(reader.abort()).await;
    }
}

#[tokio::test]
async fn difference_g3_linearizable_makes_a_transaction_serializable() {
    let mut pair = Pair::start("cmp_g3").await;
    pair.same(doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]}).await;
    let (one, two) = (Session::new(), Session::new());
    for (session, read, written) in [(&one, 1, 2), (&two, 2, 1)] {
        let mut first = session.first(doc! {"find": "c", "filter": {"_id": read}});
        first.insert("readConcern", doc! {"level": "linearizable"});
        let (ours, theirs) = pair.ask(first).await;
        assert_eq!((code(&ours), code(&theirs)), (0, 72));
        let update = doc! {"update": "c", "updates": [{"q": {"_id": written}, "u": {"$inc": {"a": 1}}}]};
        pair.ask(session.next(update)).await;
    }
    let (ours, _) = pair.ask(one.commit()).await;
    let (other, _) = pair.ask(two.commit()).await;
    assert!([code(&ours), code(&other)].contains(&112), "{ours} {other}");
}

#[tokio::test]
async fn difference_g10_what_an_index_has_is_not_shown_after_an_own_write() {
    let mut pair = Pair::start("cmp_g10").await;
    let index = doc! {"key": {"b": 1}, "name": "b_1", "unique": true};
    pair.same(doc! {"createIndexes": "c", "indexes": [index]}).await;
    for option in [
        doc! {"min": {"b": 1}, "hint": "b_1"},
        doc! {"max": {"b": 1}, "hint": "b_1"},
        doc! {"returnKey": true},
        doc! {"showRecordId": true},
    ] {
        let writer = Session::new();
        pair.same(writer.first(doc! {"insert": "c", "documents": [{"_id": 9, "b": 9}]})).await;
        let name = option.keys().next().unwrap().clone();
        let mut find = doc! {"find": "c"};
        find.extend(option);
        let (ours, theirs) = pair.words(writer.next(find)).await;
        assert_eq!((code(&ours), code(&theirs)), (263, 0));
        assert!(ours.get_str("errmsg").unwrap().contains(&name), "{ours}");
        pair.ask(writer.abort()).await;
    }
}
