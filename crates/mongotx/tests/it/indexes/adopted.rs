//! Indexes that were made without MongoTx: the first write of a transaction stores them in the form
//! that transactions need.

use std::{collections::BTreeMap, time::Duration};

use bson::{Bson, Document, doc};
use mongodb::{IndexModel, options::IndexOptions};

use super::{Place, assert_duplicate};

async fn plain_index(place: &Place, keys: Document, options: IndexOptions) {
    place.plain.create_index(IndexModel::builder().keys(keys).options(options).build()).await.unwrap();
}

#[tokio::test]
async fn unique_index_made_without_mongotx_is_honoured_from_the_first_write_on() {
    let place = Place::new("adopted_unique").await;
    plain_index(&place, doc! {"a": 1}, IndexOptions::builder().unique(true).build()).await;
    place.plain.insert_one(doc! {"_id": 1, "a": 1}).await.unwrap();
    let mut session = place.begin();
    for id in [2, 3] {
        place.coll.insert_one(&doc! {"_id": id, "a": id}).session(&mut session).await.unwrap();
    }
    let error = place.coll.insert_one(&doc! {"_id": 4, "a": 1}).session(&mut session).await.unwrap_err();
    assert_duplicate(&error, doc! {"a": 1}, doc! {"a": 1});
    session.commit().await.unwrap();
    assert_eq!(place.stored().await.len(), 3);
    let listed = place.coll.list_indexes().await.unwrap();
    assert_eq!(listed.iter().map(|index| index.keys()).collect::<Vec<_>>(), [doc! {"_id": 1}, doc! {"a": 1}]);
    // The plain driver meets it, too.
    assert!(place.plain.insert_one(doc! {"_id": 5, "a": 2}).await.is_err());
}

