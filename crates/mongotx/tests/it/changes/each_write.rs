//! The events of each kind of write, in transactions and outside.

use bson::{Document, doc};
use mongotx::{ClientOptions, ErrorKind, TransactionOptions, WriteModel};

use super::{Watched, copied::Copy};

#[tokio::test]
async fn single_writes_leave_one_event_each() {
    let place = Watched::new("each_single").await;
    let (a, start) = (place.coll("a"), place.now().await);
    a.insert_one(&doc! {"_id": 1, "v": 1}).await.unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"v": 1}}).await.unwrap();
    a.update_one(doc! {"v": 2}, doc! {"$set": {"w": {"x": 1}}}).await.unwrap();
    a.replace_one(doc! {"_id": 1}, &doc! {"v": 3}).await.unwrap();
    a.update_one(doc! {"_id": 2}, doc! {"$set": {"v": 5}}).upsert(true).await.unwrap();
    a.find_one_and_update(doc! {"_id": 2}, doc! {"$unset": {"v": ""}}).await.unwrap();
    a.find_one_and_delete(doc! {"_id": 2}).await.unwrap();
    a.delete_one(doc! {"_id": 1}).await.unwrap();
    // Nothing is changed by these.
    a.delete_one(doc! {"_id": 9}).await.unwrap();
    a.update_one(doc! {"_id": 9}, doc! {"$set": {"v": 1}}).await.unwrap();
    let kinds = place.kinds_since(start).await;
    let expected = ["insert 1", "update 1", "update 1", "replace 1", "insert 2", "update 2", "delete 2", "delete 1"];
    assert_eq!(kinds, expected);
    let events = place.since(start).await;
    let event = |at: usize| &events[at].document;
    let named = doc! {"db": place.plain.name(), "coll": "a"};
    assert_eq!(event(0).get_document("ns").unwrap(), &named);
    assert_eq!(event(0).get_document("fullDocument").unwrap(), &doc! {"_id": 1, "v": 1});
    let updated =
        |at: usize| event(at).get_document("updateDescription").unwrap().get_document("updatedFields").unwrap();
    assert_eq!(updated(1), &doc! {"v": 2});
    assert_eq!(updated(2), &doc! {"w": {"x": 1}});
    assert_eq!(event(3).get_document("fullDocument").unwrap(), &doc! {"_id": 1, "v": 3});
    let removed = event(5).get_document("updateDescription").unwrap().get_array("removedFields").unwrap();
    assert_eq!(removed, &vec!["v".into()]);
    assert!(events.iter().all(|event| !event.document.contains_key("fullDocumentBeforeChange")));
    assert!(place.stored("a").await.is_empty());
}

#[tokio::test]
async fn a_transaction_has_events_when_it_is_committed_one_for_each_document() {
    let place = Watched::new("each_tx").await;
    let (a, b) = (place.coll("a"), place.coll("b"));
    a.insert_many(&[doc! {"_id": 1, "v": 1}, doc! {"_id": 2, "v": 1}, doc! {"_id": 3, "v": 1}]).await.unwrap();
    let start = place.now().await;
    let mut session = place.client.session();
    let origin = doc! {"who": "me"};
    session.begin_with(TransactionOptions { origin: Some(origin.clone()), ..TransactionOptions::default() }).unwrap();
    let to = &mut session;
    b.insert_one(&doc! {"_id": 7}).session(to).await.unwrap();
    a.update_one(doc! {"_id": 2}, doc! {"$inc": {"v": 1}}).session(to).await.unwrap();
    a.update_one(doc! {"_id": 2}, doc! {"$inc": {"v": 1}}).session(to).await.unwrap();
    a.delete_one(doc! {"_id": 1}).session(to).await.unwrap();
    // Back to what it was, and there for a moment only.
    a.update_one(doc! {"_id": 3}, doc! {"$inc": {"v": 1}}).session(to).await.unwrap();
    a.update_one(doc! {"_id": 3}, doc! {"$inc": {"v": -1}}).session(to).await.unwrap();
    a.insert_one(&doc! {"_id": 4}).session(to).await.unwrap();
    a.delete_one(doc! {"_id": 4}).session(to).await.unwrap();
    assert!(place.since(start).await.is_empty());
    session.commit().await.unwrap();
    assert_eq!(place.kinds_since(start).await, ["insert 7", "update 2", "delete 1"]);
    let events = place.since(start).await;
    assert!(events.iter().all(|event| event.document.get_document("origin").unwrap() == &origin));
    let mut session = place.begin();
    a.update_one(doc! {"_id": 2}, doc! {"$set": {"v": 0}}).session(&mut session).await.unwrap();
    session.rollback().await.unwrap();
    assert_eq!(place.since(start).await.len(), 3);
}

