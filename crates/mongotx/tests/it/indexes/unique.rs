//! Unique indexes between pending and committed values: duplicates, conflicts, exchanges, and
//! arrays, partial, sparse and collated indexes. `interleavings.rs` has every order of short
//! transactions.

use bson::{Document, doc};
use mongotx::{ErrorKind, IndexModel};

use super::{Place, assert_duplicate, ids};

async fn place(name: &str, documents: &[Document]) -> Place {
    let place = Place::new(name).await;
    place.coll.create_index(IndexModel::new(doc! {"a": 1}).unique(true)).await.unwrap();
    for document in documents {
        place.coll.insert_one(document).await.unwrap();
    }
    place
}

#[tokio::test]
async fn insert_of_a_committed_value_is_a_duplicate_and_the_transaction_goes_on() {
    let place = place("unique_insert", &[doc! {"_id": 1, "a": 7}]).await;
    let mut session = place.begin();
    let error = place.coll.insert_one(&doc! {"_id": 2, "a": 7}).session(&mut session).await.unwrap_err();
    assert_duplicate(&error, doc! {"a": 1}, doc! {"a": 7});
    place.coll.insert_one(&doc! {"_id": 3, "a": 8}).session(&mut session).await.unwrap();
    let error = place.coll.insert_one(&doc! {"_id": 4, "a": 8}).session(&mut session).await.unwrap_err();
    assert_duplicate(&error, doc! {"a": 1}, doc! {"a": 8});
    session.commit().await.unwrap();
    assert_eq!(place.stored().await, [doc! {"_id": 1, "a": 7}, doc! {"_id": 3, "a": 8}]);
    // Outside a transaction, too.
    let error = place.coll.insert_one(&doc! {"_id": 5, "a": 8}).await.unwrap_err();
    assert_duplicate(&error, doc! {"a": 1}, doc! {"a": 8});
    assert_eq!(place.stored().await.len(), 2);
}

#[tokio::test]
async fn update_to_a_taken_value_is_a_duplicate_and_leaves_the_document_as_it_was() {
    let place = place("unique_update", &[doc! {"_id": 1, "a": 1}, doc! {"_id": 2, "a": 2}]).await;
    let mut session = place.begin();
    for update in [doc! {"$set": {"a": 1}}, doc! {"$inc": {"a": -1}}, doc! {"$mul": {"a": 0.5}}] {
        let error = place.coll.update_one(doc! {"_id": 2}, update).session(&mut session).await.unwrap_err();
        assert_eq!(error.code(), Some(11000));
        let seen = place.coll.find_one(doc! {"_id": 2}).session(&mut session).await.unwrap();
        assert_eq!(seen, Some(doc! {"_id": 2, "a": 2}));
    }
    place.coll.update_one(doc! {"_id": 2}, doc! {"$set": {"a": 3, "b": 1}}).session(&mut session).await.unwrap();
    // The second write of one document goes back to the first.
    let error = place.coll.replace_one(doc! {"_id": 2}, &doc! {"a": 1}).session(&mut session).await.unwrap_err();
    assert_duplicate(&error, doc! {"a": 1}, doc! {"a": 1});
    let seen = place.coll.find_one(doc! {"_id": 2}).session(&mut session).await.unwrap();
    assert_eq!(seen, Some(doc! {"_id": 2, "a": 3, "b": 1}));
    session.commit().await.unwrap();
    assert_eq!(place.stored().await, [doc! {"_id": 1, "a": 1}, doc! {"_id": 2, "a": 3, "b": 1}]);
}

#[tokio::test]
async fn several_inserts_without_the_field_at_a_time_do_not_meet_in_the_index() {
    let place = place("unique_null", &[]).await;
    let (mut one, mut two) = (place.begin(), place.begin());
    place.coll.insert_one(&doc! {"_id": 1, "a": 1}).session(&mut one).await.unwrap();
    place.coll.insert_one(&doc! {"_id": 2, "a": 2}).session(&mut two).await.unwrap();
    place.coll.insert_one(&doc! {"_id": 3}).session(&mut one).await.unwrap();
    // Missing counts as null, as it does on a plain server.
    let error = place.coll.insert_one(&doc! {"_id": 4}).session(&mut two).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    one.commit().await.unwrap();
    assert_eq!(ids(&place.stored().await), [1.into(), 3.into()]);
}

#[tokio::test]
async fn removed_value_is_inserted_again_in_the_same_transaction() {
    let place = place("unique_reinsert", &[doc! {"_id": 1, "a": 1}]).await;
    let mut session = place.begin();
    place.coll.delete_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    place.coll.insert_one(&doc! {"_id": 2, "a": 1}).session(&mut session).await.unwrap();
    let error = place.coll.insert_one(&doc! {"_id": 1, "a": 1}).session(&mut session).await.unwrap_err();
    assert_duplicate(&error, doc! {"a": 1}, doc! {"a": 1});
    session.commit().await.unwrap();
    assert_eq!(place.stored().await, [doc! {"_id": 2, "a": 1}]);
}

