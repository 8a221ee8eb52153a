//! Clustered collections, with and without expiry, and those with a default collation.

use bson::{Document, doc};
use mongotx::{ErrorKind, IndexModel, Isolation};

use super::{all, assert_writes_refused};
use crate::place::Place;

/// Writes of every kind, committed or not, and a rival.
async fn exercise(place: &Place, commit: bool) -> Vec<Document> {
    let coll = place.coll("c");
    coll.insert_many(&[doc! {"_id": "a", "n": 1}, doc! {"_id": "b", "n": 2}, doc! {"_id": "c", "n": 3}]).await.unwrap();
    assert!(place.client.flush(std::time::Duration::from_secs(20)).await);
    let mut session = place.begin_at(Isolation::ReadCommitted);
    coll.insert_one(&doc! {"_id": "d", "n": 4}).session(&mut session).await.unwrap();
    coll.update_many(doc! {"n": {"$lt": 3}}, doc! {"$inc": {"n": 10}}).session(&mut session).await.unwrap();
    assert_eq!(coll.delete_one(doc! {"_id": "c"}).session(&mut session).await.unwrap(), 1);
    let sorted = [doc! {"$sort": {"_id": 1}}];
    let inside = all(&coll, &sorted, Some(&mut session)).await;
    assert_eq!(inside, [doc! {"_id": "a", "n": 11}, doc! {"_id": "b", "n": 12}, doc! {"_id": "d", "n": 4}]);
    let error = coll.update_one(doc! {"_id": "a"}, doc! {"$set": {"n": 0}}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    if commit { session.commit().await } else { session.rollback().await }.unwrap();
    assert!(place.client.flush(std::time::Duration::from_secs(20)).await);
    let stored = all(&coll, &sorted, None).await;
    assert_eq!(stored.len(), 3);
    if commit {
        assert_eq!(stored, inside);
    }
    stored
}

#[tokio::test]
async fn clustered_collection_is_like_any_other() {
    for commit in [false, true] {
        let place = Place::with("clustered", doc! {"clusteredIndex": {"key": {"_id": 1}, "unique": true}}).await;
        let stored = exercise(&place, commit).await;
        let duplicate = place.coll("c").insert_one(&stored[0]).await.unwrap_err();
        assert_eq!(duplicate.code(), Some(11000));
        let mut session = place.begin_at(Isolation::RepeatableRead);
        assert_eq!(
            place.coll("c").find_one(doc! {"_id": "a"}).session(&mut session).await.unwrap().as_ref(),
            Some(&stored[0])
        );
        let duplicate = place.coll("c").insert_one(&stored[0]).session(&mut session).await.unwrap_err();
        assert_eq!(duplicate.code(), Some(11000));
        session.commit().await.unwrap();
        assert_eq!(place.coll("c").list_index_names().await.unwrap(), ["_id_"]);
    }
}

/// The server removes documents by their `_id`, and an index over unlocked documents only cannot
/// take its place.
#[tokio::test]
async fn clustered_collection_that_expires_is_not_written_in_transactions() {
    let clustered = doc! {"clusteredIndex": {"key": {"_id": 1}, "unique": true}, "expireAfterSeconds": 3600_i64};
    let place = Place::with("clustered_expires", clustered).await;
    place.coll("c").insert_one(&doc! {"_id": 1}).await.unwrap();
    let mut session = place.begin_at(Isolation::ReadCommitted);
    assert_eq!(place.coll("c").find_one(doc! {"_id": 1}).session(&mut session).await.unwrap(), Some(doc! {"_id": 1}));
    assert_writes_refused(&place.coll("c"), doc! {"_id": 1}, &mut session, "expires").await;
    session.commit().await.unwrap();
}

#[tokio::test]
async fn default_collation_decides_which_documents_are_meant() {
    for commit in [false, true] {
        let place = Place::with("collated", doc! {"collation": {"locale": "en", "strength": 2}}).await;
        let coll = place.coll("c");
        coll.create_index(IndexModel::new(doc! {"s": 1}).unique(true).sparse(true)).await.unwrap();
        exercise(&place, commit).await;
        let mut session = place.begin_at(Isolation::ReadCommitted);
        let update = coll.update_one(doc! {"_id": "A"}, doc! {"$set": {"s": "x"}});
        assert_eq!(update.session(&mut session).await.unwrap().matched_count, 1);
        let found = coll.find_one(doc! {"_id": "A", "s": "X"}).session(&mut session).await.unwrap();
        assert_eq!(found.unwrap().get_str("_id").unwrap(), "a");
        // Equal under the collation: the `_id` of a document, and a value that is pending.
        let same_id = coll.insert_one(&doc! {"_id": "B"}).session(&mut session).await.unwrap_err();
        assert_eq!(same_id.code(), Some(11000), "{same_id}");
        let same_value = coll.insert_one(&doc! {"_id": "e", "s": "X"}).session(&mut session).await.unwrap_err();
        assert_eq!((same_value.code(), same_value.duplicate_key().is_some()), (Some(11000), true), "{same_value}");
        assert_eq!(coll.delete_one(doc! {"_id": "B"}).session(&mut session).await.unwrap(), 1);
        coll.insert_one(&doc! {"_id": "b", "n": 0}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        assert!(place.client.flush(std::time::Duration::from_secs(20)).await);
        assert_eq!(coll.find_one(doc! {"_id": "B"}).await.unwrap(), Some(doc! {"_id": "b", "n": 0}));
        assert_eq!(coll.insert_one(&doc! {"s": "X"}).await.unwrap_err().code(), Some(11000));
    }
}
