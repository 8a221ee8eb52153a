//! Capped collections: read everywhere, written outside transactions only.

use bson::{Document, doc};
use mongotx::Isolation;

use super::{all, assert_refused, assert_writes_refused};
use crate::place::Place;

#[tokio::test]
async fn capped_collection_is_read_everywhere_and_written_outside_transactions() {
    let place = Place::with("capped", doc! {"capped": true, "size": 4096_i64, "max": 3_i64}).await;
    let coll = place.coll("c");
    for id in 1..=4 {
        coll.insert_one(&doc! {"_id": id, "a": id}).await.unwrap();
    }
    assert_eq!(coll.update_one(doc! {"_id": 2}, doc! {"$inc": {"a": 10}}).await.unwrap().modified_count, 1);
    assert_eq!(coll.delete_one(doc! {"_id": 3}).await.unwrap(), 1);
    let expected = [doc! {"_id": 2, "a": 12}, doc! {"_id": 4, "a": 4}];
    let mut session = place.begin_at(Isolation::ReadCommitted);
    assert_eq!(coll.find(doc! {}).await.unwrap().try_collect().await.unwrap(), expected, "in their order");
    let inside = coll.find(doc! {"a": {"$gt": 0}}).session(&mut session).await.unwrap();
    assert_eq!(inside.try_collect().await.unwrap(), expected);
    assert_eq!(all(&coll, &[doc! {"$sort": {"_id": 1}}], Some(&mut session)).await, expected);
    assert_eq!(coll.count_documents(doc! {"a": 12}).session(&mut session).await.unwrap(), 1);
    assert_writes_refused(&coll, doc! {"_id": 2}, &mut session, "capped").await;
    session.commit().await.unwrap();
}

#[tokio::test]
async fn repeatable_read_locks_nothing_in_a_capped_collection() {
    let place = Place::with("capped_repeatable", doc! {"capped": true, "size": 4096_i64}).await;
    place.coll("c").insert_one(&doc! {"_id": 1}).await.unwrap();
    let mut session = place.begin_at(Isolation::RepeatableRead);
    assert_refused(&place.coll("c").find_one(doc! {}).session(&mut session).await.unwrap_err(), "capped");
    assert_refused(&place.coll("c").count_documents(doc! {}).session(&mut session).await.unwrap_err(), "capped");
    session.rollback().await.unwrap();
    let stored: Vec<Document> = all(&place.coll("c"), &[], None).await;
    assert_eq!(stored, [doc! {"_id": 1}]);
}

/// Documents that are never pending need no mirrored index, and the constraint is the server's own.
#[tokio::test]
async fn indexes_of_a_capped_collection_are_stored_as_they_are() {
    let place = Place::with("capped_indexes", doc! {"capped": true, "size": 4096_i64}).await;
    let coll = place.coll("c");
    coll.create_index(mongotx::IndexModel::new(doc! {"a": 1, "b": 1}).unique(true)).await.unwrap();
    assert_eq!(place.stored_index_names("c").await, ["_id_", "a_1_b_1"]);
    assert_eq!(coll.list_index_names().await.unwrap(), ["_id_", "a_1_b_1"]);
    coll.insert_one(&doc! {"a": 1, "b": 1}).await.unwrap();
    let error = coll.insert_one(&doc! {"a": 1, "b": 1}).await.unwrap_err();
    assert_eq!(error.duplicate_key().map(|key| key.pattern.clone()), Some(doc! {"a": 1, "b": 1}), "{error}");
}
