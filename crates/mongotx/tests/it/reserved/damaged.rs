//! Documents that have reserved fields which no transaction of ours has given them: reported, and
//! left as they are.

use bson::{Bson, Document, doc};
use mongotx::{Error, ErrorKind};

use super::Place;

/// Fields that an earlier version stored, or another tool: they belong to no transaction.
fn damages() -> Vec<Document> {
    vec![
        doc! {"_remove": true},
        doc! {"_insert": true},
        doc! {"_unsafe": {"a": 1}},
        doc! {"_unsafe": 5},
        doc! {"_slot": 1},
        doc! {"_remove": null},
        doc! {"_slot": Bson::Undefined},
        doc! {"_unsafe": Bson::MinKey},
        doc! {"_xTxId": 7},
        doc! {"_xTxId": {"c": 1, "n": 1_i64}, "_insert": true},
        doc! {"_xTxId": {"c": bson::oid::ObjectId::new(), "n": 1_i64}},
        doc! {"_xTxId": {"c": bson::oid::ObjectId::new(), "n": 1_i64}, "_insert": true},
        doc! {"_sTxIds": []},
        doc! {"_sTxIds": "x"},
    ]
}

fn assert_reported<T: std::fmt::Debug>(outcome: Result<T, Error>, how: &str) {
    let error = outcome.expect_err(how);
    assert_eq!(error.kind(), ErrorKind::Corruption, "{how}: {error}");
    let message = error.to_string();
    assert!(message.contains("_id 1") && message.contains("mongotx doctor"), "{how}: {message}");
}

#[tokio::test]
async fn writers_leave_damaged_documents_as_they_are_and_say_so() {
    let place = Place::new().await;
    let (coll, one, change) = (place.coll("c"), doc! {"_id": 1}, doc! {"$set": {"a": 2}});
    for damage in damages() {
        let mut stored = doc! {"_id": 1, "a": 1};
        stored.extend(damage.clone());
        place.plain("c").delete_many(doc! {}).await.unwrap();
        place.plain("c").insert_one(&stored).await.unwrap();
        assert_reported(coll.update_one(one.clone(), change.clone()).await, &format!("update, {damage}"));
        assert_reported(coll.update_one(one.clone(), vec![change.clone()]).await, &format!("pipeline, {damage}"));
        assert_reported(coll.replace_one(one.clone(), &doc! {"b": 1}).await, &format!("replacement, {damage}"));
        assert_reported(coll.find_one_and_update(one.clone(), change.clone()).await, &format!("shown, {damage}"));
        assert_reported(coll.delete_one(one.clone()).await, &format!("delete, {damage}"));
        assert_reported(coll.find_one(one.clone()).await, &format!("find, {damage}"));
        let mut session = place.begin();
        let update = coll.update_one(one.clone(), change.clone()).session(&mut session).await;
        assert_reported(update, &format!("update in a transaction, {damage}"));
        let _ = session.rollback().await;
        let mut session = place.begin();
        assert_reported(coll.delete_one(one.clone()).session(&mut session).await, &format!("delete, {damage}"));
        let _ = session.rollback().await;
        let is_lock = damage.get_document("_xTxId").is_ok_and(|id| id.get_object_id("c").is_ok());
        if !damage.contains_key("_insert") && !is_lock {
            let updated = coll.update_many(doc! {"_id": {"$gt": 0}}, change.clone()).await;
            assert_reported(updated, &format!("update of many, {damage}"));
        }
        assert_eq!(place.stored("c").await, [stored.clone()], "{damage}");
        // Fields that look like a lock, and belong to no transaction, may go; the application's own
        // fields stay.
        let _ = coll.find(doc! {"a": 1}).await.map(drop);
        assert_eq!(place.stored("c").await[0].get("a"), stored.get("a"), "{damage}");
    }
}

/// One such document does not keep readers from the others.
#[tokio::test]
async fn other_documents_of_the_collection_are_served() {
    let place = Place::new().await;
    let damaged: Vec<Document> = (0..)
        .zip(damages())
        .filter(|(_, damage)| !damage.contains_key("_xTxId"))
        .map(|(at, damage)| {
            let mut stored = doc! {"_id": at, "a": 1};
            stored.extend(damage);
            stored
        })
        .collect();
    place.plain("c").insert_many(&damaged).await.unwrap();
    let coll = place.coll("c");
    coll.insert_one(&doc! {"_id": "new", "a": 1}).await.unwrap();
    let mut session = place.begin();
    coll.update_one(doc! {"_id": "new"}, doc! {"$inc": {"a": 1}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    let found = coll.find(doc! {"a": 2}).await.unwrap().try_collect().await.unwrap();
    assert_eq!(found, [doc! {"_id": "new", "a": 2}]);
    let mut expected: Vec<Bson> = damaged.into_iter().map(Bson::from).collect();
    expected.push(doc! {"_id": "new", "a": 2}.into());
    assert_eq!(place.stored("c").await.into_iter().map(Bson::from).collect::<Vec<_>>(), expected);
}