#[tokio::test]
async fn many_documents_have_events_in_their_order() {
    let place = Watched::new("each_many").await;
    let (a, start) = (place.coll("a"), place.now().await);
    let documents: Vec<Document> = (0..50).map(|id| doc! {"_id": id, "v": 0}).collect();
    a.insert_many(&documents).await.unwrap();
    a.update_many(doc! {"_id": {"$lt": 20}}, doc! {"$inc": {"v": 1}}).await.unwrap();
    a.delete_many(doc! {"_id": {"$gte": 40}}).await.unwrap();
    let models = vec![
        WriteModel::ReplaceOne { filter: doc! {"_id": 0}, replacement: doc! {"r": 1}, upsert: false },
        WriteModel::UpdateOne { filter: doc! {"_id": 1}, update: doc! {"$set": {"r": 1}}.into(), upsert: false },
        WriteModel::DeleteOne { filter: doc! {"_id": 2} },
    ];
    a.bulk_write(models).await.unwrap();
    let events = place.since(start).await;
    assert_eq!(events.len(), 50 + 20 + 10 + 3);
    let kinds = place.kinds_since(start).await;
    assert_eq!(kinds[..50], (0..50).map(|id| format!("insert {id}")).collect::<Vec<_>>());
    assert_eq!(kinds[80..], ["replace 0", "update 1", "delete 2"]);
    assert_eq!(Copy::of(&events).documents(&place.named("a")), place.stored("a").await);
}

/// Of each document the first write counts, whatever the collection.
#[tokio::test]
async fn events_of_a_transaction_are_in_the_order_of_its_writes() {
    let place = Watched::new("each_order").await;
    let (a, b) = (place.coll("a"), place.coll("b"));
    b.insert_many(&[doc! {"_id": 10}, doc! {"_id": 19}]).await.unwrap();
    let start = place.now().await;
    let mut session = place.begin();
    let to = &mut session;
    b.insert_one(&doc! {"_id": 11}).session(to).await.unwrap();
    a.insert_one(&doc! {"_id": 1}).session(to).await.unwrap();
    b.update_one(doc! {"_id": 10}, doc! {"$set": {"v": 1}}).session(to).await.unwrap();
    a.insert_many(&[doc! {"_id": 2}, doc! {"_id": 3}]).session(to).await.unwrap();
    b.delete_one(doc! {"_id": 19}).session(to).await.unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$set": {"v": 1}}).session(to).await.unwrap();
    session.commit().await.unwrap();
    let kinds = place.kinds_since(start).await;
    assert_eq!(kinds, ["insert 11", "insert 1", "update 10", "insert 2", "insert 3", "delete 19"]);
}

/// Changes that cannot be described field by field are described as a whole.
#[tokio::test]
async fn a_copy_is_the_same_to_the_byte() {
    let place = Watched::new("each_bytes").await;
    let (a, start) = (place.coll("a"), place.now().await);
    let long = "a text that is long enough to be left out".to_owned();
    a.insert_one(&doc! {"_id": 1, "a": 1, "b": [&long, 2, {"c": &long, "d": 1}], "e": {"f.g": 1}}).await.unwrap();
    let updates = [
        doc! {"$rename": {"a": "z"}},
        doc! {"$set": {"b.2.d": 2, "e": {"f.g": 2}}},
        doc! {"$push": {"b": 7}},
        doc! {"$pop": {"b": 1}},
        doc! {"$pull": {"b": 2}},
        doc! {"$set": {"n": 1_i64}},
        doc! {"$set": {"n": 1.0}},
    ];
    for update in updates {
        a.update_one(doc! {"_id": 1}, update).await.unwrap();
    }
    let moved = vec![doc! {"$replaceWith": {"_id": 1, "n": "$n", "z": "$z", "b": "$b"}}];
    a.update_one(doc! {"_id": 1}, moved).await.unwrap();
    let events = place.since(start).await;
    assert_eq!(events.len(), 9);
    let bytes = |documents: Vec<Document>| documents.iter().map(|one| one.to_vec().unwrap()).collect::<Vec<_>>();
    assert_eq!(bytes(Copy::of(&events).documents(&place.named("a"))), bytes(place.stored("a").await));
}