#[tokio::test]
async fn values_are_swapped_through_a_third_and_moved_along_a_chain() {
    let documents: Vec<Document> = (0..5).map(|n| doc! {"_id": n, "a": n}).collect();
    let place = place("unique_swap", &documents).await;
    let set = async |session: &mut mongotx::Session, id: i32, value: i32| {
        place.coll.update_one(doc! {"_id": id}, doc! {"$set": {"a": value}}).session(session).await
    };
    let mut session = place.begin();
    assert_eq!(set(&mut session, 0, 1).await.unwrap_err().code(), Some(11000));
    for (id, value) in [(0, 90), (1, 0), (0, 1)] {
        set(&mut session, id, value).await.unwrap();
    }
    for (id, value) in [(4, 91), (3, 4), (2, 3), (4, 2)] {
        set(&mut session, id, value).await.unwrap();
    }
    session.commit().await.unwrap();
    let values: Vec<i32> = place.stored().await.iter().map(|document| document.get_i32("a").unwrap()).collect();
    assert_eq!(values, [1, 0, 3, 4, 2]);
    assert!(place.stored().await.iter().all(|document| document.len() == 2), "every document is clean");
}

#[tokio::test]
async fn rival_with_the_same_pending_value_is_a_conflict_and_then_free_or_a_duplicate() {
    for commit in [true, false] {
        let place = place("unique_rival", &[doc! {"_id": 1, "a": 1}]).await;
        let (mut one, mut two) = (place.begin(), place.begin());
        place.coll.insert_one(&doc! {"_id": 2, "a": 2}).session(&mut one).await.unwrap();
        let error =
            place.coll.update_one(doc! {"_id": 1}, doc! {"$set": {"a": 2}}).session(&mut two).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        two.rollback().await.unwrap();
        if commit {
            one.commit().await.unwrap()
        } else {
            one.rollback().await.unwrap()
        }
        let again = place.coll.update_one(doc! {"_id": 1}, doc! {"$set": {"a": 2}}).await;
        match commit {
            true => assert_duplicate(&again.unwrap_err(), doc! {"a": 1}, doc! {"a": 2}),
            false => assert_eq!(again.unwrap().modified_count, 1),
        }
    }
}

#[tokio::test]
async fn value_that_a_rival_is_giving_up_is_waited_for() {
    let place = place("unique_given_up", &[doc! {"_id": 1, "a": 1}]).await;
    let mut one = place.begin();
    place.coll.update_one(doc! {"_id": 1}, doc! {"$set": {"a": 5}}).session(&mut one).await.unwrap();
    let mut two = place.begin();
    let error = place.coll.insert_one(&doc! {"_id": 2, "a": 1}).session(&mut two).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    // Outside a transaction it waits, and the value is free when the rival commits.
    let document = doc! {"_id": 2, "a": 1};
    let (inserted, committed) = tokio::join!(place.coll.insert_one(&document), one.commit());
    committed.unwrap();
    inserted.unwrap();
    assert_eq!(place.stored().await, [doc! {"_id": 1, "a": 5}, doc! {"_id": 2, "a": 1}]);
}

#[tokio::test]
async fn insert_many_stops_at_the_first_duplicate_or_goes_on_as_asked() {
    for ordered in [true, false] {
        let place = place("unique_many", &[doc! {"_id": 0, "a": 3}]).await;
        let documents: Vec<Document> = (1..8).map(|n| doc! {"_id": n, "a": if n == 6 { 2 } else { n }}).collect();
        let mut session = place.begin();
        let error = place.coll.insert_many(&documents).ordered(ordered).session(&mut session).await.unwrap_err();
        let refused: Vec<usize> = error.write_errors().iter().map(|error| error.index).collect();
        session.commit().await.unwrap();
        let left: Vec<i32> = place.stored().await.iter().map(|document| document.get_i32("_id").unwrap()).collect();
        match ordered {
            true => assert_eq!((refused, left), (vec![2], vec![0, 1, 2])),
            false => assert_eq!((refused, left), (vec![2, 5], vec![0, 1, 2, 4, 5, 7])),
        }
    }
}

#[tokio::test]
async fn upsert_and_find_and_modify_honour_it() {
    let place = place("unique_upsert", &[doc! {"_id": 1, "a": 1}]).await;
    let mut session = place.begin();
    let upsert = place.coll.update_one(doc! {"_id": 2}, doc! {"$set": {"a": 1}}).upsert(true);
    assert_duplicate(&upsert.session(&mut session).await.unwrap_err(), doc! {"a": 1}, doc! {"a": 1});
    let modify = place.coll.find_one_and_update(doc! {"_id": 3}, doc! {"$set": {"a": 1}}).upsert(true);
    assert_eq!(modify.session(&mut session).await.unwrap_err().code(), Some(11000));
    let upsert = place.coll.update_one(doc! {"a": 9}, doc! {"$set": {"b": 1}}).upsert(true);
    assert!(upsert.session(&mut session).await.unwrap().upserted_id.is_some());
    let many = place.coll.update_many(doc! {}, doc! {"$set": {"a": 4}}).session(&mut session).await;
    assert_duplicate(&many.unwrap_err(), doc! {"a": 1}, doc! {"a": 4});
    session.commit().await.unwrap();
    assert_eq!(place.stored().await.len(), 2);
    let outside = place.coll.update_one(doc! {"_id": 7}, doc! {"$set": {"a": 9}}).upsert(true).await;
    assert_duplicate(&outside.unwrap_err(), doc! {"a": 1}, doc! {"a": 9});
}