#[tokio::test]
async fn expiry_and_special_indexes_made_without_mongotx_are_adopted() {
    let place = Place::new("adopted_special").await;
    let ttl = IndexOptions::builder().expire_after(Duration::from_secs(60)).build();
    plain_index(&place, doc! {"at": 1}, ttl).await;
    plain_index(&place, doc! {"loc": "2dsphere"}, IndexOptions::default()).await;
    plain_index(&place, doc! {"h": "hashed"}, IndexOptions::default()).await;
    plain_index(&place, doc! {"x": 1, "y": 1}, IndexOptions::default()).await;
    let before = place.coll.list_index_names().await.unwrap();
    let mut session = place.begin();
    place.coll.insert_one(&doc! {"_id": 1}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    let mut after = place.coll.list_index_names().await.unwrap();
    assert_eq!(after.len(), before.len());
    after.retain(|name| !before.contains(name));
    assert!(after.is_empty(), "{after:?}");
    let stored = place.stored_index_names().await;
    for name in
        ["_mongotx_ttl.at_1", "_mongotx_unsafe.loc_2dsphere", "_mongotx_unsafe.h_hashed", "_mongotx_unsafe.x_1_y_1"]
    {
        assert!(stored.iter().any(|stored| stored == name), "{name} in {stored:?}");
    }
}

/// Stored indexes by their names.
async fn stored_indexes(place: &Place) -> BTreeMap<String, Document> {
    let listed = place.db.run_command(doc! {"listIndexes": "c"}).await.unwrap();
    let listed = listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    let spec = |index: &Bson| index.as_document().unwrap().clone();
    listed.iter().map(spec).map(|spec| (spec.get_str("name").unwrap().to_owned(), spec)).collect()
}

/// A transaction that writes to the collection.
async fn write(place: &Place, id: i32) {
    let mut session = place.begin();
    place.coll.insert_one(&doc! {"_id": id}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
}

/// Lets the client forget what it knew of the collection.
async fn forget(place: &Place) {
    place.coll.create_index(mongotx::IndexModel::new(doc! {"other": 1})).await.unwrap();
    place.coll.drop_index("other_1").await.unwrap();
}

#[tokio::test]
async fn what_was_changed_or_dropped_since_the_last_look_does_not_come_back() {
    let place = Place::new("adopted_looked_up").await;
    write(&place, 1).await;
    let ttl = || IndexOptions::builder().expire_after(Duration::from_secs(60)).build();
    let validator = |most: i32| doc! {"collMod": "c", "validator": {"_id": {"$lte": most}}};
    forget(&place).await;
    place.db.run_command(validator(1)).await.unwrap();
    plain_index(&place, doc! {"at": 1}, ttl()).await;
    // The client looks the collection up now.
    assert!(place.coll.find_one(doc! {"n": 0}).await.unwrap().is_none());
    place.db.run_command(validator(100)).await.unwrap();
    place.plain.drop_index("at_1").await.unwrap();
    write(&place, 2).await;
    let listed = place.db.run_command(doc! {"listCollections": 1, "filter": {"name": "c"}}).await.unwrap().to_string();
    assert!(listed.contains("100"), "{listed}");
    let stored = stored_indexes(&place).await;
    assert!(stored.keys().all(|name| !name.contains("at_1")), "{stored:?}");
}

#[tokio::test]
async fn an_expiry_that_another_program_sets_spares_locked_documents_too() {
    let place = Place::new("adopted_expires_twice").await;
    place
        .coll
        .create_index(mongotx::IndexModel::new(doc! {"at": 1}).expire_after(Duration::from_secs(60)))
        .await
        .unwrap();
    let change = doc! {"collMod": "c", "index": {"name": "at_1", "expireAfterSeconds": 3_600}};
    place.db.run_command(change).await.unwrap();
    forget(&place).await;
    write(&place, 1).await;
    let stored = stored_indexes(&place).await;
    assert!(!stored["at_1"].contains_key("expireAfterSeconds"), "{stored:?}");
    let guarded = &stored["_mongotx_ttl.at_1"];
    assert_eq!(guarded.get_i32("expireAfterSeconds").unwrap(), 3_600, "{stored:?}");
    let listed = place.coll.list_indexes().await.unwrap();
    assert_eq!(listed.iter().filter(|index| index.keys().contains_key("at")).count(), 1);
}

#[tokio::test]
async fn indexes_that_compare_bytes_do_so_still_in_a_collection_with_a_collation() {
    let place = Place::new("adopted_simple").await;
    let create = doc! {"create": "c", "collation": {"locale": "en", "strength": 2}};
    place.db.run_command(create).await.unwrap();
    let simple = || mongodb::options::Collation::builder().locale("simple").build();
    let some = doc! {"kind": "temp"};
    let expiring = IndexOptions::builder().expire_after(Duration::from_secs(3_600)).partial_filter_expression(some);
    plain_index(&place, doc! {"at": 1}, expiring.collation(simple()).build()).await;
    plain_index(&place, doc! {"u": 1}, IndexOptions::builder().unique(true).collation(simple()).build()).await;
    let mut session = place.begin();
    for (id, name) in [(1, "a"), (2, "A")] {
        place.coll.insert_one(&doc! {"_id": id, "u": name}).session(&mut session).await.unwrap();
    }
    let error = place.coll.insert_one(&doc! {"_id": 3, "u": "A"}).session(&mut session).await.unwrap_err();
    assert_eq!(error.code(), Some(11000), "{error}");
    session.commit().await.unwrap();
    let mut session = place.begin();
    place.coll.insert_one(&doc! {"_id": 4, "u": "B"}).session(&mut session).await.unwrap();
    place.coll.update_one(doc! {"_id": 1}, doc! {"$set": {"u": "b"}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    assert_eq!(place.stored().await.len(), 3);
    let stored = stored_indexes(&place).await;
    let own = ["_mongotx_ttl.at_1", "at_1", "_mongotx_unique.u_1", "_mongotx_unsafe.u_1"];
    for name in own {
        assert!(!stored[name].contains_key("collation"), "{name}: {stored:?}");
    }
}