#[tokio::test]
async fn what_can_have_no_event_is_not_done() {
    let place = Watched::new("each_refused").await;
    let (a, start) = (place.coll("a"), place.now().await);
    a.insert_one(&doc! {"_id": 1, "v": 1}).await.unwrap();
    let out = a.aggregate([doc! {"$out": "a"}]).await.err().unwrap();
    assert_eq!(out.kind(), ErrorKind::Unsupported);
    assert!(out.to_string().contains("$merge"), "{out}");
    a.aggregate([doc! {"$set": {"v": 2}}, doc! {"$merge": "a"}]).await.unwrap();
    let huge = a.insert_one(&doc! {"_id": 2, "v": "x".repeat(16 * 1024 * 1024 - 200)}).await.unwrap_err();
    assert_eq!(huge.code(), Some(10_334), "{huge}");
    let kinds = place.kinds_since(start).await;
    assert_eq!(kinds, ["insert 1", "update 1"]);
    assert_eq!(place.stored("a").await, [doc! {"_id": 1, "v": 2}]);
}

/// Writes to a collection that is not watched leave no event.
#[tokio::test]
async fn writes_to_other_collections_leave_none() {
    let place = Watched::with("each_others", ClientOptions { ..crate::quiet::options() }).await;
    let (a, start) = (place.coll("a"), place.now().await);
    a.insert_one(&doc! {"_id": 1}).await.unwrap();
    a.insert_many(&[doc! {"_id": 2}, doc! {"_id": 3}]).await.unwrap();
    assert!(place.since(start).await.is_empty());
}

/// Besides its own command and the decision: one for the versions, one for the numbers, one for the
/// events, however many there are.
#[tokio::test]
async fn what_a_watched_change_sends() {
    let place = Watched::new("each_cost").await;
    let a = place.coll("a");
    for id in 0..2 {
        a.insert_one(&doc! {"_id": id}).await.unwrap();
    }
    assert!(place.client.flush(std::time::Duration::from_secs(20)).await);
    let sent = |name: &str| place.client.metrics().commands.get(name).copied().unwrap_or(0);
    let names = ["insert", "find", "findAndModify"];
    let before = names.map(sent);
    a.insert_one(&doc! {"_id": 2}).await.unwrap();
    let after = names.map(sent);
    assert_eq!([0, 1, 2].map(|at| after[at] - before[at]), [2, 1, 1]);
    let documents: Vec<Document> = (3..40).map(|id| doc! {"_id": id}).collect();
    assert!(place.client.flush(std::time::Duration::from_secs(20)).await);
    let before = names.map(sent);
    a.insert_many(&documents).await.unwrap();
    let after = names.map(sent);
    assert_eq!([0, 1, 2].map(|at| after[at] - before[at]), [2, 1, 1]);
}

/// The document has two addresses, which are far apart among those that are fetched together.
#[tokio::test]
async fn a_document_under_two_equal_ids_has_one_event() {
    const COUNT: i32 = 5_000;
    let place = Watched::new("each_equal").await;
    let a = place.coll("a");
    let documents: Vec<Document> = (0..COUNT).map(|id| doc! {"_id": id, "v": 0}).collect();
    a.insert_many(&documents).await.unwrap();
    let (start, mut session) = (place.now().await, place.begin());
    let all = a.update_many(doc! {}, doc! {"$inc": {"v": 1}}).session(&mut session).await.unwrap();
    assert_eq!(all.modified_count, COUNT as u64);
    for id in 0..10_i64 {
        a.update_one(doc! {"_id": id}, doc! {"$set": {"w": 1}}).session(&mut session).await.unwrap();
    }
    session.commit().await.unwrap();
    assert_eq!(place.since(start).await.len(), COUNT as usize);
}
