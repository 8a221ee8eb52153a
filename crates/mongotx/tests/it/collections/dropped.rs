//! Dropping a collection: it waits for locks, forgets what the client knew, and is refused for
//! records of clients and for the storage of time series.

use bson::doc;
use mongotx::{ErrorKind, IndexModel};

use crate::place::Place;

#[tokio::test]
async fn drop_waits_until_nothing_is_locked() {
    let place = Place::new("dropped_locked").await;
    place.coll("c").insert_many(&[doc! {"_id": 1}, doc! {"_id": 2}]).await.unwrap();
    for commit in [false, true] {
        let mut session = place.begin();
        place.coll("c").update_one(doc! {"_id": 1}, doc! {"$set": {"n": 1}}).session(&mut session).await.unwrap();
        let error = place.coll("c").drop().await.unwrap_err();
        assert_eq!((error.kind(), error.conflict().unwrap().rival), (ErrorKind::Conflict, session.id().unwrap()));
        assert_eq!(place.ours.drop().await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(place.ours.list_collection_names().await.unwrap(), ["c"]);
        if commit { session.commit().await } else { session.rollback().await }.unwrap();
    }
    assert_eq!(place.stored("c").await, [doc! {"_id": 1, "n": 1}, doc! {"_id": 2}]);
    place.coll("c").drop().await.unwrap();
    assert!(place.ours.list_collection_names().await.unwrap().is_empty());
    place.coll("c").drop().await.unwrap();
}

/// Without a new look, the next transaction would take care of an index that is not there any more.
#[tokio::test]
async fn what_was_known_of_a_dropped_collection_is_forgotten() {
    let place = Place::new("dropped_known").await;
    let coll = place.coll("c");
    coll.create_index(IndexModel::new(doc! {"a": 1}).unique(true)).await.unwrap();
    coll.insert_one(&doc! {"a": 1}).await.unwrap();
    assert_eq!(coll.insert_one(&doc! {"a": 1}).await.unwrap_err().code(), Some(11000));
    assert!(place.client.flush(std::time::Duration::from_secs(20)).await);
    coll.drop().await.unwrap();
    let mut session = place.begin();
    coll.insert_many(&[doc! {"_id": 1, "a": 1}, doc! {"_id": 2, "a": 1}]).session(&mut session).await.unwrap();
    assert_eq!(coll.count_documents(doc! {}).session(&mut session).await.unwrap(), 2);
    session.commit().await.unwrap();
    assert_eq!(coll.count_documents(doc! {}).await.unwrap(), 2);
    assert!(place.client.flush(std::time::Duration::from_secs(20)).await);
    place.ours.drop().await.unwrap();
    assert!(coll.list_index_names().await.unwrap().is_empty());
    coll.insert_one(&doc! {"a": 1}).await.unwrap();
    let indexes: Vec<String> = place.plain.collection::<bson::Document>("c").list_index_names().await.unwrap();
    assert_eq!(indexes, ["_id_"]);
    assert_eq!(coll.find(doc! {"a": 1}).await.unwrap().try_collect().await.unwrap().len(), 1);
    let indexes: Vec<String> = place.plain.collection::<bson::Document>("c").list_index_names().await.unwrap();
    assert_eq!(indexes, ["_id_", "_mongotx_pending"], "made again where it had been known");
}

#[tokio::test]
async fn records_and_the_storage_of_time_series_are_not_dropped() {
    let place = Place::new("dropped_never").await;
    let records = place.client.database("mongotx");
    assert_eq!(records.drop().await.unwrap_err().kind(), ErrorKind::Unsupported);
    let error = records.collection::<bson::Document>("txs").drop().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("records"), "{error}");
    place.ours.create_collection("series").option("timeseries", doc! {"timeField": "at"}).await.unwrap();
    let error = place.coll("system.buckets.series").drop().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("time series"), "{error}");
    place.coll("series").drop().await.unwrap();
    assert!(!place.ours.list_collection_names().await.unwrap().iter().any(|name| name.contains("series")));
}
