//! Indexes that were made without MongoTx: the first write of a transaction stores them in the form
//! that transactions need.

use bson::{Document, doc};
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
    let ttl = IndexOptions::builder().expire_after(std::time::Duration::from_secs(60)).build();
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