#[tokio::test]
async fn arrays_partial_sparse_and_collated_indexes_are_honoured() {
    let place = Place::new("unique_kinds").await;
    let unique = |keys: Document| IndexModel::new(keys).unique(true);
    place
        .coll
        .create_indexes([
            unique(doc! {"tags": 1}).sparse(true),
            unique(doc! {"p": 1}).partial_filter(doc! {"live": true}),
            unique(doc! {"name": 1})
                .collation(doc! {"locale": "en", "strength": 2})
                .partial_filter(doc! {"name": {"$exists": true}}),
            unique(doc! {"x": 1, "lines.sku": 1}).sparse(true),
        ])
        .await
        .unwrap();
    let first = doc! {"_id": 1, "tags": ["a", "b"], "p": 1, "live": true, "name": "Ann", "x": 1, "lines": [{"sku": 1}, {"sku": 2}]};
    place.coll.insert_one(&first).await.unwrap();
    let mut session = place.begin();
    for (id, document) in [
        doc! {"_id": 10, "tags": ["c", "b"]},
        doc! {"_id": 11, "p": 1, "live": true},
        doc! {"_id": 12, "name": "ANN"},
        doc! {"_id": 13, "x": 1, "lines": [{"sku": 3}, {"sku": 2}]},
    ]
    .into_iter()
    .enumerate()
    {
        let error = place.coll.insert_one(&document).session(&mut session).await.unwrap_err();
        assert_eq!(error.code(), Some(11000), "{id}: {error}");
    }
    for document in [
        doc! {"_id": 20, "tags": ["c"]},
        doc! {"_id": 21},
        doc! {"_id": 22, "p": 1, "live": false},
        doc! {"_id": 23, "p": 1},
        doc! {"_id": 24, "name": "Bob"},
        doc! {"_id": 25, "x": 1, "lines": [{"sku": 3}]},
    ] {
        place.coll.insert_one(&document).session(&mut session).await.unwrap();
    }
    let collated = place.coll.insert_one(&doc! {"_id": 26, "name": "bOB"}).session(&mut session).await.unwrap_err();
    assert_eq!(collated.code(), Some(11000), "{collated}");
    let lives = place.coll.update_one(doc! {"_id": 22}, doc! {"$set": {"live": true}});
    assert_duplicate(&lives.session(&mut session).await.unwrap_err(), doc! {"p": 1}, doc! {"p": 1});
    session.commit().await.unwrap();
    assert_eq!(place.stored().await.len(), 7);
}

/// The value that keeps waiting documents apart must be no null, and no string that a collation
/// takes for another.
#[tokio::test]
async fn waiting_documents_with_any_ids_are_kept_apart() {
    let place = Place::new("unique_ids").await;
    let (sparse, collated) = (mongotx::IndexModel::new(doc! {"s": 1}), mongotx::IndexModel::new(doc! {"c": 1}));
    place.coll.create_index(sparse.unique(true).sparse(true)).await.unwrap();
    place.coll.create_index(collated.unique(true).collation(doc! {"locale": "en", "strength": 2})).await.unwrap();
    place.coll.insert_one(&doc! {"_id": 1, "s": bson::Bson::Null}).await.unwrap();
    let mut session = place.begin();
    for (n, id) in [bson::Bson::Null, "b".into(), "B".into(), doc! {"x": "b"}.into(), doc! {"x": "B"}.into()]
        .into_iter()
        .enumerate()
    {
        let document = doc! {"_id": id, "c": n as i32};
        place.coll.insert_one(&document).session(&mut session).await.unwrap();
    }
    let upsert = place.coll.update_one(doc! {"_id": "É"}, doc! {"$set": {"c": 10}}).upsert(true);
    assert!(upsert.session(&mut session).await.unwrap().upserted_id.is_some());
    let upsert = place.coll.update_one(doc! {"_id": "é"}, vec![doc! {"$set": {"c": 11}}]).upsert(true);
    assert!(upsert.session(&mut session).await.unwrap().upserted_id.is_some());
    session.commit().await.unwrap();
    // The values of two documents are exchanged, one of which has a null for its `_id`.
    session.begin().unwrap();
    for (id, c) in [(bson::Bson::Null, 99), ("b".into(), 0), (bson::Bson::Null, 1)] {
        let update = place.coll.update_one(doc! {"_id": id}, doc! {"$set": {"c": c}});
        assert_eq!(update.session(&mut session).await.unwrap().modified_count, 1);
    }
    session.commit().await.unwrap();
    let stored = place.stored().await;
    assert_eq!(stored.len(), 8);
    assert!(stored.iter().all(|document| document.len() == 2), "{stored:?}");
}
